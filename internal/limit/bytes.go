package limit

import (
	"errors"
	"sync"
)

// Why there is no room in a Bytes.
var (
	ErrLarge = errors.New("limit: larger than the share of a key")
	ErrShare = errors.New("limit: the key has used its share")
	ErrRoom  = errors.New("limit: there is no room")
)

// A Bytes bounds how many bytes are held at once: in all, and for each key, so that one key
// never uses the room of all. A nil *Bytes has room for everything.
type Bytes struct {
	all, each int64

	mu   sync.Mutex
	used int64            // guarded by mu
	of   map[string]int64 // by key; guarded by mu
}

// NewBytes returns a bound of so many bytes in all, half of which one key may have. It is nil if
// all is not positive.
func NewBytes(all int64) *Bytes {
	if all <= 0 {
		return nil
	}
	return &Bytes{all: all, each: all / 2, of: make(map[string]int64)}
}

// Take takes room for n bytes until Give. The error is ErrLarge, ErrShare or ErrRoom.
func (b *Bytes) Take(key string, n int64) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case n > b.each:
		return ErrLarge
	case b.of[key]+n > b.each:
		return ErrShare
	case b.used+n > b.all:
		return ErrRoom
	}
	b.used += n
	b.of[key] += n
	return nil
}

// Share returns how many bytes one key may have.
func (b *Bytes) Share() int64 { return b.each }

// Give gives room back.
func (b *Bytes) Give(key string, n int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.of[key] -= n; b.of[key] <= 0 {
		delete(b.of, key)
	}
}
