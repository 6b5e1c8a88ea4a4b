//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// limit is how long a call may take until it must have come to an end: what the
// servers may take, and what a queue and a backoff may add.
const limit = 60 * time.Second

// listen serves a fault server over HTTP, and returns its address.
func listen(t *testing.T, mode string, j fault.Journal) string {
	t.Helper()
	s := fault.New(&fault.Options{Revisions: fault.Revisions(mode), Journal: j, Exit: func() {}})
	h := s.Handler()
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ctx)
		_ = s.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return web.Listener.Addr().String()
}

// client comes, calls a while, leaves, and comes again elsewhere.
func (w *world) client(phase string, i int, stop <-chan struct{}) {
	era := kit.Eras[i%2]
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		server, way := names[rand.IntN(len(names))], w.way(era)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		c, err := kit.Dial(ctx, w.gateway.Dialer(server, way), fmt.Sprint("client ", i), era)
		if err == nil {
			for m := range 1 + rand.IntN(20) {
				if err = w.call(c, server, way, fmt.Sprintf("%s/%d/%d/%d", phase, i, n, m)); err != nil {
					break
				}
			}
			_ = c.Conn.Close()
		} else {
			w.note(err, "to connect over "+way)
		}
		cancel()
	}
}

func (w *world) way(era protocol.Era) string {
	if era == protocol.Modern {
		return []string{kit.HTTP, kit.WS}[rand.IntN(2)]
	}
	return []string{kit.HTTP, kit.WS, kit.SSE}[rand.IntN(3)]
}

// call makes one call. An error means that the client must connect anew.
func (w *world) call(c *kit.Client, server, way, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	where := fmt.Sprintf("of a %s client of %q over %s", c.Revision.Era(), server, way)
	if server == "" {
		server = names[rand.IntN(10)] + "_"
		where += ", there " + server
	} else {
		server = ""
	}
	var got, want, tool string
	var err error
	switch rand.IntN(10) {
	case 0:
		tool = "tools/list"
		_, err = c.Tools(ctx)
	case 1, 2, 3:
		tool, want = "count", key
		got, err = c.Tool(ctx, server+tool, object{"key": key, "ms": rand.IntN(50)})
	case 4:
		tool, want = "sleep", key
		got, err = c.Tool(ctx, server+tool, object{"text": key, "ms": rand.IntN(300)})
	case 5:
		tool, want = "notify", "10"
		got, err = c.Tool(ctx, server+tool, object{"n": 10})
	case 6:
		tool, want = "serverreq", "file:///"+c.Name
		got, err = c.Tool(ctx, server+tool, nil)
	case 7: // it loses interest
		tool = "cancelled"
		soon, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
		defer cancel()
		if _, err = c.Tool(soon, server+"sleep", object{"ms": 1000}); soon.Err() != nil {
			err = nil
		}
	case 8:
		tool, want = "echo", strings.Repeat(key+" ", rand.IntN(20_000))
		got, err = c.Tool(ctx, server+tool, object{"text": want})
	default:
		tool, want = "echo", key
		got, err = c.Tool(ctx, server+tool, object{"text": key})
	}
	if err == nil && got != want {
		w.problem("%s says %.100q instead of %.100q", tool, got, want)
	}
	if code, _ := kit.Outcome(err); code == protocol.CodeTimeout || code == protocol.CodeInternal {
		w.mu.Lock()
		if len(w.odd) < 20 {
			w.odd = append(w.odd, fmt.Sprintf("%s %s: %v", tool, where, err))
		}
		w.mu.Unlock()
	}
	return w.note(err, tool)
}

// note writes down what a call has come to, and returns an error if the conversation
// is over.
func (w *world) note(err error, what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if err == nil {
		w.ok++
		return nil
	}
	code, outcome := kit.Outcome(err)
	told, isTold := errors.AsType[*kit.ToolError](err)
	status, isStatus := errors.AsType[*streamable.HTTPError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		w.problems = append(w.problems, fmt.Sprintf("%s had no end after %v: %v", what, limit, err))
		w.ends["none"]++
		return err
	case code != 0 && outcome != "":
		w.ends[fmt.Sprintf("%d %s", code, outcome)]++
		return nil
	case code == protocol.CodeInvalidParams || code == protocol.CodeMethodNotFound:
		// The server is another one since the reload, and knows nothing of the round
		// that the one before began.
		w.ends[fmt.Sprintf("%d: %s", code, what)]++
		return nil
	case isTold && strings.Contains(told.Text, "gave no answer"):
		// The server lost the client while it asked.
		w.ends["isError: "+what]++
		return nil
	case isStatus:
		w.ends[fmt.Sprintf("HTTP %d: %s", status.Status, what)]++
		return err
	case errors.Is(err, dragoman.ErrClosed), errors.Is(err, streamable.ErrSessionGone):
		// The server was replaced, and its conversations were ended in order.
		w.ends["closed"]++
		return err
	}
	w.ends["other: "+what]++
	if w.ends["other: "+what] <= 3 {
		w.problems = append(w.problems, fmt.Sprintf("%s came to %v", what, err))
	}
	return err
}

func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) < 100 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// tally says how calls ended.
func (w *world) tally() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := []string{fmt.Sprintf("%d calls, of which %d succeeded; %d processes", w.calls, w.ok, len(w.journal.Of(fault.Started, "")))}
	for end, n := range w.ends {
		lines = append(lines, fmt.Sprintf("%7d %s", n, end))
	}
	sort.Strings(lines[1:])
	return strings.Join(append(lines, w.odd...), "\n")
}
