package admission

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// peersOf returns what an admission has before a server: for requests without a session, and in one.
func peersOf(t *testing.T, b *backend, caller dragoman.Caller) map[string]dragoman.Peer {
	t.Helper()
	p, _, e := enterSession(as(t, caller), t, b)
	if e != nil {
		t.Fatal(e)
	}
	return map[string]dragoman.Peer{"requests": b.Requests, "session": p}
}

func note(t *testing.T, method string) *dragoman.Message {
	t.Helper()
	m, err := dragoman.NewNotification(method, object{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRequestsWithoutAnIDAreNotAdmitted(t *testing.T) {
	for _, l := range []*config.Limits{{}, {RatePerCaller: perSecond(100)}} {
		s, e, b := guarded(l)
		refused := int64(0)
		for name, p := range peersOf(t, b, dragoman.Caller{Principal: "ann"}) {
			for _, method := range []string{"tools/call", "resources/subscribe", "batch", "Notifications/x"} {
				if err := p.Notify(t.Context(), note(t, method)); err != nil || s.asked.Load() != 0 {
					t.Errorf("%s: %s passes, error %v", name, method, err)
				}
				if refused++; e.noID.count.Load() != refused {
					t.Errorf("%s: %s is not counted", name, method)
				}
			}
		}
	}
}

func TestNotificationsCountForTheRatesOfSessionAndCaller(t *testing.T) {
	for name, row := range map[string]struct {
		limits config.Limits
		scope  string
		in     string
	}{
		"of a session":                   {config.Limits{Rate: perSecond(4)}, protocol.LimitSession, "session"},
		"of a caller in a session":       {config.Limits{RatePerCaller: perSecond(4)}, protocol.LimitCaller, "session"},
		"of a caller without a session":  {config.Limits{RatePerCaller: perSecond(4)}, protocol.LimitCaller, "requests"},
		"of a caller, with other limits": {config.Limits{RatePerCaller: perSecond(4), CallsPerCaller: 9, Calls: 9}, protocol.LimitCaller, "session"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _, b := guarded(&row.limits)
				caller := dragoman.Caller{Principal: "ann"}
				ctx, p := as(t, caller), peersOf(t, b, caller)[row.in]
				if row.in == "session" {
					if err := p.Notify(ctx, note(t, protocol.NoteInitialized)); err != nil {
						t.Error("the end of the handshake is refused:", err)
					}
				}
				passed := s.asked.Load()
				for i := range 10 {
					method := protocol.NoteRootsChanged
					if i%2 > 0 {
						method = protocol.NoteInitialized // once more
					}
					err := p.Notify(ctx, note(t, method))
					if r, _ := protocol.RefusedBy(errorOf(err)); err != nil && r.Limit != row.scope {
						t.Errorf("refused by %v", err)
					}
				}
				if n := s.asked.Load() - passed; n != 4 {
					t.Errorf("%d of 10 notifications pass, want 4", n)
				}
				if n := burst(ctx, t, p, 3, "x", row.scope); n != 0 {
					t.Errorf("%d requests pass, although notifications have used up the rate", n)
				}
				if err := p.Notify(ctx, note(t, protocol.NoteCancelled)); err != nil {
					t.Error("a cancellation is refused:", err)
				}
			})
		})
	}
}

func errorOf(err error) *dragoman.Error {
	e, _ := err.(*dragoman.Error) //nolint:errorlint // ours are never wrapped
	return e
}

func TestRequestsWithoutAnIDAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := New(&config.Limits{}, nil, slog.New(slog.NewTextHandler(&out, nil)))
		requests := e.Requests(&counter{})
		for minute := range 3 {
			for range 50 {
				_ = requests.Notify(as(t, dragoman.Caller{Principal: "ann"}), note(t, "tools/call"))
				time.Sleep(time.Second)
			}
			time.Sleep(20 * time.Second)
			if n := strings.Count(out.String(), "\n"); n != minute+1 {
				t.Errorf("%d records after %d minutes:\n%s", n, minute+1, &out)
			}
		}
		for _, want := range []string{`method=tools/call client=ann more=0`, fmt.Sprintf("more=%d", 49)} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in the log:\n%s", want, &out)
			}
		}
	})
}
