package limit

import (
	"context"
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

// Release gives room back.
func (b *Bytes) Release(key string, n int64) {
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

// A Hold is what one reader holds of a Bytes. It is not safe for use by several goroutines. A nil *Hold
// has room for everything.
type Hold struct {
	room  *Bytes
	key   string
	taken int64
}

// Grow has the reader hold at least n bytes. The error is that of Take.
func (h *Hold) Grow(n int64) error {
	if h == nil || n <= h.taken {
		return nil
	}
	if err := h.room.Take(h.key, n-h.taken); err != nil {
		return err
	}
	h.taken = n
	return nil
}

// Release gives all of it back.
func (h *Hold) Release() {
	if h != nil && h.taken > 0 {
		h.room.Release(h.key, h.taken)
		h.taken = 0
	}
}

type holdKey struct{}

// WithRoom returns the context of a connection whose messages are counted for a key while they are
// read.
func WithRoom(ctx context.Context, room *Bytes, key string) context.Context {
	return context.WithValue(ctx, holdKey{}, &Hold{room: room, key: key})
}

// HoldOf returns the Hold of a connection with that context, or nil.
func HoldOf(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}
