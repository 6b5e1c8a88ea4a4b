//go:build unix

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An ending is what a call has come to.
type ending struct {
	text string
	err  error
	took time.Duration
}

// begin calls a tool and returns where its ending will come.
func begin(ctx context.Context, c *gatewaytest.Client, tool string, arguments object) <-chan ending {
	done := make(chan ending, 1)
	from := time.Now()
	go func() { // ends with the call, which ctx bounds
		text, err := c.Tool(ctx, tool, arguments)
		done <- ending{text, err, time.Since(from)}
	}()
	return done
}

// count begins a call that is in the journal when it returns.
func (s *fixture) count(c *gatewaytest.Client, key string, ms int) <-chan ending {
	s.Helper()
	done := begin(s.ctx, c, "count", object{"key": key, "ms": ms})
	s.runs(key)
	return done
}

// runs waits until a call is carried out.
func (s *fixture) runs(key string) { s.Helper(); s.written(fault.Ran, key) }

// written waits until something is in the journal.
func (s *fixture) written(what, key string) {
	s.Helper()
	gatewaytest.Eventually(s.T, func() error {
		if len(s.journal.Of(what, key)) == 0 {
			return fmt.Errorf("nobody has written that %q %s", key, what)
		}
		return nil
	})
}

// fails fails the test unless a call comes to an error of ours in time.
func fails(t *testing.T, done <-chan ending, within time.Duration, code int, outcome string) {
	t.Helper()
	from := time.Now()
	select {
	case e := <-done:
		failed(t, e.err, code, outcome)
	case <-time.After(2 * gatewaytest.Patience):
		t.Fatalf("the call has no answer, want error %d", code)
	}
	if took := time.Since(from); gatewaytest.Exceeds(took, within) {
		t.Errorf("the call has its answer after %v, want %v", took, within)
	}
}

func failed(t *testing.T, err error, code int, outcome string) {
	t.Helper()
	if c, o := gatewaytest.Outcome(err); c != code || o != outcome {
		t.Errorf("got %v with outcome %q, want error %d with outcome %q", err, o, code, outcome)
	}
}

// ends waits for a call that must succeed, and returns its text.
func ends(t *testing.T, done <-chan ending) string {
	t.Helper()
	select {
	case e := <-done:
		if e.err != nil {
			t.Fatal(e.err)
		}
		return e.text
	case <-time.After(2 * gatewaytest.Patience):
		t.Fatal("the call has no answer")
		return ""
	}
}

// says calls a tool, which must succeed.
func says(ctx context.Context, t *testing.T, c *gatewaytest.Client, tool string, arguments object) string {
	t.Helper()
	text, err := c.Tool(ctx, tool, arguments)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return text
}

// echoes fails the test unless echo works.
func echoes(ctx context.Context, t *testing.T, c *gatewaytest.Client, text string) {
	t.Helper()
	if got := says(ctx, t, c, "echo", object{"text": text}); got != text {
		t.Errorf("echo says %q, want %q", got, text)
	}
}

// recovers fails the test unless echo works again after an accident. Calls that come
// before anybody can know of it may be lost, which the client is told.
func recovers(ctx context.Context, t *testing.T, c *gatewaytest.Client) {
	t.Helper()
	if err := gatewaytest.Until(gatewaytest.Patience, func() error {
		_, err := c.Tool(ctx, "echo", object{"text": "again"})
		switch code, _ := gatewaytest.Outcome(err); {
		case err == nil, code == protocol.CodeLost, code == protocol.CodeUnavailable:
		default:
			t.Fatalf("after the accident: %v", err)
		}
		return err
	}); err != nil {
		t.Fatalf("it does not come back: %v", err)
	}
}

// who returns the process that answers a client.
func who(ctx context.Context, t *testing.T, c *gatewaytest.Client) (p fault.Process) {
	t.Helper()
	if err := json.Unmarshal([]byte(says(ctx, t, c, "whoami", nil)), &p); err != nil {
		t.Fatal(err)
	}
	return p
}
