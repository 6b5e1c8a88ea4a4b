package up

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A clientCall is one request of the client while it is carried. It is also the
// caller as the server sees it.
type clientCall struct {
	session *session
	hello   *handshake
	req     *dragoman.Message // of the client
	up      *dragoman.Message // as the server is asked it
	from    dragoman.Peer     // may be nil

	// What follows is for answers that are not the last one.
	rounds int       // that needed input
	idle   int       // rounds in a row that asked nothing
	until  time.Time // when the rounds must be over; zero before the first

	mu       sync.Mutex
	visits   []json.RawMessage // ids of elicitations by URL that the user agreed to; guarded by mu
	repeated bool              // the request has been sent again; guarded by mu
	progress float64           // last told; guarded by mu
	told     bool              // some progress has been told; guarded by mu
}

// forward passes a request on.
func (ss *session) forward(ctx context.Context, h *handshake, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if protocol.IsList(req.Method()) {
		ss.openListen(ctx)
	}
	up, err := h.route.Request(req, ss.envelope(h))
	if err != nil {
		return invalid(req, "%s cannot be passed on: %v", req.Method(), err), nil
	}
	k := &clientCall{session: ss, hello: h, req: req, up: up, from: from}
	resp, err := k.send(ctx, up)
	if err != nil {
		return nil, err
	}
	if isComplete(resp.Get("resultType")) {
		return k.finish(resp)
	}
	return k.drive(ctx, resp)
}

// send asks the server.
func (k *clientCall) send(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	var from dragoman.Peer
	if k.from != nil {
		from = k
	}
	resp, err := k.session.server.link.Call(ctx, req, from)
	if err == nil && resp == nil {
		err = fmt.Errorf("up: the server gave no answer to %s", req.Method())
	}
	return resp, err
}

// isComplete reports whether a resultType says that there is nothing to be done
// before the client can have the result. Servers that are not quite modern leave
// it out.
func isComplete(resultType json.RawMessage) bool {
	return resultType == nil || string(resultType) == `"`+protocol.ResultComplete+`"`
}

// finish returns the server's last answer as the client is to have it.
func (k *clientCall) finish(resp *dragoman.Message) (*dragoman.Message, error) {
	if resp.IsError() && resp.RPCError().Code == protocol.CodeUnsupported {
		k.session.server.forget()
	}
	if resp.ID() != k.req.ID() {
		resp = resp.WithID(k.req.ID())
	}
	out, err := k.hello.route.Response(k.req.Method(), resp, nil)
	if err != nil {
		return k.malformedResult("the server's answer cannot be told to the client: %v", err), nil
	}
	return out, nil
}

// Notify tells the client what belongs to its request.
func (k *clientCall) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() == protocol.NoteProgress && !k.advances(note) {
		return nil
	}
	out := k.hello.route.Note(note)
	if out == nil {
		return nil
	}
	return k.from.Notify(ctx, out)
}

// advances reports whether progress is more than was told before. A server that is
// asked again starts over, but to the client it is one request, whose progress
// only grows.
func (k *clientCall) advances(note *dragoman.Message) bool {
	done, err := strconv.ParseFloat(string(note.Get("progress")), 64)
	if err != nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.repeated && k.told && done <= k.progress {
		return false
	}
	k.progress, k.told = done, true
	return true
}

// Call refuses a question: modern servers have other ways to ask.
func (k *clientCall) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return dragoman.NoPeer.Call(ctx, req, from)
}

// malformedResult is the answer to a request that the server or we cannot handle.
func (k *clientCall) malformedResult(format string, args ...any) *dragoman.Message {
	return k.req.Fail(fault(protocol.CodeInternal, "Internal error: "+fmt.Sprintf(format, args...)))
}
