package streamable_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A fate is what becomes of a message on its way to the server.
type fate int

const (
	arrives fate = iota
	cutBefore
	cutAfter // the server has it, but the client does not get to know
	stuck
	refused // by somebody in between
)

// A shaky link is one where the messages of one kind have fates; those after the
// last fare like the last.
type shaky struct {
	to    http.Handler
	what  string // "response", or a method
	fates []fate

	mu     sync.Mutex
	tried  []time.Time
	status []int // what the server answered to those that arrived
}

func (s *shaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	k := &took{Request: r}
	if r.Method == http.MethodPost {
		k.m, _ = dragoman.Parse(body)
	}
	if k.what() != s.what {
		s.to.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	fate := s.fates[min(len(s.tried), len(s.fates)-1)]
	s.tried = append(s.tried, time.Now())
	s.mu.Unlock()
	switch fate {
	case cutBefore:
		panic(http.ErrAbortHandler)
	case stuck:
		<-r.Context().Done()
		return
	case refused:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	recorded := httptest.NewRecorder()
	s.to.ServeHTTP(recorded, r)
	s.mu.Lock()
	s.status = append(s.status, recorded.Code)
	s.mu.Unlock()
	if fate == cutAfter {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(recorded.Code)
}

// seen returns when such messages were sent, and what the server answered to them.
func (s *shaky) seen() ([]time.Time, []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tried), slices.Clone(s.status)
}

// An inquirer is a server whose tool asks its caller and says what it was told. The
// tool that is called "wait" waits until it is cancelled.
type inquirer struct {
	mu      sync.Mutex
	answers []string
	stopped chan struct{}
}

// inquirerWorks is how long the tool takes once it has its answer.
const inquirerWorks = 15 * time.Second

func (q *inquirer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodInitialize {
		return req.Reply(map[string]any{"protocolVersion": "2025-11-25", "capabilities": struct{}{}, "serverInfo": map[string]string{"name": "s", "version": "1"}})
	}
	if req.Name() == "wait" {
		<-ctx.Done()
		q.stopped <- struct{}{}
		return nil, context.Cause(ctx)
	}
	ask, err := dragoman.NewRequest(dragoman.IntID(1), "sampling/createMessage", nil)
	if err != nil {
		return nil, err
	}
	resp, err := from.Call(ctx, ask, nil)
	if err != nil {
		return nil, err
	}
	time.Sleep(inquirerWorks) // in the time of the bubble
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers = append(q.answers, string(resp.Get("asked")))
	return req.Reply(map[string]int{"answers": len(q.answers)})
}

func (q *inquirer) Notify(context.Context, *dragoman.Message) error { return nil }

// overShakyLink has a client speak to an inquirer over such a link, in a bubble.
func overShakyLink(t *testing.T, link *shaky, client *streamable.Client, f func(t *testing.T, q *inquirer, conn dragoman.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		q := &inquirer{stopped: make(chan struct{}, 200)}
		s := &streamable.Server{Sessions: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return q, nil })}
		link.to = s
		l := memnet.Listen()
		h := &http.Server{Handler: link}
		done := make(chan struct{})
		go func() { // ends with h.Close
			defer close(done)
			_ = h.Serve(l)
		}()
		tr := &http.Transport{DialContext: l.DialContext, MaxIdleConnsPerHost: 16}
		client.URL, client.HTTP = "http://localhost/mcp", &http.Client{Transport: tr}
		conn := dialScript(t, client, newHeard())
		shake(t, conn, "2025-11-25")
		f(t, q, conn)
		_ = conn.Close()
		tr.CloseIdleConnections()
		_ = h.Close()
		<-done
		_ = s.Shutdown(t.Context())
	})
}

const waitTool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`

func TestAnswerThatIsLostWithItsLinkIsSentAgain(t *testing.T) {
	const taken = http.StatusAccepted
	for name, row := range map[string]struct {
		fates  []fate
		status []int         // what the server says to those that arrive
		least  time.Duration // that it takes
	}{
		"no accident":                   {[]fate{arrives}, []int{taken}, 0},
		"cut before the server got it":  {[]fate{cutBefore, arrives}, []int{taken}, 100 * time.Millisecond},
		"cut after the server got it":   {[]fate{cutAfter, arrives}, []int{taken, taken}, 0},
		"cut as often as is put up to":  {[]fate{cutBefore, cutBefore, cutBefore, cutBefore, cutBefore, arrives}, []int{taken}, time.Second},
		"cut after it again and again":  {[]fate{cutAfter, cutAfter, cutAfter, arrives}, []int{taken, taken, taken, taken}, 0},
		"stuck":                         {[]fate{stuck, arrives}, []int{taken}, 10 * time.Second},
		"somebody in between has none":  {[]fate{refused, arrives}, []int{taken}, 7 * time.Second},
		"a cut, and then a wait of his": {[]fate{cutBefore, refused, cutAfter, arrives}, []int{taken, taken}, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			link := &shaky{what: "response", fates: row.fates}
			overShakyLink(t, link, &streamable.Client{}, func(t *testing.T, q *inquirer, conn dragoman.Conn) {
				began := time.Now()
				resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), newHeard())
				if err != nil || string(resp.Result()) != `{"answers":1}` {
					t.Fatalf("got %v, %v", resp, err)
				}
				if d := time.Since(began) - inquirerWorks; d < row.least || d > 15*time.Second {
					t.Errorf("it took %v, want at least %v", d, row.least)
				}
				time.Sleep(time.Hour) // whatever may still be sent
				if _, status := link.seen(); !slices.Equal(status, row.status) {
					t.Errorf("the server answered %v, want %v", status, row.status)
				}
				if !slices.Equal(q.answers, []string{`"sampling/createMessage"`}) {
					t.Errorf("the tool was told %q", q.answers)
				}
			})
		})
	}
}

func TestAnswerIsSentAgainOnlySoOftenAndSoLong(t *testing.T) {
	for name, row := range map[string]struct {
		retry       streamable.Retry
		least, most int           // attempts
		span        time.Duration // between the first and the last
	}{
		"by default":       {streamable.Retry{}, 6, 6, 8 * time.Second},
		"not at all":       {streamable.Retry{Attempts: -1}, 1, 1, 0},
		"as often as said": {streamable.Retry{Attempts: 2}, 3, 3, time.Second},
		"a minute at most": {streamable.Retry{Attempts: 1000, Max: 4 * time.Second}, 15, 40, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			link := &shaky{what: "response", fates: []fate{cutBefore}}
			overShakyLink(t, link, &streamable.Client{Retry: &row.retry, Timeout: -1}, func(t *testing.T, _ *inquirer, conn dragoman.Conn) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if resp, err := conn.Call(ctx, peertest.Parse(t, callTool), newHeard()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, %v", resp, err)
				}
				tried, _ := link.seen()
				if n := len(tried); n < row.least || n > row.most {
					t.Fatalf("%d attempts, want %d to %d", n, row.least, row.most)
				}
				if span := tried[len(tried)-1].Sub(tried[0]); span > row.span {
					t.Errorf("the last attempt was %v after the first", span)
				}
			})
		})
	}
}

func TestAnswerIsNotSentAgainWhenItsCallIsOver(t *testing.T) {
	link := &shaky{what: "response", fates: []fate{cutBefore}}
	overShakyLink(t, link, &streamable.Client{Retry: &streamable.Retry{Min: time.Second, Max: time.Second, Attempts: 1000}}, func(t *testing.T, _ *inquirer, conn dragoman.Conn) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		over := time.Now().Add(10 * time.Second)
		if resp, err := conn.Call(ctx, peertest.Parse(t, callTool), newHeard()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v", resp, err)
		}
		time.Sleep(time.Hour)
		tried, _ := link.seen()
		if len(tried) < 10 || tried[len(tried)-1].After(over) {
			t.Errorf("%d attempts, the last %v after the call", len(tried), tried[len(tried)-1].Sub(over))
		}
	})
}

func TestCancelThatIsLostWithItsLinkIsSentAgain(t *testing.T) {
	for name, fates := range map[string][]fate{"before": {cutBefore, cutBefore, arrives}, "after": {cutAfter, arrives}} {
		t.Run("cut "+name+" the server got it", func(t *testing.T) {
			link := &shaky{what: protocol.NoteCancelled, fates: fates}
			overShakyLink(t, link, &streamable.Client{}, func(t *testing.T, q *inquirer, conn dragoman.Conn) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if resp, err := conn.Call(ctx, peertest.Parse(t, waitTool), nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, %v", resp, err)
				}
				<-q.stopped
				time.Sleep(time.Hour)
				if tried, _ := link.seen(); len(tried) != len(fates) {
					t.Errorf("%d attempts, want %d", len(tried), len(fates))
				}
			})
		})
	}
}

func TestCancelsOverADeadLinkDoNotPileUp(t *testing.T) {
	link := &shaky{what: protocol.NoteCancelled, fates: []fate{cutBefore}}
	overShakyLink(t, link, &streamable.Client{Retry: &streamable.Retry{Min: time.Second}}, func(t *testing.T, _ *inquirer, conn dragoman.Conn) {
		const calls = 100
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range calls {
			all.Go(func() { // ends with ctx
				if resp, err := conn.Call(ctx, peertest.Parse(t, waitTool), nil); err == nil {
					t.Errorf("got %v", resp)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		if tried, _ := link.seen(); len(tried) != calls+5 {
			t.Errorf("%d attempts at %d cancels", len(tried), calls)
		}
		// Nothing is repeated for a conversation that is over.
		began := time.Now()
		_ = conn.Close()
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("Close took %v", d)
		}
	})
}
