package upstream

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// announced is what a server was announced with.
type announced struct {
	mu    sync.Mutex
	notes []string
}

func (h *announced) take(note string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note)
}

func (h *announced) count(note string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.notes {
		if other == note {
			n++
		}
	}
	return n
}

func TestServerThatComesUpLateIsAnnouncedOnce(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f.set(errAway)
				u := one(t, f, nil)
				var h announced
				defer u.Service().OnChange(h.take)()
				time.Sleep(time.Minute)
				f.set(nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := h.count(protocol.NoteToolsChanged); n != 1 {
					t.Errorf("its tools were announced %d times", n)
				}
				f.crash() // and comes back the same
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := h.count(protocol.NoteToolsChanged); n != 1 || u.State() != Ready {
					t.Errorf("tools that have not changed were announced %d times; it is %q", n, u.State())
				}
			})
		})
	}
}

// refusing is a legacy server behind HTTP one of whose tools is answered by a status.
func refusing(t *testing.T, status int) *config.Server {
	t.Helper()
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.LatestLegacy}})
	endpoint := &streamable.Server{Sessions: server}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut is refused by the endpoint
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"test_simple_text"`)) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
			return
		}
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = server.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return &config.Server{Name: "s", URL: web.URL, Transport: "http"}
}

func TestToolThatIsAnsweredByAStatusIsItsCallersBusiness(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			u := managing(t, refusing(t, status))
			var h announced
			defer u.Service().OnChange(h.take)()
			awaits(t, u, Ready)
			eventually(t, "what it has is announced", func() bool { return h.count(protocol.NoteResourcesChanged) == 1 })
			if outcome(call(t.Context(), u.Service().Requests(), "test_simple_text", `{}`)) == 0 {
				t.Error("the call succeeds")
			}
			if got := u.State(); got != Ready {
				t.Errorf("the state is %q", got)
			}
			echo(t, u.Service().Requests())
			if n := h.count(protocol.NoteToolsChanged); n != 1 {
				t.Errorf("its tools were announced %d times", n)
			}
		})
	}
}

func TestServerThatAnswersNoPingWhileCallsHangIsDegradedAndThenReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		u := one(t, f, &config.Server{Isolation: "shared"})
		synctest.Wait()
		f.setMute(true)
		done := make(chan int, 1)
		go func() { done <- outcome(call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)) }()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := u.State(); got != Degraded {
			t.Errorf("the state is %q after two silent minutes, want %q", got, Degraded)
		}
		time.Sleep(30 * time.Minute)
		if code := <-done; code != protocol.CodeLost {
			t.Errorf("the call that hung got %d", code)
		}
		f.setMute(false)
		time.Sleep(2 * time.Minute)
		echo(t, u.Service().Requests())
	})
}

func TestListsComeFromOurOwnConversationAlone(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f, nil)
				synctest.Wait()
				dials := len(f.dialled())
				for range 3 {
					for _, method := range []string{protocol.MethodDiscover, protocol.MethodListTools, protocol.MethodListPrompts} {
						ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "somebody"})
						if resp, err := ask(ctx, u.Service().Requests(), method, `{}`); codeOf(resp, err) != 0 {
							t.Fatalf("%s: %v %v", method, resp, err)
						}
					}
					time.Sleep(2 * catalog.Age)
				}
				if n := len(f.dialled()); n != dials {
					t.Errorf("lists started %d conversations", n-dials)
				}
			})
		})
	}
}

func TestListIsWaitedForWhileTheServerStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := legacyServer()
		inner := f.acceptor
		f.acceptor = dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
			time.Sleep(time.Second)
			return inner.Accept(ctx, c)
		})
		u := one(t, f, nil)
		if resp := listed(t, u, protocol.MethodListTools); isCached(resp) {
			t.Error("the list is not the current one")
		}
	})
}

func TestChangesOfAModernServerBehindHTTPAreHeardAndHeardAgain(t *testing.T) {
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}})
	endpoint := &streamable.Server{Requests: server.Requests()}
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		_ = server.Close()
		web.CloseClientConnections()
		web.Close()
	})
	u := managing(t, &config.Server{Name: "s", URL: web.URL, Transport: "http"})
	awaits(t, u, Ready)
	var h announced
	defer u.Service().OnChange(h.take)()
	for range 2 {
		before := h.count(protocol.NoteToolsChanged)
		eventually(t, "a change is notified", func() bool {
			_, _ = call(t.Context(), u.Service().Requests(), "test_trigger_tool_change", `{}`) // it may be lost with its connection
			return h.count(protocol.NoteToolsChanged) > before
		})
		web.CloseClientConnections() // and with them the subscription
	}
}

func TestEveryStateCanBeLeft(t *testing.T) {
	for state, on := range transitions {
		if on[closed] != Stopped {
			t.Errorf("%q does not end when the server is stopped", state)
		}
		for what, next := range on {
			if next != Stopped && transitions[next] == nil {
				t.Errorf("%q leads by %d to %q, which is no state", state, what, next)
			}
		}
	}
}

func TestServerThatDoesNotAnswerIsDegradedThenLost(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f, nil)
				synctest.Wait()
				dials := len(f.dialled())
				f.setMute(true)
				time.Sleep(DefaultHealthInterval + pingTimeout + time.Second)
				synctest.Wait()
				if got := u.State(); got != Degraded {
					t.Errorf("the state is %q after one look, want %q", got, Degraded)
				}
				time.Sleep(2 * (DefaultHealthInterval + pingTimeout))
				synctest.Wait()
				if got := u.State(); got != BackingOff && got != Starting {
					t.Errorf("the state is %q after three looks, want %q, or %q again", got, BackingOff, Starting)
				}
				f.setMute(false)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if got := u.State(); got != Ready || len(f.dialled()) == dials {
					t.Errorf("the state is %q after it answers, with %d dials", got, len(f.dialled()))
				}
			})
		})
	}
}

func TestHealthIsNotLookedAtWhileOthersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := modernServer()
		u := one(t, f, &config.Server{Health: config.Health{Interval: time.Minute}})
		synctest.Wait()
		echo(t, u.Service().Requests()) // and with it the caller's conversation begins
		asked := f.saw(protocol.MethodDiscover)
		for range 100 {
			time.Sleep(6 * time.Second)
			echo(t, u.Service().Requests())
		}
		if n := f.saw(protocol.MethodDiscover); n != asked {
			t.Errorf("the server was asked %d times whether it is there", n-asked)
		}
		time.Sleep(3 * time.Minute)
		if n := f.saw(protocol.MethodDiscover); n <= asked {
			t.Error("the server was not asked although nobody else did")
		}
	})
}

func TestServerThatNobodyUsesIsStoppedAndStartedAgain(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f, &config.Server{IdleStop: time.Minute, Health: config.Health{Interval: -1}})
				c := join(t, u, "alice")
				time.Sleep(50 * time.Second)
				echo(t, u.Service().Requests())
				time.Sleep(50 * time.Second)
				if got := u.State(); got != Ready {
					t.Fatalf("the state is %q although it is in use, want %q", got, Ready)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if s := u.Status(); s.State != Idle || f.open() != 0 || s.LastError != "" {
					t.Fatalf("unused: %d conversations, status %+v", f.open(), s)
				}
				if resp := listed(t, u, protocol.MethodListTools); !isCached(resp) || u.State() != Idle {
					t.Error("a list that is known wakes the server")
				}
				if resp, err := c.call("echo", `{"text":"x"}`); codeOf(resp, err) != 0 || err != nil {
					t.Errorf("a session that was open all along: %v %v", resp, err)
				}
				synctest.Wait()
				if got := u.State(); got != Ready {
					t.Errorf("the state is %q after a request, want %q", got, Ready)
				}
				echo(t, u.Service().Requests())
			})
		})
	}
}
