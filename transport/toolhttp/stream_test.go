package toolhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

func TestA20_A21_StreamCarriesFragmentsAndThenTheWholeAnswer(t *testing.T) {
	s := open(t, nil)
	for path, body := range map[string]string{
		"":      request(`"é"`, "slow", `{"ms":20,"steps":3}`),
		"/slow": `{"ms":20,"steps":3}`,
	} {
		events := s.events(path, body)
		if names(events) != "result result result complete" {
			t.Fatalf("the events are %s", names(events))
		}
		for i, e := range events[:3] {
			want := fmt.Sprintf(`{"content":[{"type":"text","text":"step %d of 3"}],"_meta":{"progress":%d,"total":3}}`, i+1, i+1)
			if string(e.Data) != want {
				t.Errorf("fragment %d is %s, want %s", i, e.Data, want)
			}
		}
		m := peertest.Parse(t, events[3].Data)
		if err := protocol.CheckToolResponse(m); err != nil || textOf(t, m) != "Took 20 ms in 3 steps." {
			t.Errorf("the answer is %s, %v", m, err)
		}
		if path == "" && m.ID().String() != `"é"` {
			t.Errorf("the id is %s", m.ID())
		}
	}
}

func TestA20_StreamIsNotBuffered(t *testing.T) {
	let := make(chan struct{})
	s := open(t, &toolhttp.Server{Requests: scriptedPeer{call: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		<-let
		if err := notifyProgress(ctx, req, from, `,"progress":1,"message":"one"`); err != nil {
			return nil, err
		}
		<-let
		return req.Reply(nil)
	}}})
	resp := s.begin(t.Context(), "POST", "", request(`1`, "t", `{}`), "Accept", "text/event-stream", "Accept-Encoding", "gzip")
	defer resp.Body.Close()
	// The headers have come before the tool has done anything.
	for name, want := range map[string]string{
		"Content-Type": sse.ContentType, "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no",
		"Content-Encoding": "", "Content-Length": "",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	r := sse.NewReader(resp.Body, 1<<20)
	for _, want := range []string{"result", "complete"} {
		let <- struct{}{}
		if e, err := r.Next(); err != nil || e.Name != want {
			t.Fatalf("got %v, %v, want %s", e, err, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the answer: %v, want the end", err)
	}
}

func TestA21_ProgressWithContentIsAFragment(t *testing.T) {
	const image = `{"type":"image","data":"AA==","mimeType":"image/png"}`
	for _, test := range []struct {
		name, progress string
		want           string // the fragment, or "" if there is none
	}{
		{"message", `,"progress":1,"message":"a <b>"`, `{"content":[{"type":"text","text":"a <b>"}],"_meta":{"progress":1}}`},
		{"content", `,"progress":1.5,"total":2,"content":[` + image + `]`, `{"content":[` + image + `],"_meta":{"progress":1.5,"total":2}}`},
		{"both", `,"progress":1,"message":"m","content":[` + image + `]`, `{"content":[` + image + `],"_meta":{"message":"m","progress":1}}`},
		{"neither", `,"progress":1`, ``},
		{"empty message", `,"progress":1,"message":""`, ``},
		{"empty content", `,"progress":1,"content":[]`, ``},
		{"message is no string", `,"progress":1,"message":7`, ``},
		{"content is no content", `,"progress":1,"content":[7]`, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, &toolhttp.Server{Requests: scriptedPeer{call: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				log, _ := dragoman.NewNotification(protocol.NoteMessage, map[string]any{"level": "info", "data": "not for the caller"})
				_ = from.Notify(ctx, log)
				if ask, err := from.Call(ctx, mustRequest("elicitation/create"), nil); err != nil || !ask.IsError() {
					t.Errorf("a question got %v, %v", ask, err)
				}
				if err := notifyProgress(ctx, req, from, test.progress); err != nil {
					return nil, err
				}
				return req.Reply(nil)
			}}})
			events := s.events("", request(`1`, "t", `{}`))
			if test.want == "" {
				if names(events) != "complete" {
					t.Errorf("the events are %s: %s", names(events), events[0].Data)
				}
				return
			}
			if names(events) != "result complete" || string(events[0].Data) != test.want {
				t.Errorf("the events are %s: %s", names(events), events[0].Data)
			}
		})
	}
}

func mustRequest(method string) *dragoman.Message {
	m, err := dragoman.NewRequest(dragoman.IntID(1), method, nil)
	if err != nil {
		panic(err)
	}
	return m
}

// inMemory runs a test with a server on a network in memory.
func inMemory(t *testing.T, s *toolhttp.Server, f func(t *testing.T, l *memnet.Listener)) {
	t.Helper()
	if s.Requests == nil {
		s.Requests = builtin.New(nil).Requests()
	}
	memnet.Serve(t, s, s.Close, f)
}

// post sends a call for a stream on a connection of its own.
func post(t *testing.T, l *memnet.Listener, body string) net.Conn {
	t.Helper()
	return l.Send(t, "POST", "/", body, "Accept: text/event-stream")
}

func TestA22_SilentStreamHasHeartbeats(t *testing.T) {
	for keepAlive, want := range map[time.Duration]int{0: 3, 7 * time.Second: 7} {
		s := &toolhttp.Server{KeepAlive: keepAlive}
		inMemory(t, s, func(t *testing.T, l *memnet.Listener) {
			conn := post(t, l, request(`1`, "slow", `{"ms":50000}`))
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			start := time.Now()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(string(text), ": heartbeat\n\n"); got != want || time.Since(start) < 45*time.Second {
				t.Errorf("%d heartbeats in %v, want %d: %s", got, time.Since(start), want, text)
			}
			if !strings.HasSuffix(string(text), "\n\n") || !strings.Contains(string(text), "event: complete\n") {
				t.Errorf("the stream is %s", text)
			}
		})
	}
}

func TestS12_BodyThatIsTooSlowGets408(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Minute: time.Minute} {
		inMemory(t, &toolhttp.Server{BodyTimeout: timeout}, func(t *testing.T, l *memnet.Listener) {
			conn, err := l.DialContext(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			start := time.Now()
			_, _ = io.WriteString(conn, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if took := time.Since(start); resp.StatusCode != http.StatusRequestTimeout || took != want {
				t.Errorf("status %d after %v, want 408 after %v", resp.StatusCode, took, want)
			}
		})
	}
}

func TestCallerThatDoesNotReadIsCut(t *testing.T) {
	var ended chan error // made inside, where time is our own
	var told, took time.Duration
	s := &toolhttp.Server{WriteTimeout: 20 * time.Second, Requests: scriptedPeer{call: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		start := time.Now()
		for range 1500 {
			if err := notifyProgress(ctx, req, from, `,"progress":1,"message":"`+strings.Repeat("x", 1024)+`"`); err != nil {
				return nil, err
			}
		}
		told = time.Since(start)
		<-ctx.Done()
		took = time.Since(start)
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}}}
	inMemory(t, s, func(t *testing.T, l *memnet.Listener) {
		ended = make(chan error, 1)
		conn := post(t, l, request(`1`, "t", `{}`))
		defer conn.Close()
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // it reads the headers, and no more
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, dragoman.ErrCancelled) {
			t.Errorf("the call ended with %v, want ErrCancelled", err)
		}
	})
	if told != 0 || took != 20*time.Second {
		t.Errorf("telling took %v and the cut came after %v, want 0 and 20 s", told, took)
	}
}

func TestFragmentsThatWaitAreBounded(t *testing.T) {
	const n = 2500
	var told chan struct{} // made inside, where time is our own
	for name, size := range map[string]int{"by number": 1, "by size": 256 << 10} {
		t.Run(name, func(t *testing.T) {
			s := &toolhttp.Server{Requests: scriptedPeer{call: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				count := n
				if size > 1 {
					count = 48
				}
				text := strings.Repeat("x", size)
				for i := range count {
					if err := notifyProgress(ctx, req, from, fmt.Sprintf(`,"progress":%d,"message":"%s"`, i, text)); err != nil {
						return nil, err
					}
				}
				told <- struct{}{}
				return req.Reply(json.RawMessage(`{"content":[{"type":"text","text":"whole"}]}`))
			}}}
			inMemory(t, s, func(t *testing.T, l *memnet.Listener) {
				told = make(chan struct{})
				conn := post(t, l, request(`1`, "t", `{}`))
				defer conn.Close()
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				<-told
				var results, last int
				reader := sse.NewReader(resp.Body, 4<<20)
				for {
					e, err := reader.Next()
					if err != nil {
						t.Fatalf("behind %d fragments: %v", results, err)
					}
					if e.Name == "complete" {
						if textOf(t, peertest.Parse(t, e.Data)) != "whole" {
							t.Errorf("the answer is %s", e.Data)
						}
						break
					}
					results++
					var f struct {
						Meta struct{ Progress int } `json:"_meta"`
					}
					if err := json.Unmarshal(e.Data, &f); err != nil || f.Meta.Progress < last {
						t.Fatalf("fragment %s after %d: %v", e.Data, last, err)
					}
					last = f.Meta.Progress
				}
				most := 1024
				if size > 1 {
					most = 16
				}
				// One batch may be on its way while another waits.
				if results == 0 || results > 2*most+1 {
					t.Errorf("%d fragments came, want some but no more than %d", results, 2*most+1)
				}
			})
		})
	}
}
