package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A holdingServer is a server that answers a POST only when it is done with the message,
// as those of the Java SDK do: with a request when its result is on the stream, with
// a notification when all that it made the server ask has been answered.
type holdingServer struct {
	// serve does what a message asks for. Its context ends when a request is
	// cancelled. What it returns is the result of a request.
	serve func(ctx context.Context, m *dragoman.Message) string

	events chan string
	ctx    context.Context // ends with the test
	busy   sync.WaitGroup

	mu       sync.Mutex
	log      []string // "+ping" when a message comes, "-ping" when the server is done with it
	cancels  map[string]context.CancelFunc
	answers  map[string]chan struct{}
	question int
}

// withHoldingServer runs a test with a client of such a server, in a bubble.
func withHoldingServer(t *testing.T, c *Client, local dragoman.Peer, serve func(h *holdingServer) func(context.Context, *dragoman.Message) string, test func(t *testing.T, h *holdingServer, conn dragoman.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &holdingServer{events: make(chan string, 100), cancels: map[string]context.CancelFunc{}, answers: map[string]chan struct{}{}}
		h.serve = serve(h)
		var end context.CancelFunc
		h.ctx, end = context.WithCancel(context.Background())
		l := memnet.Listen()
		server := &http.Server{Handler: h}
		done := make(chan struct{})
		go func() { // ends with server.Close
			defer close(done)
			_ = server.Serve(l)
		}()
		dial := l.DialContext
		if c.HTTP != nil {
			dial = c.HTTP.Transport.(*slowToDial).over(l)
		}
		tr := &http.Transport{DialContext: dial}
		c.URL, c.HTTP = "http://localhost/sse", &http.Client{Transport: tr}
		conn, err := c.Dial(t.Context(), local)
		if err != nil {
			t.Fatal(err)
		}
		test(t, h, conn)
		_ = conn.Close()
		end()
		h.busy.Wait()
		_ = server.Close()
		<-done
		tr.CloseIdleConnections()
		synctest.Wait()
	})
}

// ServeHTTP implements http.Handler.
func (h *holdingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		h.stream(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := dragoman.Parse(body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.take(m)
	w.WriteHeader(http.StatusAccepted)
}

func (h *holdingServer) stream(w http.ResponseWriter, r *http.Request) {
	out, err := sse.Start(w, time.Hour)
	if err != nil {
		return
	}
	_ = out.Event(&sse.Event{Name: eventEndpoint, Data: []byte("/messages")})
	for {
		select {
		case text := <-h.events:
			_ = out.Event(&sse.Event{Name: eventMessage, Data: []byte(text)})
		case <-r.Context().Done():
			return
		}
	}
}

// take takes a message, and returns when the server is done with it. The client may
// leave meanwhile.
func (h *holdingServer) take(m *dragoman.Message) {
	name := m.Method()
	if m.Kind() == dragoman.Response {
		name = "answer"
	}
	h.note("+" + name)
	h.busy.Add(1)
	defer h.busy.Done()
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	h.mu.Lock()
	switch {
	case m.Kind() == dragoman.Request:
		h.cancels[m.ID().String()] = cancel
	case name == protocol.NoteCancelled:
		if c := h.cancels[string(m.Get("requestId"))]; c != nil {
			c()
		}
	}
	answered := h.answers[m.ID().String()]
	h.mu.Unlock()
	result := h.serve(ctx, m)
	if m.Kind() == dragoman.Request && ctx.Err() == nil {
		h.events <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID(), result)
	}
	h.note("-" + name)
	if m.Kind() == dragoman.Response && answered != nil {
		close(answered)
	}
}

// ask asks the client, and waits for the answer.
func (h *holdingServer) ask(method string) {
	h.mu.Lock()
	h.question++
	id := fmt.Sprint(h.question)
	answered := make(chan struct{})
	h.answers[id] = answered
	h.mu.Unlock()
	h.events <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"_meta":{"progressToken":"p"}}}`, id, method)
	select {
	case <-answered:
	case <-h.ctx.Done():
	}
}

func (h *holdingServer) note(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, line)
}

// lines returns the log, when nothing continues any more.
func (h *holdingServer) lines() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

// want fails the test unless the log is that.
func (h *holdingServer) want(t *testing.T, lines ...string) {
	t.Helper()
	if got := h.lines(); !slices.Equal(got, lines) {
		t.Errorf("the server sees\n%s\nwant\n%s", strings.Join(got, " "), strings.Join(lines, " "))
	}
}

// begin makes a call on a goroutine of its own, and returns where its error will come.
func begin(ctx context.Context, conn dragoman.Conn, method string, params any) <-chan error {
	ended := make(chan error, 1)
	req, err := dragoman.NewRequest(dragoman.StringID("x"), method, params)
	if err != nil {
		panic(err)
	}
	go func() {
		_, err := conn.Call(ctx, req, nil)
		ended <- err
	}()
	return ended
}

func notify(t *testing.T, conn dragoman.Conn, method string) {
	t.Helper()
	note, err := dragoman.NewNotification(method, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Notify(t.Context(), note); err != nil {
		t.Fatal(err)
	}
}

// holdMethod serves messages of one method for a minute, or until they are cancelled,
// and all others at once.
func holdMethod(method string) func(*holdingServer) func(context.Context, *dragoman.Message) string {
	return func(h *holdingServer) func(context.Context, *dragoman.Message) string {
		return func(ctx context.Context, m *dragoman.Message) string {
			if m.Method() == method {
				select {
				case <-ctx.Done():
					h.note("cancelled")
				case <-time.After(time.Minute):
				}
			}
			return "{}"
		}
	}
}

func TestCancelReachesTheServerWhileTheCallRuns(t *testing.T) {
	withHoldingServer(t, &Client{}, nil, holdMethod("tools/call"), func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := begin(ctx, conn, "tools/call", nil)
		h.want(t, "+tools/call")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
		time.Sleep(time.Second)
		got := h.lines()
		if len(got) < 2 || !slices.Equal(got[:2], []string{"+tools/call", "+notifications/cancelled"}) || !slices.Contains(got, "cancelled") {
			t.Errorf("a second after the cancel the server has seen %q", got)
		}
	})
}

func TestQuestionAfterAChangeOfRootsIsAnsweredAtOnce(t *testing.T) {
	serve := func(h *holdingServer) func(context.Context, *dragoman.Message) string {
		return func(_ context.Context, m *dragoman.Message) string {
			if m.Method() == "notifications/roots/list_changed" {
				h.ask("roots/list")
			}
			return "{}"
		}
	}
	withHoldingServer(t, &Client{}, pinger, serve, func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		before := time.Now()
		notify(t, conn, "notifications/roots/list_changed")
		h.want(t, "+notifications/roots/list_changed", "+answer", "-answer", "-notifications/roots/list_changed")
		if _, err := callPing(t.Context(), conn); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > 0 {
			t.Errorf("that took %v", took)
		}
	})
}

func TestNotificationsDoNotBlockRequests(t *testing.T) {
	withHoldingServer(t, &Client{}, nil, holdMethod("notifications/slow"), func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		before := time.Now()
		for range 3 * maxPosts {
			notify(t, conn, "notifications/slow")
		}
		synctest.Wait()
		if _, err := callPing(t.Context(), conn); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > 0 {
			t.Errorf("the call took %v", took)
		}
		h.want(t, "+notifications/slow", "+ping", "-ping")
	})
}

func TestHandshakeKeepsItsOrder(t *testing.T) {
	serve := func(h *holdingServer) func(context.Context, *dragoman.Message) string {
		return func(_ context.Context, m *dragoman.Message) string {
			switch m.Method() {
			case "initialize":
				time.Sleep(time.Second)
			case "notifications/initialized":
				h.ask("roots/list")
				time.Sleep(time.Second)
			}
			return "{}"
		}
	}
	withHoldingServer(t, &Client{}, pinger, serve, func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		// A client that does not wait for what must come first.
		opened := begin(t.Context(), conn, "initialize", nil)
		synctest.Wait()
		notify(t, conn, "notifications/initialized")
		notify(t, conn, "notifications/roots/list_changed")
		synctest.Wait()
		ended := begin(t.Context(), conn, "ping", nil)
		for _, c := range []<-chan error{opened, ended} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		got := h.lines()
		inOrder := []string{"+initialize", "-initialize", "+notifications/initialized", "+answer", "-answer", "-notifications/initialized"}
		if len(got) != len(inOrder)+4 || !slices.Equal(got[:len(inOrder)], inOrder) {
			t.Errorf("the server sees %q", got)
		}
	})
}

func TestNotificationsKeepTheirOrder(t *testing.T) {
	serve := func(*holdingServer) func(context.Context, *dragoman.Message) string {
		return func(context.Context, *dragoman.Message) string {
			time.Sleep(time.Second)
			return "{}"
		}
	}
	withHoldingServer(t, &Client{}, nil, serve, func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		var want []string
		for i := range 5 {
			name := fmt.Sprintf("notifications/%d", i)
			want = append(want, "+"+name, "-"+name)
			notify(t, conn, name)
		}
		time.Sleep(time.Minute)
		h.want(t, want...)
	})
}

// What a peer tells inside a question comes before its answer.
func TestAnswerDoesNotOvertakeItsProgress(t *testing.T) {
	model := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		for range 2 {
			note, err := dragoman.NewNotification(protocol.NoteProgress, map[string]any{"progressToken": "p", "progress": 1})
			if err == nil {
				err = from.Notify(ctx, note)
			}
			if err != nil {
				return nil, err
			}
		}
		return req.Reply(nil)
	}}
	for takes, want := range map[time.Duration][]string{
		// As on a busy machine.
		900 * time.Millisecond: {"+ping", "+notifications/progress", "-notifications/progress", "+notifications/progress", "-notifications/progress", "+answer", "-answer", "-ping"},
		10 * time.Second:       {"+ping", "+notifications/progress", "-notifications/progress", "+notifications/progress", "+answer", "-answer", "-ping"},
	} {
		t.Run("each step takes "+takes.String(), func(t *testing.T) {
			serve := func(h *holdingServer) func(context.Context, *dragoman.Message) string {
				return func(_ context.Context, m *dragoman.Message) string {
					switch m.Method() {
					case "ping":
						h.ask("sampling/createMessage")
					case "notifications/progress":
						time.Sleep(takes)
					}
					return "{}"
				}
			}
			withHoldingServer(t, &Client{}, model, serve, func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
				if _, err := callPing(t.Context(), conn); err != nil {
					t.Error(err)
				}
				h.want(t, want...)
			})
		})
	}
}

// As many calls as there are places are held by the server.
func TestCancelsAndAnswersHaveSlotsOfTheirOwn(t *testing.T) {
	serve := func(h *holdingServer) func(context.Context, *dragoman.Message) string {
		return func(ctx context.Context, m *dragoman.Message) string {
			switch m.Method() {
			case "wait":
				<-ctx.Done()
			case "ask":
				time.Sleep(time.Second)
				h.ask("roots/list")
			}
			return "{}"
		}
	}
	withHoldingServer(t, &Client{}, pinger, serve, func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		before := time.Now()
		asking := begin(t.Context(), conn, "ask", nil)
		var cancels []context.CancelFunc
		var ended []<-chan error
		for range maxPosts + 1 {
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			ended = append(ended, begin(ctx, conn, "wait", nil))
		}
		synctest.Wait()
		if err := <-asking; err != nil {
			t.Error(err)
		}
		synctest.Wait() // one of the last two has its place now
		for _, i := range []int{maxPosts, 0} {
			cancels[i]()
			if err := <-ended[i]; !errors.Is(err, context.Canceled) {
				t.Errorf("call %d ended with %v", i, err)
			}
		}
		time.Sleep(time.Second)
		lines := h.lines()
		count := func(line string) (n int) {
			for _, l := range lines {
				if l == line {
					n++
				}
			}
			return n
		}
		if count("+wait") != maxPosts || count("+notifications/cancelled") != 1 || count("-wait") != 1 {
			t.Errorf("the server sees %q: want a cancel of what was sent, and nothing of what was not", lines)
		}
		if took := time.Since(before); took > 10*time.Second {
			t.Errorf("that took %v", took)
		}
		for _, cancel := range cancels {
			cancel()
		}
		for i, c := range ended {
			if i != maxPosts && i != 0 {
				<-c
			}
		}
	})
}

func TestCallMayTakeLongerThanAPOST(t *testing.T) {
	withHoldingServer(t, &Client{}, nil, holdMethod("tools/call"), func(t *testing.T, _ *holdingServer, conn dragoman.Conn) {
		if err := <-begin(t.Context(), conn, "tools/call", nil); err != nil {
			t.Errorf("a call of a minute ended with %v", err)
		}
	})
}

func TestCallsThatTheServerHoldsDoNotKeepOthersWaiting(t *testing.T) {
	withHoldingServer(t, &Client{}, nil, holdMethod("tools/call"), func(t *testing.T, _ *holdingServer, conn dragoman.Conn) {
		before := time.Now()
		var ended []<-chan error
		for range 3 * maxPosts {
			ended = append(ended, begin(t.Context(), conn, "tools/call", nil))
		}
		for i, c := range ended {
			if err := <-c; err != nil {
				t.Errorf("call %d ended with %v", i, err)
			}
		}
		if took, want := time.Since(before), time.Minute+2*slotTime; took > want {
			t.Errorf("calls of a minute each took %v, want %v", took, want)
		}
	})
}

func TestRequestThatDoesNotLeaveIsGivenUp(t *testing.T) {
	slow := &slowToDial{}
	withHoldingServer(t, &Client{HTTP: &http.Client{Transport: slow}}, nil, holdMethod(""), func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		if err := <-begin(t.Context(), conn, "tools/call", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call ended with %v", err)
		}
		h.want(t)
		close(slow.let)
	})
}

// slowToDial makes all connections but the first wait.
type slowToDial struct {
	http.RoundTripper
	let chan struct{} // made by over
}

func (s *slowToDial) over(l *memnet.Listener) func(context.Context, string, string) (net.Conn, error) {
	s.let = make(chan struct{})
	first := true
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !first {
			<-s.let
		}
		first = false
		return l.DialContext(ctx, network, address)
	}
}

func TestCancelDoesNotOvertakeItsRequest(t *testing.T) {
	slow := &slowToDial{}
	withHoldingServer(t, &Client{HTTP: &http.Client{Transport: slow}}, nil, holdMethod("tools/call"), func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := begin(ctx, conn, "tools/call", nil)
		synctest.Wait()
		cancel()
		<-ended
		time.Sleep(time.Second)
		h.want(t) // nothing has left
		close(slow.let)
		time.Sleep(time.Second)
		if got := h.lines(); len(got) < 2 || got[0] != "+tools/call" || !slices.Contains(got, "cancelled") {
			t.Errorf("the server sees %q", got)
		}
	})
}

func TestNotificationsBeforeCloseArePosted(t *testing.T) {
	withHoldingServer(t, &Client{}, nil, holdMethod("tools/call"), func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := begin(ctx, conn, "tools/call", nil)
		synctest.Wait()
		notify(t, conn, "notifications/last")
		cancel()
		<-ended
		_ = conn.Close()
		if got := h.lines(); !slices.Contains(got, "+notifications/last") || !slices.Contains(got, "cancelled") {
			t.Errorf("the server sees %q", got)
		}
	})
}

func TestNotificationsThatFindNoRoomAreDropped(t *testing.T) {
	withHoldingServer(t, &Client{}, nil, holdMethod("notifications/slow"), func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		notify(t, conn, "notifications/slow")
		for range maxNotes + 100 {
			synctest.Wait()
			notify(t, conn, "notifications/x")
		}
		time.Sleep(time.Hour)
		lines := h.lines()
		if n := len(lines); n != 2*(1+maxNotes) {
			t.Errorf("the server sees %d lines, want those of %d notifications", n, 1+maxNotes)
		}
		if _, err := callPing(t.Context(), conn); err != nil {
			t.Error(err)
		}
	})
}

// A call that has become a task cannot be cancelled, so its request waits even if
// nobody waits for the answer.
func TestRequestsThatFindNoRoomAreNotSent(t *testing.T) {
	withHoldingServer(t, &Client{PostTimeout: 24 * time.Hour}, nil, holdMethod("tools/call"), func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		for range 2 { // more than mux permits in progress
			ctx, cancel := context.WithCancel(t.Context())
			var ended []<-chan error
			for range (maxPosts + maxNotes) / 2 {
				ended = append(ended, begin(ctx, conn, "tools/call", map[string]any{"name": "x", "task": map[string]any{}}))
			}
			synctest.Wait()
			cancel()
			for _, c := range ended {
				<-c
			}
		}
		if err := <-begin(t.Context(), conn, "ping", nil); !errors.Is(err, dragoman.ErrOverloaded) || errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("the call that finds no room ends with %v", err)
		}
		time.Sleep(24 * time.Hour)
		if err := <-begin(t.Context(), conn, "ping", nil); err != nil {
			t.Error(err)
		}
		if got := h.lines(); slices.Index(got, "+ping") != len(got)-2 {
			t.Errorf("the call that found no room was sent")
		}
	})
}

func TestAnswersThatFindNoRoomWait(t *testing.T) {
	const n = maxNotes + 3*maxPosts
	serve := func(h *holdingServer) func(context.Context, *dragoman.Message) string {
		return func(_ context.Context, m *dragoman.Message) string {
			switch {
			case m.Method() == "ping":
				var asking sync.WaitGroup
				for range n {
					asking.Go(func() { h.ask("roots/list") })
				}
				asking.Wait()
			case m.Kind() == dragoman.Response:
				time.Sleep(time.Second)
			}
			return "{}"
		}
	}
	withHoldingServer(t, &Client{PostTimeout: time.Hour}, pinger, serve, func(t *testing.T, h *holdingServer, conn dragoman.Conn) {
		before := time.Now()
		if _, err := callPing(t.Context(), conn); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took < n/maxPosts*time.Second {
			t.Errorf("%d answers took %v: more than %d were on their way at once", n, took, maxPosts)
		}
	})
}
