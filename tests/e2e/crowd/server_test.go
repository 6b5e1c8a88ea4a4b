//go:build unix

package crowd

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A journalingServer is the built-in server of one revision, which writes down each run
// of a tool, and has one tool more: tell, which tells its caller the caller's own
// words.
type journalingServer struct {
	server *builtin.Server
	rev    protocol.Revision
	journal
}

func newJournalingServer(r protocol.Revision, j journal) *journalingServer {
	return &journalingServer{builtin.New(&builtin.Options{Revisions: []protocol.Revision{r}}), r, j}
}

// Accept implements dragoman.Acceptor.
func (w *journalingServer) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	peer, err := w.server.Accept(ctx, client)
	return journalingPeer{peer, w}, err
}

// A journalingPeer is one endpoint of a journalingServer.
type journalingPeer struct {
	dragoman.Peer
	*journalingServer
}

func (y journalingPeer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() != protocol.MethodCallTool {
		return y.Peer.Call(ctx, req, from)
	}
	// The next round of a call is no run of its own.
	if req.Get("inputResponses") == nil && req.Get("requestState") == nil {
		y.write("run " + req.Name())
	}
	if req.Name() == "tell" {
		return y.tell(ctx, req, from)
	}
	return y.Peer.Call(ctx, req, from)
}

// steps is how often tell tells its progress, and how often it logs.
const steps = 3

func (y journalingPeer) tell(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	var args struct{ Text string }
	if err := json.Unmarshal(req.Get("arguments"), &args); err != nil {
		return nil, err
	}
	for i := range steps {
		if from == nil {
			break
		}
		for method, params := range map[string]object{
			protocol.NoteProgress: {"progressToken": req.Meta(protocol.MetaProgressToken), "progress": i + 1, "message": args.Text},
			protocol.NoteMessage:  {"level": "info", "data": args.Text},
		} {
			note, err := dragoman.NewNotification(method, params)
			if err == nil {
				err = from.Notify(ctx, note)
			}
			if err != nil {
				return nil, err
			}
		}
		select { // so that others come between
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	result := object{"content": []object{{"type": "text", "text": args.Text}}}
	if y.rev.Era() == protocol.Modern {
		result["resultType"] = protocol.ResultComplete
	}
	return req.Reply(result)
}

// An httpHost is a journalingServer that is reached over Streamable HTTP.
type httpHost struct {
	server   *journalingServer
	endpoint *streamable.Server
	http     *http.Server
	address  string
	served   chan struct{}
}

// listen opens an httpHost on an address, which may be "" for any.
func listen(t *testing.T, r protocol.Revision, j journal, address string) *httpHost {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	w := newJournalingServer(r, j)
	h := &httpHost{
		server: w, address: l.Addr().String(), served: make(chan struct{}),
		endpoint: &streamable.Server{Sessions: w, Requests: journalingPeer{w.server.Requests(), w}},
	}
	h.http = &http.Server{Handler: h.endpoint, ReadHeaderTimeout: patience}
	go func() { // ends with vanish
		defer close(h.served)
		_ = h.http.Serve(l)
	}()
	t.Cleanup(h.vanish)
	return h
}

func (h *httpHost) url() string { return "http://" + h.address + "/mcp" }

// vanish ends the host at once: all connections break, as if the machine had
// been switched off.
func (h *httpHost) vanish() {
	_ = h.http.Close()
	<-h.served
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // calls in flight are not waited for
	_ = h.endpoint.Shutdown(ctx)
	_ = h.server.server.Close()
}
