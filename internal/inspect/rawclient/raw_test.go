package rawclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A link is a server in memory: what it writes comes from a channel, what it is sent goes to a function,
// which may wait forever.
type link struct {
	writes chan string
	send   func(ctx context.Context, text string) error
}

func (l *link) Send(ctx context.Context, text []byte) error { return l.send(ctx, string(text)) }

func (l *link) Receive() ([]byte, error) {
	text, ok := <-l.writes
	if !ok {
		return nil, io.EOF
	}
	return []byte(text), nil
}

func (l *link) Close() {}

func TestAnExchangeHasABudgetOfBytes(t *testing.T) {
	l := &link{writes: make(chan string), send: func(context.Context, string) error { return nil }}
	wire := rawclient.NewLinkWire(l)
	done := make(chan struct{})
	go func() { // until there was enough
		defer close(l.writes)
		for {
			select {
			case l.writes <- strings.Repeat("x", 1<<20):
			case <-done:
				return
			}
		}
	}()
	x := wire.Exchange(t.Context(), rawclient.Request{Text: []byte("{}"), ID: json.RawMessage("1")})
	close(done)
	wire.Close()
	if !errors.Is(x.Err, rawclient.ErrFlood) {
		t.Errorf("error %v", x.Err)
	}
	if len(wire.Noise) == 0 || len(wire.Noise[0]) > 2000 {
		t.Errorf("%d lines are kept, the first of %d bytes", len(wire.Noise), len(wire.Noise[0]))
	}
}

func TestAServerThatDoesNotReadIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := io.Pipe() // nobody reads it
		stream := struct {
			io.Reader
			io.Writer
		}{here, there}
		lines := rawclient.NewLines(stream, stdio.Lines, func() { _ = there.Close() })
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, rawclient.ErrSilent)
		defer cancel()
		for range 2 { // the second waits for the first
			if err := lines.Send(ctx, []byte("{}")); !errors.Is(err, rawclient.ErrSilent) {
				t.Errorf("error %v", err)
			}
		}
		_ = here.Close()
		lines.Close()
	})
}

func TestWhatAServerAsksIsAnsweredSoOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan string, 1000)
		l := &link{writes: make(chan string, 1000), send: func(_ context.Context, text string) error {
			answers <- text
			return nil
		}}
		for i := range 500 {
			l.writes <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
		}
		l.writes <- `{"jsonrpc":"2.0","id":"own","result":{}}`
		wire := rawclient.NewLinkWire(l)
		x := wire.Exchange(t.Context(), rawclient.Request{Text: []byte("{}"), ID: json.RawMessage(`"own"`)})
		close(l.writes)
		wire.Close()
		if n := len(answers); x.Result() == nil || n != 101 {
			t.Errorf("%s: %d texts were sent", x.Summary(), n)
		}
	})
}

// A wire answers every request.
type wire struct {
	rawclient.Wire
	pages int
}

func (w *wire) Exchange(_ context.Context, r rawclient.Request) *rawclient.Exchange {
	w.pages++
	m := rawclient.ReadMessage(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"a"}],"nextCursor":"%d"}}`, w.pages, w.pages))
	return &rawclient.Exchange{Sent: r.Text, Got: []*rawclient.Message{m}, Answer: m}
}

func TestAListHasABudgetOfBytes(t *testing.T) {
	w := &wire{}
	c := &rawclient.Client{Wire: w, Timeout: time.Minute, MaxList: 1000}
	pages := c.List(t.Context(), protocol.MethodListTools, "tools")
	if !pages.Flooded || pages.OK() || w.pages > 30 {
		t.Errorf("%d pages of %d bytes, flooded: %v", w.pages, pages.Bytes, pages.Flooded)
	}
}

func TestRequestsOfASessionThatAreUnderWayAtOnceDoNotRace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&m) // it is ours
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(protocol.HeaderSession, "session-"+string(m.ID))
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}))
	defer server.Close()
	h, err := rawclient.NewHTTP(&target.Spec{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	s := &rawclient.Session{HTTP: h}
	c := &rawclient.Client{Wire: s, Timeout: 30 * time.Second}
	var list []rawclient.Request
	for range 8 {
		list = append(list, c.Request(protocol.MethodPing, nil, nil))
	}
	for i, x := range c.All(t.Context(), list) {
		if x.Result() == nil || !x.Answer.Is(list[i].ID) {
			t.Errorf("%s: %s", list[i].ID, x.Summary())
		}
	}
	if !strings.HasPrefix(s.ID, "session-") {
		t.Errorf("the session is %q", s.ID)
	}
}

func TestAnswersThatComeTooLateAreNotTakenForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{writes: make(chan string), send: func(context.Context, string) error { return nil }}
		wire := rawclient.NewLinkWire(l)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, rawclient.ErrSilent)
		defer cancel()
		for _, x := range wire.All(ctx, []rawclient.Request{{Text: []byte("{}"), ID: json.RawMessage("1")}, {Text: []byte("{}"), ID: json.RawMessage("2")}}) {
			if !x.Silent() {
				t.Errorf("it gets %s", x.Summary())
			}
		}
		go func() { // until all is written
			defer close(l.writes)
			l.writes <- `{"jsonrpc":"2.0","id":2,"result":{}}`
			l.writes <- `{"jsonrpc":"2.0","id":1,"result":{}}`
			time.Sleep(5 * time.Second) // longer than the right answer is waited for behind a wrong one
			l.writes <- `{"jsonrpc":"2.0","id":3,"result":{}}`
		}()
		if x := wire.Exchange(t.Context(), rawclient.Request{Text: []byte("{}"), ID: json.RawMessage("3")}); x.Result() == nil || x.Misnamed || len(x.Got) != 1 {
			t.Errorf("it gets %s, misnamed: %v, of %d messages", x.Summary(), x.Misnamed, len(x.Got))
		}
		wire.Close()
	})
}

func TestConfiguredHeadersGoWithEveryTransport(t *testing.T) {
	seen := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Host + " " + r.Header.Get("X-Own")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	spec := &target.Spec{URL: server.URL, Header: http.Header{"host": {"elsewhere.example"}, "x-own": {"value"}}}
	h, err := rawclient.NewHTTP(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for name, open := range map[string]func(){
		"Streamable HTTP": func() { h.Do(t.Context(), &rawclient.Call{Method: http.MethodGet}) },
		"HTTP+SSE":        func() { _, _, _ = h.OpenOld(t.Context(), h.At) },
		"WebSocket":       func() { _, _, _ = rawclient.DialWebSocket(t.Context(), spec, nil) },
	} {
		if open(); len(seen) == 0 {
			t.Errorf("%s: no request came", name)
		} else if got := <-seen; got != "elsewhere.example value" {
			t.Errorf("%s: it came with %q", name, got)
		}
	}
}

func TestTheFirstTextIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{writes: make(chan string), send: func(context.Context, string) error { return nil }}
		wire := rawclient.NewLinkWire(l)
		began := time.Now()
		go func() { // until all is written
			defer close(l.writes)
			time.Sleep(time.Second)
			l.writes <- "hello"
			time.Sleep(time.Minute)
			l.writes <- `{"jsonrpc":"2.0","id":1,"result":{}}`
		}()
		if x := wire.Exchange(t.Context(), rawclient.Request{Text: []byte("{}"), ID: json.RawMessage("1")}); x.Result() == nil {
			t.Errorf("it gets %s", x.Summary())
		}
		if after := wire.First.Sub(began); after != time.Second {
			t.Errorf("the first text came after %v", after)
		}
		wire.Close()
	})
}

func TestAProcessThatStartsSlowlyIsWaitedForAndOneThatIgnoresIsNot(t *testing.T) {
	const knows = `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"]}}`
	for name, of := range map[string]struct {
		start, ready time.Duration
		discovers    bool
		answered     bool
		took         time.Duration
	}{
		"starts slowly":                    {time.Minute, 30 * time.Second, true, true, 30 * time.Second},
		"starts slowly, and has no longer": {0, 30 * time.Second, true, false, 10 * time.Second},
		"does not know the question":       {time.Minute, 0, false, false, 4 * time.Second},
		"never answers":                    {time.Minute, time.Hour, true, false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				l := &link{writes: make(chan string, 8)}
				l.send = func(_ context.Context, text string) error {
					m := rawclient.ReadMessage([]byte(text))
					time.AfterFunc(max(0, of.ready-time.Since(began)), func() {
						if m.Method == protocol.MethodPing || of.discovers {
							l.writes <- fmt.Sprintf(knows, m.ID)
						}
					})
					return nil
				}
				wire := rawclient.NewLinkWire(l)
				c := &rawclient.Client{Wire: wire, Revision: protocol.Latest, Timeout: 10 * time.Second, Start: of.start}
				x := c.Begin(t.Context())
				if took := time.Since(began); (x.Result() != nil) != of.answered || x.Silent() == of.answered || took != of.took {
					t.Errorf("after %v: %s, %v", took, x.Result(), x.Err)
				}
				time.Sleep(2 * time.Hour) // of the bubble, until nothing is to be written any more
				synctest.Wait()
				close(l.writes)
				wire.Close()
			})
		})
	}
}

func TestIgnoredRequestsAreGivenUpWhenALaterPingIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &link{writes: make(chan string, 8)}
		l.send = func(_ context.Context, text string) error {
			m := rawclient.ReadMessage([]byte(text))
			switch m.Method {
			case protocol.MethodPing:
				l.writes <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			case "slow": // than its ping
				time.AfterFunc(3*time.Second, func() { l.writes <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID) })
			}
			return nil
		}
		wire := rawclient.NewLinkWire(l)
		s := &rawclient.Subject{Timeout: 10 * time.Second}
		for _, step := range []struct {
			method string
			silent bool
			took   time.Duration
		}{
			{"slow", false, 3 * time.Second},
			{"ignored", true, 4 * time.Second}, // two for the ping, two behind it
			{"ignored", true, 2 * time.Second}, // half of that from then on
			{protocol.MethodPing, false, 0},
		} {
			began := time.Now()
			x := s.Client(wire, protocol.LatestLegacy).Try(t.Context(), fmt.Sprint(began), step.method, nil)
			if took := time.Since(began); x.Silent() != step.silent || took != step.took || len(x.Got) > 1 {
				t.Errorf("%s: %s after %v, of %d messages", step.method, x.Summary(), took, len(x.Got))
			}
		}
		close(l.writes)
		wire.Close()
	})
}
