package mux

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// An inbox holds notifications that wait for the local peer.
type inbox struct {
	mu      sync.Mutex
	work    sync.Cond
	notes   []*dragoman.Message
	closed  bool
	dropcnt uint64
	ended   chan struct{} // closed when deliver has returned
}

func newInbox() *inbox {
	b := &inbox{ended: make(chan struct{})}
	b.work.L = &b.mu
	return b
}

// put queues a notification. When there is no room, it is dropped.
func (b *inbox) put(note *dragoman.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.notes)
	switch {
	case b.closed:
	case n < maxNotes:
		b.notes = append(b.notes, note)
		b.work.Signal()
	case bytes.Equal(b.notes[n-1].Bytes(), note.Bytes()): // the same change twice
	default:
		b.dropcnt++
	}
}

// deliver tells peer, in order, until the inbox is closed.
func (b *inbox) deliver(ctx context.Context, peer dragoman.Peer) {
	defer close(b.ended)
	for {
		b.mu.Lock()
		for len(b.notes) == 0 && !b.closed {
			b.work.Wait()
		}
		notes := b.notes
		b.notes = nil
		b.mu.Unlock()
		if len(notes) == 0 {
			return
		}
		for _, note := range notes {
			_ = peer.Notify(ctx, note)
		}
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.work.Broadcast()
}

// wait returns when deliver has ended, or after limit.
func (b *inbox) wait(limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-b.ended:
	case <-t.C:
	}
}

func (b *inbox) dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropcnt
}
