package streamable

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// modern takes a request of the modern era: it checks that the request has its
// envelope, and that its headers say the same as its body.
func (s *Server) modern(x *httpserver.Exchange, m *dragoman.Message, header string) error {
	e, err := protocol.ReadEnvelope(m)
	if err != nil {
		return refuseMessage(m, http.StatusBadRequest, protocol.CodeInvalidParams, err.Error())
	}
	claim := e.Version
	switch {
	case header == "":
		return refuseMessage(m, http.StatusBadRequest, protocol.CodeHeaderMismatch, protocol.HeaderVersion+" is missing; it must be "+claim)
	case header != claim:
		return refuseMessage(m, http.StatusBadRequest, protocol.CodeHeaderMismatch, fmt.Sprintf("%s says %q, the body says %q", protocol.HeaderVersion, header, claim))
	case protocol.ParseRevision(claim).Era() != protocol.Modern || !s.opts.modern:
		return s.unsupported(m, claim)
	}
	x.Caller = protocol.Named(x.Caller, m)
	if err := s.checkHeaders(x, m); err != nil {
		return err
	}
	return s.modernRequest(x, m)
}

// modernNotification takes a notification of the modern era. The protocol has none that mean
// anything here: requests are cancelled by closing their connection, and acting on an id
// that anybody may name would let one caller cancel another's work.
func (s *Server) modernNotification(x *httpserver.Exchange, m *dragoman.Message) error {
	if jsonrpc.LacksID(m) {
		return s.refuseNoID(x, s.Requests, m)
	}
	if s.opts.modern && m.Method() != protocol.NoteCancelled {
		if err := refusedNote(jsonrpc.Deliver(x.Context(), s.Requests, m, s.opts.logger)); err != nil {
			return err
		}
	}
	x.Accepted()
	return nil
}

// refuseNoID refuses a request that lacks its id. peer is that which it was for.
func (s *Server) refuseNoID(x *httpserver.Exchange, peer dragoman.Peer, m *dragoman.Message) error {
	e := jsonrpc.RefuseNoID(x.Context(), peer, m, s.opts.logger)
	return refuse(http.StatusBadRequest, e.Code, e.Message)
}

// modernRequest serves a request of the modern era. A connection that is dropped
// cancels it.
func (s *Server) modernRequest(x *httpserver.Exchange, m *dragoman.Message) error {
	a := s.newAnswer(x)
	ctx := &a.ctx
	ctx.parent, ctx.reason = x.Context(), dragoman.ErrCancelled
	ctx.cancelledWithParent = x.OnLeave(ctx.endWithParent)
	defer ctx.close()
	lost := func() { ctx.cancel(dragoman.ErrClosed) }
	x.OnAbort(lost)
	if protocol.Lasts(m.Method()) {
		defer context.AfterFunc(s.draining, lost)()
		x.OnExpired(lost)
	}
	a.watchQuiet()
	resp := s.callModern(ctx, m, modernClient{a})
	if x.R.Context().Err() != nil {
		a.finish(nil, 0, nil) // nobody reads it
		return nil
	}
	if m.Method() == protocol.MethodListTools {
		s.tools.Learn(x.Caller, m, resp)
	}
	a.respond(resp, modernStatus(m.Method(), resp))
	return nil
}

// callModern asks the server. There is always an answer.
func (s *Server) callModern(ctx context.Context, m *dragoman.Message, from dragoman.Peer) *dragoman.Message {
	resp := jsonrpc.Serve(ctx, s.Requests, m, from, s.opts.logger)
	if resp == nil {
		resp = protocol.Failure(m, dragoman.ErrCancelled)
	}
	return resp
}

// A modernClient is the client as seen from inside a request of the modern era: it
// can be told and not asked.
type modernClient struct{ answer *postAnswer }

// Call refuses: a server of the modern era asks by its result.
func (c modernClient) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "a client of this era cannot be asked; answer with input_required"}), nil
}

// Notify tells the client on the stream of its request.
func (c modernClient) Notify(_ context.Context, note *dragoman.Message) error {
	return c.answer.tell(note)
}
