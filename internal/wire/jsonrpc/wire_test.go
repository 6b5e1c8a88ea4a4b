package jsonrpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// A wire is a stream in memory, and the other side's view of it: the test
// reads what the Conn wrote from sent, and writes to got.
type wire struct {
	got  chan []byte
	sent chan string
	hold chan struct{} // Write waits for it, if not nil

	peer *wire // reads what is written, if not nil

	mu  sync.Mutex
	ids []string // of the requests that were written

	once   sync.Once
	closed chan struct{}
	writes [][]string // owned by Write until the wire is closed
}

func newWire() *wire {
	return &wire{got: make(chan []byte), sent: make(chan string, 4096), closed: make(chan struct{})}
}

func (w *wire) Read() ([]byte, error) {
	select {
	case b, ok := <-w.got:
		if !ok {
			return nil, io.EOF
		}
		return b, nil
	case <-w.closed:
		return nil, io.ErrClosedPipe
	case <-w.other():
		return nil, io.EOF
	}
}

// other is closed when the other side is.
func (w *wire) other() <-chan struct{} {
	if w.peer == nil {
		return nil
	}
	return w.peer.closed
}

func (w *wire) Write(frames []jsonrpc.Frame) error {
	if w.hold != nil {
		select {
		case <-w.hold:
		case <-w.closed:
			return io.ErrClosedPipe
		}
	}
	var together []string
	for _, f := range frames {
		b := f.AppendTo(nil)
		if len(b) != f.Len() {
			panic(fmt.Sprintf("Len is %d, but there are %d bytes", f.Len(), len(b)))
		}
		if w.peer != nil {
			select {
			case w.peer.got <- b:
			case <-w.peer.closed:
				return io.ErrClosedPipe
			case <-w.closed:
				return io.ErrClosedPipe
			}
			continue
		}
		together = append(together, string(b))
		w.note(b)
		w.sent <- string(b)
	}
	w.writes = append(w.writes, together)
	return nil
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// note keeps the id of a request. Ids differ in every run, so in texts #1 stands for
// that of the first request that the Conn wrote.
func (w *wire) note(frame []byte) {
	if m, err := dragoman.Parse(frame); err == nil && m.Kind() == dragoman.Request {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ids = append(w.ids, m.ID().String())
	}
}

// real returns text with ids in the place of what stands for them.
func (w *wire) real(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, id := range w.ids {
		text = strings.ReplaceAll(text, fmt.Sprintf("#%d", i+1), id)
	}
	return text
}

// say makes the Conn read text.
func (w *wire) say(text string) {
	select {
	case w.got <- []byte(w.real(text)):
	case <-w.closed:
	}
}

// hear returns the next message that the Conn wrote.
func (w *wire) hear(t *testing.T) *dragoman.Message {
	t.Helper()
	return peertest.Parse(t, await(t, w.sent))
}

// hearText is hear for the message's text, with what stands for ids.
func (w *wire) hearText(t *testing.T) string {
	t.Helper()
	text := await(t, w.sent)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, id := range w.ids {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("#%d", i+1))
	}
	return text
}

// start returns a Conn over a new wire, which is closed with the test.
func start(t *testing.T, local dragoman.Peer, opts *jsonrpc.Options) (*jsonrpc.Conn, *wire) {
	t.Helper()
	peertest.NoLeak(t)
	w := newWire()
	c := jsonrpc.New(w, opts)
	c.Start(local)
	t.Cleanup(func() { _ = c.Close() })
	return c, w
}

// A reply is what a Call returned.
type reply struct {
	resp *dragoman.Message
	err  error
}

// call calls in the background.
func call(ctx context.Context, c dragoman.Peer, req *dragoman.Message, from dragoman.Peer) <-chan reply {
	ch := make(chan reply, 1)
	go func() {
		resp, err := c.Call(ctx, req, from)
		ch <- reply{resp, err}
	}()
	return ch
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("waited too long")
		panic("unreachable")
	}
}

// notes is a Peer that keeps what it is told.
type notes chan *dragoman.Message

func (n notes) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(json.RawMessage(`{"asked":"` + req.Method() + `"}`))
}

func (n notes) Notify(_ context.Context, note *dragoman.Message) error {
	n <- note
	return nil
}

// echo answers every request with its params.
var echo = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(req.Params())
}}
