package gosdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/gosdk"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacy has a client of the SDK begin a session.
var legacy = &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}

func TestWhatAHandlerAsksIsAnsweredAlsoWhenItsRequestIsOver(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	asked, answered := make(chan struct{}, 1), make(chan error, 1)
	mcp.AddTool(server, &mcp.Tool{Name: "late"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		go func() {
			_, err := r.Session.ListRoots(context.WithoutCancel(ctx), nil)
			answered <- err
		}()
		select {
		case <-asked:
		case <-ctx.Done():
		}
		return text("done"), nil, nil
	})
	for name, d := range endpoints(t, server) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
			defer cancel()
			over := make(chan struct{})
			c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
			c.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					if method == "roots/list" {
						asked <- struct{}{}
						<-over
					}
					return next(ctx, method, req)
				}
			})
			session, err := c.Connect(ctx, gosdk.Transport(d), legacy)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "late", Arguments: map[string]any{}})
			close(over)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-answered:
				if err == nil || !strings.Contains(err.Error(), "is over") {
					t.Errorf("the answer is %v", err)
				}
			case <-ctx.Done():
				t.Fatal("the handler waits for an answer forever")
			}
		})
	}
}

func TestCloseReturnsWhenTheSessionIsEndedAtTheServer(t *testing.T) {
	server, _ := newServer(t)
	back := &era.Server{Dialer: gosdk.Dialer(server)}
	t.Cleanup(func() { _ = back.Close() })
	endpoint := &streamable.Server{Sessions: back, Requests: back.Requests()}
	t.Cleanup(func() { _ = endpoint.Close() })
	var deleted atomic.Bool
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint.ServeHTTP(w, r)
		if r.Method == http.MethodDelete {
			deleted.Store(true) // before the answer leaves
		}
	}))
	t.Cleanup(at.Close)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	session, err := c.Connect(ctx, gosdk.Transport(&streamable.Client{URL: at.URL}), legacy)
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Close(); err != nil || !deleted.Load() {
		t.Errorf("Close returns %v, and the session is deleted: %t", err, deleted.Load())
	}
}

// A recorder is a conversation that answers every request at once, and keeps what it is told.
type recorder struct {
	dragoman.Conn
	told chan string
}

func (r recorder) Notify(_ context.Context, note *dragoman.Message) error {
	r.told <- note.Method()
	return nil
}

func TestACancelOfWhatIsAnsweredIsToldNobody(t *testing.T) {
	answers := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(map[string]any{})
	}}
	told := make(chan string, 8)
	d := dragoman.DialFunc(func(_ context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		conn, _ := dragoman.Pipe(local, answers)
		return recorder{conn, told}, nil
	})
	conn, err := gosdk.Transport(d).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	id, err := jsonrpc.MakeID("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), &jsonrpc.Request{ID: id, Method: "ping"}); err != nil {
		t.Fatal(err)
	}
	if answer, err := conn.Read(t.Context()); err != nil {
		t.Fatal(answer, err)
	}
	for _, method := range []string{"notifications/cancelled", "notifications/message"} {
		if err := conn.Write(t.Context(), &jsonrpc.Request{Method: method, Params: []byte(`{"requestId":"a"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-told; got != "notifications/message" {
		t.Errorf("the other side is told %s", got)
	}
}
