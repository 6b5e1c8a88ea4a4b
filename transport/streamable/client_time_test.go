package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// quiet is a server that answers no call, but tells progress as often as said.
func quiet(every time.Duration) func(w http.ResponseWriter, k *took) {
	return func(w http.ResponseWriter, k *took) {
		if k.m == nil || !k.m.ID().IsZero() && k.what() == "tools/call" {
			if k.Method != "POST" {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			sendEvents(w, ": ok")
			tick := time.NewTimer(every)
			for {
				select {
				case <-k.Context().Done():
					return
				case <-tick.C:
					sendEvents(w, oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, k.m.Meta("progressToken"))))
					tick.Reset(every)
				}
			}
		}
		shakes(w, k, "2025-11-25")
	}
}

// A request times out, later if there is progress, and never after
// the maximum; the server is told, and the caller can tell it from its own
// deadline.
func TestA16_B08_D09_D10_ClientTimesOutAndCancels(t *testing.T) {
	cases := []struct {
		name         string
		timeout, max time.Duration
		progress     time.Duration
		caller       time.Duration
		want         time.Duration
	}{
		{"by default", 0, 0, time.Hour, time.Hour, 30 * time.Second},
		{"as configured", 5 * time.Second, 0, time.Hour, time.Hour, 5 * time.Second},
		{"later with progress", 0, 0, 20 * time.Second, time.Hour, 5 * time.Minute},
		{"not after the maximum", 0, time.Minute, 7 * time.Second, time.Hour, time.Minute},
		{"the caller's deadline", 0, 0, time.Hour, 10 * time.Second, 10 * time.Second},
		{"never", -1, 0, time.Hour, 30 * time.Minute, 30 * time.Minute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, client := serveInMemory(t, quiet(c.progress))
				client.Timeout, client.MaxTimeout = c.timeout, c.max
				conn := dialScript(t, client, nil)
				shake(t, conn, "2025-11-25")
				ctx, cancel := context.WithTimeout(t.Context(), c.caller)
				defer cancel()
				began := time.Now()
				_, err := conn.Call(ctx, peertest.Parse(t, callTool), dragoman.NoPeer)
				if took := time.Since(began); took != c.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v after %v, want %v", err, took, c.want)
				}
				var own *dragoman.TimeoutError
				if errors.As(err, &own) != (c.caller > c.want) {
					t.Errorf("the error is a %T", err)
				}
				_ = conn.Close()
				_, calls := s.taken("tools/call")
				_, cancels := s.taken("notifications/cancelled")
				if len(cancels) != 1 || string(cancels[0].m.Get("requestId")) != calls[0].m.ID().String() {
					t.Errorf("cancels: %v", cancels)
				}
			})
		})
	}
}

// A question of the server stops the clock, up to the maximum.
func TestClientTimeoutWhileAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{}, 1)
		_, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
			switch {
			case k.what() == "response":
				answers <- struct{}{}
				w.WriteHeader(http.StatusAccepted)
			case !shakes(w, k, "2025-11-25"):
				sendEvents(w, oneEvent("", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`))
				<-answers
				sendEvents(w, oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, k.m.ID())))
			}
		})
		conn := dialScript(t, client, nil)
		shake(t, conn, "2025-11-25")
		began := time.Now()
		_, err := conn.Call(t.Context(), peertest.Parse(t, callTool), dragoman.Funcs{
			OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				time.Sleep(125 * time.Second) // people are slow
				return req.Reply(nil)
			},
		})
		if err != nil || time.Since(began) != 125*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// A stream that the server cuts after an event with an id is resumed after the
// time that the server asks for, by a GET with Last-Event-ID.
func TestClientResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var cut time.Time
		var id dragoman.ID // of the call
		var waits []time.Duration
		s, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
			mu.Lock()
			defer mu.Unlock()
			switch last := k.Header.Get("Last-Event-ID"); {
			case k.Method == "GET" && last != "":
				waits = append(waits, time.Since(cut))
				switch len(waits) {
				case 1: // still nothing
					sendEvents(w, "id: b\ndata:")
				case 2:
					w.WriteHeader(http.StatusBadGateway)
				default:
					sendEvents(w, oneEvent("c", `{"jsonrpc":"2.0","id":`+id.String()+`,"result":{"last":"`+last+`"}}`))
				}
			case !shakes(w, k, "2025-11-25"):
				id = k.m.ID()
				sendEvents(w, "id: a\nretry: 500\ndata:")
			default:
				return
			}
			cut = time.Now()
		})
		conn := dialScript(t, client, nil)
		shake(t, conn, "2025-11-25")
		resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
		if err != nil || string(resp.Get("last")) != `"b"` {
			t.Fatalf("got %v, %v", resp, err)
		}
		for i, d := range waits {
			if d < 500*time.Millisecond || d > 700*time.Millisecond {
				t.Errorf("GET %d came after %v", i, d)
			}
		}
		if _, list := s.taken("tools/call"); len(list) != 1 {
			t.Errorf("%d calls", len(list))
		}
	})
}

// A stream that cannot be resumed is an error at once or after some tries.
func TestD06_ClientSaysWhenAStreamCannotBeResumed(t *testing.T) {
	for status, tries := range map[int]int{400: 1, 405: 1, 503: 4} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
					switch {
					case k.Method == "GET" && k.Header.Get("Last-Event-ID") != "":
						w.WriteHeader(status)
					case !shakes(w, k, "2025-11-25"):
						sendEvents(w, "id: a\ndata:")
					}
				})
				client.Retry = &streamable.Retry{Attempts: 3}
				conn := dialScript(t, client, nil)
				shake(t, conn, "2025-11-25")
				_, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
				var e *protocol.StatusError
				if !errors.Is(err, streamable.ErrNoResponse) || !errors.As(err, &e) || e.Status != status {
					t.Errorf("got %v", err)
				}
				n := 0
				_, gets := s.taken("GET")
				for _, k := range gets {
					if k.Header.Get("Last-Event-ID") == "a" {
						n++
					}
				}
				if n != tries {
					t.Errorf("%d tries, want %d", n, tries)
				}
			})
		})
	}
}

// The background stream is opened again when it ends, at the pace that
// the server asks for; failures make the pace slower, and end it; a success
// elsewhere starts over.
func TestD13_D18_ClientOpensTheBackgroundStreamAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var times []time.Time
		var lasts []string
		down := false
		_, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
			if k.Method != "GET" {
				if !shakes(w, k, "2025-11-25") {
					replyTo(w, k, `{}`)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			times, lasts = append(times, time.Now()), append(lasts, k.Header.Get("Last-Event-ID"))
			if down {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			sendEvents(w, fmt.Sprintf("id: %d\nretry: 3000\ndata:", len(times)))
		})
		client.Retry = &streamable.Retry{Min: time.Second, Max: 8 * time.Second, Attempts: 3}
		conn := dialScript(t, client, nil)
		shake(t, conn, "2025-11-25")
		time.Sleep(10 * time.Second)
		mu.Lock()
		if len(times) != 4 || times[3].Sub(times[0]) != 9*time.Second || lasts[3] != "3" {
			t.Errorf("GETs at %v with %q", times, lasts)
		}
		down = true
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		if len(times) != 8 {
			t.Errorf("%d GETs, want 4 more", len(times))
		}
		down = false
		mu.Unlock()
		if _, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(times) != 9 {
			t.Errorf("%d GETs after a success", len(times))
		}
	})
}
