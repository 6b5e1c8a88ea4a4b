package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A failingListener fails to accept as long as fails does not say otherwise.
type failingListener struct {
	*memnet.Listener
	fails func() error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if err := l.fails(); err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}

func outOfFiles() error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept", syscall.EMFILE)}
}

func TestServeBacksOffWhenAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			tries []time.Time
			log   bytes.Buffer
		)
		l := &failingListener{Listener: memnet.Listen()}
		l.fails = func() error {
			if tries = append(tries, time.Now()); len(tries) > 12 {
				return nil
			}
			return outOfFiles()
		}
		s := &Server{Acceptor: newHolding(), Options: &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		closes(t, s, func() error { return s.Serve(l) })
		nc, err := l.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		ask(t, client(t, nc, Lines, nil), 1, protocol.MethodPing, nil)
		synctest.Wait() // it waits for the next client
		for i := range 12 {
			most := min(5*time.Millisecond<<i, time.Second)
			if wait := tries[i+1].Sub(tries[i]); wait > most || wait < most*4/5 {
				t.Errorf("it waits %v after %d failures, want %v or up to a fifth less", wait, i+1, most)
			}
		}
		if n := strings.Count(log.String(), "cannot accept"); n != 1 {
			t.Errorf("it says %d times that it cannot accept clients:\n%s", n, &log)
		}
	})
}

func TestCloseEndsTheWaitOfAListenerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Acceptor: newHolding()}
		served := make(chan error, 1)
		go func() { served <- s.Serve(&failingListener{memnet.Listen(), outOfFiles}) }() // ends with s
		time.Sleep(time.Minute)
		synctest.Wait() // it waits for its next attempt
		from := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) || time.Since(from) != 0 {
			t.Errorf("Serve returns %v, %v after Close", err, time.Since(from))
		}
	})
}

func TestServeEndsWithAListenerThatIsClosed(t *testing.T) {
	for _, broken := range []error{net.ErrClosed, errors.New("broken for good")} {
		s := &Server{Acceptor: newHolding()}
		if err := s.Serve(&failingListener{memnet.Listen(), func() error { return broken }}); !errors.Is(err, broken) {
			t.Errorf("Serve returns %v, want %v", err, broken)
		}
	}
}

func TestSocketHangsUpOnHTTPBeforeItReadsAMessage(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	post := "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 41\r\n\r\n" + call
	for _, test := range []struct {
		name   string
		chunks []string
		served bool
	}{
		{"a message", []string{call}, true},
		{"a message after an empty line", []string{"\n", call}, true},
		{"a message with a header", []string{"Content-Length: 41\r\n\r\n" + call}, true},
		{"a message with a header in capitals", []string{"CONTENT-LENGTH: 41\r\n\r\n" + call}, true},
		{"a message after a line of capitals", []string{"HELLO\n", call}, true},
		{"POST", []string{post}, false},
		{"POST in pieces", []string{"PO", "ST", " / HTTP/1.1\r\n\r\n" + call}, false},
		{"GET", []string{"GET / HTTP/1.1\r\n\r\n" + call}, false},
		{"OPTIONS", []string{"OPTIONS * HTTP/1.1\r\n\r\n" + call}, false},
		{"HTTP/2", []string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + call}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			peertest.NoLeak(t)
			var asked atomic.Int32
			s := &Server{Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
				return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
					asked.Add(1)
					return req.Reply(struct{}{})
				}}, nil
			})}
			l, err := Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }() // until Close
			t.Cleanup(func() {
				_ = s.Close()
				if err := <-served; !errors.Is(err, ErrServerClosed) {
					t.Errorf("Serve returned %v", err)
				}
			})
			nc, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			for _, chunk := range test.chunks {
				if _, err := io.WriteString(nc, chunk); err != nil && test.served {
					t.Fatal(err)
				}
			}
			if !test.served {
				got, err := io.ReadAll(nc)
				if errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 0 || asked.Load() > 0 {
					t.Errorf("it is answered %q (%v), and %d requests are served", got, err, asked.Load())
				}
				return
			}
			var got strings.Builder
			buf := make([]byte, 4096)
			for !strings.Contains(got.String(), `"id":1`) {
				n, err := nc.Read(buf)
				got.Write(buf[:n])
				if err != nil {
					t.Fatalf("it is answered %q (%v)", got.String(), err)
				}
			}
		})
	}
}
