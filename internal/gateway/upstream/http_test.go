package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A site is a server behind HTTP that can go away and come back.
type site struct {
	t       *testing.T
	address string
	mode    string
	status  atomic.Int32 // what everybody is told, if not zero; 401 with an error of JSON-RPC
	asked   atomic.Int32 // how often it was asked meanwhile whether it is there
	server  *http.Server
}

func newSite(t *testing.T, mode string) *site {
	t.Helper()
	s := &site{t: t, mode: mode, address: "127.0.0.1:0"}
	s.open()
	t.Cleanup(s.close)
	return s
}

func (s *site) open() {
	s.t.Helper()
	var l net.Listener
	eventually(s.t, "the address is free", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", s.address)
		return err == nil
	})
	s.address = l.Addr().String()
	handler := fault.New(&fault.Options{Revisions: fault.Revisions(s.mode)}).Handler()
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := s.status.Load(); status != 0 {
			if r.Header.Get(protocol.HeaderMethod) == protocol.MethodDiscover {
				s.asked.Add(1)
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(int(status))
			if status != http.StatusUnauthorized {
				return
			}
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"not now"}}`) // who has gone does not care
			return
		}
		handler.ServeHTTP(w, r)
	})}
	server := s.server
	s.server.RegisterOnShutdown(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = handler.Shutdown(ctx)
	})
	go func() { _ = server.Serve(l) }() // ends with close
}

func (s *site) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = s.server.Shutdown(ctx)
	_ = s.server.Close()
}

// managing manages one server.
func managing(t *testing.T, c *config.Server) *Upstream {
	t.Helper()
	m := manage(t, nil, nil)
	m.Apply([]*config.Server{c})
	return m.Upstream(c.Name)
}

func TestS43_ServerBehindHTTPGoesAndComesBack(t *testing.T) {
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode, func(t *testing.T) {
			s := newSite(t, mode)
			u := managing(t, &config.Server{Name: "s", URL: "http://" + s.address + "/mcp", Retry: config.Retry{Max: time.Second}})
			awaits(t, u, Ready)
			echo(t, u.Service().Requests())
			eventually(t, "its tools are known", func() bool { return u.Status().Tools > 0 })
			if st := u.Status(); st.Era != mode {
				t.Errorf("status: %+v", st)
			}
			s.close()
			eventually(t, "the call fails", func() bool {
				return outcome(call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)) != 0
			})
			began := time.Now()
			resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
			if code := outcome(resp, err); code != protocol.CodeUnavailable {
				t.Errorf("while it is away: got %d, want %d", code, protocol.CodeUnavailable)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("that took %v", took)
			}
			awaits(t, u, BackingOff)
			s.open()
			awaits(t, u, Ready)
			echo(t, u.Service().Requests())
		})
	}
}

func TestS43_ServerThatIsOverloadedIsLeftAlone(t *testing.T) {
	s := newSite(t, fault.Modern)
	u := managing(t, &config.Server{Name: "s", URL: "http://" + s.address + "/mcp"})
	eventually(t, "its tools are known", func() bool { return u.Status().Tools > 0 && u.Status().Resources > 0 })
	s.status.Store(http.StatusServiceUnavailable)
	before := time.Now()
	if code := outcome(call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)); code != protocol.CodeOverloaded {
		t.Fatalf("the call got %d, want %d", code, protocol.CodeOverloaded)
	}
	asked := s.asked.Load()
	awaits(t, u, BackingOff)
	eventually(t, "it is asked again", func() bool { return s.asked.Load() > asked })
	if took := time.Since(before); took < time.Second {
		t.Errorf("it was asked again after %v, although it said a second", took)
	}
	s.status.Store(0)
	awaits(t, u, Ready)
	echo(t, u.Service().Requests())
}

func TestServerThatWantsAuthorizationIsToldOfAndTriedAgain(t *testing.T) {
	for name, era := range map[string]string{"its era is not known": "", "its era is configured": "modern"} {
		t.Run(name, func(t *testing.T) { testAuthorizationWanted(t, era) })
	}
}

func testAuthorizationWanted(t *testing.T, era string) {
	s := newSite(t, fault.Modern)
	s.status.Store(http.StatusUnauthorized)
	conf := &config.Server{Name: "s", URL: "http://user:hidden-password@" + s.address + "/mcp?key=hidden-key", Headers: map[string]string{"Authorization": "Bearer hidden-token"}}
	conf.Era = era
	u := managing(t, conf)
	awaits(t, u, BackingOff)
	if st := u.Status(); !strings.Contains(st.LastError, "401") {
		t.Errorf("status: %+v", st)
	}
	resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
	if code := outcome(resp, err); code != protocol.CodeUnavailable {
		t.Errorf("got %d, want %d", code, protocol.CodeUnavailable)
	}
	if shown := resp.String() + u.Status().LastError; strings.Contains(shown, "hidden") {
		t.Errorf("a secret is shown: %s", shown)
	}
	s.status.Store(0)
	awaits(t, u, Ready)
}

func TestPain32_SessionOutlivesTheServer(t *testing.T) {
	s := newSite(t, fault.Legacy)
	u := managing(t, &config.Server{Name: "s", URL: "http://" + s.address + "/sse", Retry: config.Retry{Max: 500 * time.Millisecond}, Restart: never})
	awaits(t, u, Ready)
	c := join(t, u, "alice")
	if resp, err := c.call("echo", `{"text":"x"}`); outcome(resp, err) != 0 {
		t.Fatal(resp, err)
	}
	s.close()
	eventually(t, "it is away", func() bool { return u.State() == BackingOff })
	s.open()
	awaits(t, u, Ready)
	resp, err := c.call("echo", `{"text":"x"}`)
	if code := outcome(resp, err); code != 0 {
		t.Errorf("the same session, after the server came back: %d", code)
	}
}

var _ dragoman.Peer = (*legacyClient)(nil)

func TestServerThatRefusesARequestIsStillThere(t *testing.T) {
	for status, away := range map[int]bool{
		http.StatusBadRequest: false, http.StatusUnauthorized: false, http.StatusNotFound: false,
		http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
		http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
	} {
		for _, err := range []error{&protocol.StatusError{Status: status}, fmt.Errorf("wrapped: %w", &protocol.StatusError{Status: status})} {
			if got := isUnreached(fmt.Errorf("a call: %w", err)); got != away {
				t.Errorf("%v means that the server is away: %v, want %v", err, got, away)
			}
		}
	}
	if isUnreached(errors.New("what the tool says")) {
		t.Error("a server that answers is taken for one that is away")
	}
}
