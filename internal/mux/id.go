package mux

import (
	"math/rand/v2"
	"sync/atomic"
)

// idBits is how many bits of an id count. The one above them is always set: ids
// lie beyond all that others come to who count from 1, and all have ten digits. With
// it they fit into an int32, which is all that some servers have for them.
const idBits = 30

// A counter mints ids, which come again after 2³⁰.
type counter struct{ last atomic.Uint32 }

func (c *counter) next() int64 { return 1<<idBits | int64(c.last.Add(1)&(1<<idBits-1)) }

// minted counts for all conversations of the process. It begins anywhere, so that
// two processes that speak to one server hardly ever use the same ids.
var minted = func() *counter {
	c := new(counter)
	c.last.Store(rand.Uint32())
	return c
}()

// NewID returns an id for a request of ours that is none of those in open. No other
// conversation of this process uses it: there are servers that send each answer to
// all of their clients, and whoever had asked something under the same id would
// take it for its own.
func NewID[Call any](open map[int64]Call) int64 {
	for {
		id := minted.next()
		if _, used := open[id]; !used {
			return id
		}
	}
}
