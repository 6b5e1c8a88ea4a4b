package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/gosdk"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// waitLimit is how long anything may take here.
const waitLimit = 30 * time.Second

// newServer returns a server of the SDK whose tools do what a handler can.
func newServer(t *testing.T) (*mcp.Server, *observed) {
	t.Helper()
	seen := &observed{started: make(chan struct{}, 8), cancelled: make(chan struct{}, 8)}
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return text(a.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"}, func(ctx context.Context, r *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: a.Text})
			if err != nil {
				return nil, nil, err
			}
		}
		return text("done " + a.Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		seen.started <- struct{}{}
		<-ctx.Done()
		seen.cancelled <- struct{}{}
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "sample"}, func(ctx context.Context, r *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		answer, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: a.Text}}}})
		if err != nil {
			return nil, nil, err
		}
		return text(answer.Content.(*mcp.TextContent).Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("it went wrong")
	})
	return s, seen
}

type observed struct{ started, cancelled chan struct{} }

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// endpoints serves a server of the SDK on every transport, and returns dialers of this module to it.
func endpoints(t *testing.T, s *mcp.Server) map[string]dragoman.Dialer {
	t.Helper()
	back := &era.Server{Dialer: gosdk.Dialer(s)}
	t.Cleanup(func() { _ = back.Close() })
	endpoint := &streamable.Server{Sessions: back, Requests: back.Requests()}
	old := &sse.Server{Acceptor: back, MessagesPath: "/messages"}
	sockets := &ws.Server{Acceptor: back, Requests: back.Requests()}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle("/sse", old.Stream())
	mux.Handle("/messages", old.Messages())
	mux.Handle("/ws", sockets)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_, _, _ = endpoint.Shutdown(gone), old.Shutdown(gone), sockets.Shutdown(gone) // only this module's connections are cut here
		server.Close()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := &stdio.Server{Acceptor: back}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = lines.Serve(listener) // ends when it is shut
	}()
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = lines.Shutdown(gone)
		<-served
	})
	return map[string]dragoman.Dialer{
		"in this process": gosdk.Dialer(s),
		"Streamable HTTP": &streamable.Client{URL: server.URL + "/mcp"},
		"HTTP+SSE":        &sse.Client{URL: server.URL + "/sse"},
		"WebSocket":       &ws.Client{URL: "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"},
		"a socket":        &stdio.Address{Network: "tcp", Address: listener.Addr().String()},
	}
}

func TestClientsOfTheSDKUseServersOfTheSDKOverEveryTransport(t *testing.T) {
	server, seen := newServer(t)
	for name, d := range endpoints(t, server) {
		t.Run(name, func(t *testing.T) { use(t, d, server, seen) })
	}
}

// use does with a server what a client of the SDK can.
func use(t *testing.T, d dragoman.Dialer, server *mcp.Server, seen *observed) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	progress := make(map[any][]string)
	told := make(chan *mcp.ProgressNotificationParams, 64)
	changed := make(chan struct{}, 8)
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			asked := r.Params.Messages[0].Content.(*mcp.TextContent).Text
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "answer to " + asked}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			told <- r.Params
		},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
	})
	session, err := c.Connect(ctx, gosdk.Transport(d), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Errorf("the session does not end in good order: %v", err)
		}
	}()
	tools, err := session.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) < 5 {
		t.Fatalf("tools: %v, %v", tools, err)
	}
	call := func(ctx context.Context, name, arg string, token any) (string, error) {
		p := &mcp.CallToolParams{Name: name, Arguments: map[string]any{"text": arg}}
		if token != nil {
			p.SetProgressToken(token)
		}
		r, err := session.CallTool(ctx, p)
		if err != nil {
			return "", err
		}
		return r.Content[0].(*mcp.TextContent).Text, nil
	}
	if got, err := call(ctx, "echo", "hello", nil); got != "hello" {
		t.Errorf("echo: %q, %v", got, err)
	}
	if got, err := call(ctx, "fail", "", nil); got != "it went wrong" {
		t.Errorf("fail: %q, %v", got, err)
	}
	if _, err := call(ctx, "no-such-tool", "", nil); err == nil {
		t.Error("a tool that is not there answers")
	}

	// In the legacy era a server may ask while it works.
	if session.InitializeResult().ProtocolVersion < "2026" {
		if got, err := call(ctx, "sample", "question", nil); got != "answer to question" {
			t.Errorf("sample: %q, %v", got, err)
		}
		server.AddTool(&mcp.Tool{Name: "another", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
		server.RemoveTools("another")
		select {
		case <-changed:
		case <-ctx.Done():
			t.Error("a change of the list is not told")
		}
	}

	// Many at once: each has its own progress, before its answer.
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			name, token := fmt.Sprint("call ", i), fmt.Sprint("token ", i)
			got, err := call(ctx, "progress", name, token)
			if got != "done "+name {
				t.Errorf("progress: %q, %v", got, err)
			}
		})
	}
	all.Wait()
	for i := range 10 {
		name, token := fmt.Sprint("call ", i), fmt.Sprint("token ", i)
		want := fmt.Sprint([]string{"1" + name, "2" + name, "3" + name})
		got := ""
		for ctx.Err() == nil { // the SDK tells its handler later than who called
			if got = fmt.Sprint(progress[token]); got == want {
				break
			}
			select {
			case note := <-told:
				progress[note.ProgressToken] = append(progress[note.ProgressToken], fmt.Sprint(note.Progress, note.Message))
			case <-ctx.Done():
			}
		}
		if got != want {
			t.Errorf("progress of %s is %s, want %s", name, got, want)
		}
	}

	// A cancel reaches the handler.
	short, giveUp := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := call(short, "wait", "", nil)
		ended <- err
	}()
	select {
	case <-seen.started:
	case <-ctx.Done():
		t.Fatal("the tool is not called")
	}
	giveUp()
	if err := <-ended; err == nil {
		t.Error("a cancelled call has an answer")
	}
	select {
	case <-seen.cancelled:
	case <-ctx.Done():
		t.Error("the handler is not told that its call is cancelled")
	}
}

func TestAnErrorOfOneRequestDoesNotEndTheSession(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	server, _ := newServer(t)
	inner := gosdk.Dialer(server)
	full := dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		conn, err := inner.Dial(ctx, local)
		return refusing{conn}, err
	})
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	session, err := c.Connect(ctx, gosdk.Transport(full), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "refuse"}}); err == nil {
		t.Error("a request that was not sent is answered")
	}
	if err := session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "x"}); err == nil {
		t.Error("a notification that was not sent seems to be")
	}
	if r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}); err != nil || r.IsError {
		t.Errorf("the session is over: %v", err)
	}
}

// refusing is a conversation that is full now and then.
type refusing struct{ dragoman.Conn }

func (r refusing) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if strings.Contains(string(req.Params()), "refuse") {
		return nil, dragoman.ErrOverloaded
	}
	return r.Conn.Call(ctx, req, from)
}

func (r refusing) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == "notifications/progress" {
		return dragoman.ErrOverloaded
	}
	return r.Conn.Notify(ctx, note)
}

func TestTheEndOfTheConversationEndsTheSession(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	server, _ := newServer(t)
	inner := gosdk.Dialer(server)
	conns := make(chan dragoman.Conn, 1)
	d := dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		conn, err := inner.Dial(ctx, local)
		conns <- conn
		return conn, err
	})
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	session, err := c.Connect(ctx, gosdk.Transport(d), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = (<-conns).Close() // by the server
	_ = session.Wait()
	if _, err := session.ListTools(ctx, nil); err == nil {
		t.Error("a session that is over answers")
	}
}
