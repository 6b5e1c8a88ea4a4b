package mux

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// An inbox holds notifications that wait for the local peer.
type inbox struct {
	mu      sync.Mutex
	work    sync.Cond
	notes   noteQueue
	closed  bool
	dropcnt uint64
	ended   chan struct{} // closed when deliver has returned
}

func newInbox() *inbox {
	b := &inbox{ended: make(chan struct{})}
	b.work.L = &b.mu
	return b
}

// put queues a notification, and tells whether there was room.
func (b *inbox) put(note *dragoman.Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	if !b.notes.put(note) {
		b.dropcnt++
		return false
	}
	b.work.Signal()
	return true
}

// deliver tells the local peer, in order, until the inbox is closed.
func (c *Conn) deliver() {
	b := c.in
	defer close(b.ended)
	for {
		b.mu.Lock()
		for len(b.notes.list) == 0 && !b.closed {
			b.work.Wait()
		}
		notes := b.notes.take()
		b.mu.Unlock()
		if len(notes) == 0 {
			return
		}
		for _, note := range notes {
			tell(c.ctx, c.local, note, c.opts.Logger)
			c.releaseHeld(note)
		}
	}
}

// tell tells peer. One that panics has at least been told.
func tell(ctx context.Context, peer dragoman.Peer, note *dragoman.Message, log *slog.Logger) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic while taking a notification", "method", note.Method(), "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if err := peer.Notify(ctx, note); err != nil {
		log.Debug("notification not taken", "method", note.Method(), "error", err)
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
