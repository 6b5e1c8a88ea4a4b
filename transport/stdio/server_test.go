package stdio

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/memnet"
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
