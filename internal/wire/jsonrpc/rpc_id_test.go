package jsonrpc

import (
	"math"
	"testing"
)

// The ids come again at some time, and stay what they are.
func TestIdsHaveTenDigitsForever(t *testing.T) {
	var c counter
	for _, at := range []uint32{0, 1<<30 - 3, 1<<31 - 3, 3<<30 - 3, math.MaxUint32 - 3} {
		c.last.Store(at)
		for range 6 {
			if id := c.next(); id < 1_000_000_000 || id > math.MaxInt32 {
				t.Errorf("behind %d comes the id %d", at, id)
			}
		}
	}
}
