package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// listFailedFor is how long nobody asks again for a list of tools that the server has
// refused.
const listFailedFor = time.Second

// checkHeaders checks the headers of a modern request that repeat parts of its
// body, and returns why it is refused.
func (s *Server) checkHeaders(x *httpserver.Exchange, m *dragoman.Message) error {
	err := checkMethodAndName(x.R, m)
	if err == nil && m.Method() == protocol.MethodCallTool {
		err = s.checkParams(x, m)
		if _, refused := errors.AsType[*httpserver.Refusal](err); refused {
			return err
		}
	}
	if err != nil {
		return refuseMessage(m, http.StatusBadRequest, protocol.CodeHeaderMismatch, err.Error())
	}
	return nil
}

// checkMethodAndName checks Mcp-Method, which every request has, and Mcp-Name.
func checkMethodAndName(r *http.Request, m *dragoman.Message) error {
	method, present, err := httpserver.Single(r, protocol.HeaderMethod)
	switch {
	case err != nil:
		return err
	case !present:
		return errors.New(protocol.HeaderMethod + " is missing; it must be " + m.Method())
	case method != m.Method():
		return fmt.Errorf("%s says %q, the body says %q", protocol.HeaderMethod, method, m.Method())
	}
	want, needed := httpframe.MirrorName(m)
	if !needed {
		return nil
	}
	name, present, err := httpserver.Single(r, protocol.HeaderName)
	switch {
	case err != nil:
		return err
	case !present:
		return fmt.Errorf("%s is missing; it must be %q", protocol.HeaderName, want)
	}
	if name, err = httpframe.DecodeHeaderValue(name); err != nil {
		return fmt.Errorf("%s: %w", protocol.HeaderName, err)
	}
	if name != want {
		return fmt.Errorf("%s says %q, the body says %q", protocol.HeaderName, name, want)
	}
	return nil
}

// checkParams compares the Mcp-Param headers of a tool call with its arguments. A
// call that cannot be checked is refused: a proxy in between goes by the
// headers. The server says which there are by its list of tools; one that has none
// has none of these headers.
func (s *Server) checkParams(x *httpserver.Exchange, m *dragoman.Message) error {
	ctx, meta := x.R.Context(), m.Get("_meta")
	list, err := s.tools.Get(ctx, x.Caller, m.Name(), meta, s.listTools)
	if err != nil {
		e, ok := errors.AsType[*dragoman.Error](err)
		if ok && e.Code == protocol.CodeMethodNotFound || errors.Is(err, toollist.ErrNoTools) {
			return nil
		}
		return notListed(m, err)
	}
	tool := list.Tool(m.Name())
	if tool != nil {
		if err = checkTool(x.R, m, tool); err == nil {
			return nil
		}
	}
	newer := s.tools.Newer(ctx, x.Caller, m.Name(), list, meta, s.listTools)
	if tool = newer.Tool(m.Name()); newer == list || tool == nil {
		return err // what there is no tool for, the server refuses
	}
	return checkTool(x.R, m, tool)
}

// notListed refuses a call because the list of tools cannot be had.
func notListed(m *dragoman.Message, err error) *httpserver.Refusal {
	e, ok := errors.AsType[*dragoman.Error](err)
	reason := err.Error()
	if ok {
		reason = e.Message
	}
	switch {
	case ok && slices.Contains([]int{protocol.CodeUnavailable, protocol.CodeOverloaded, protocol.CodeDraining, protocol.CodeSignIn, protocol.CodeDenied}, e.Code):
		// The call would have had it too.
	default:
		e = protocol.Unavailable(fmt.Errorf("its list of tools, by which headers are checked, is missing: %s", reason))
	}
	return &httpserver.Refusal{Status: modernStatus(m.Method(), m.Fail(e)), Code: e.Code, Message: e.Message, Data: e.Data, ID: m.ID()}
}

// listTools asks the server for its tools.
func (s *Server) listTools(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.base.Aborted(), func() { cancel(dragoman.ErrClosed) })()
	return s.callModern(ctx, req, nil), nil
}

// checkTool compares the headers that a tool asks for with the arguments of a call.
func checkTool(r *http.Request, m *dragoman.Message, tool *toollist.Tool) error {
	headers, _ := tool.Headers() // tools with faulty annotations are dropped by clients, not by us
	for _, h := range headers {
		want, present, err := h.Value(m.Get("arguments"))
		if errors.Is(err, toollist.ErrTwice) { // who goes by the header may mean the other one
			return refuseMessage(m, http.StatusBadRequest, protocol.CodeInvalidRequest, err.Error())
		}
		if err != nil || !present {
			continue // the tool judges its arguments itself
		}
		got, sent, err := httpserver.Single(r, h.Header())
		switch {
		case err != nil:
			return err
		case !sent:
			return fmt.Errorf("%s is missing; it must repeat the argument", h.Header())
		}
		if got, err = httpframe.DecodeHeaderValue(got); err != nil {
			return fmt.Errorf("%s: %w", h.Header(), err)
		}
		if !toollist.Equal(got, want, h.Type) {
			return fmt.Errorf("%s says %q, the body says %q", h.Header(), got, want)
		}
	}
	return nil
}
