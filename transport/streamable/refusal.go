package streamable

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func refuse(status, code int, message string) *httpserver.Refusal {
	return &httpserver.Refusal{Status: status, Code: code, Message: message}
}

// refuseMessage refuses a request by its id.
func refuseMessage(m *dragoman.Message, status, code int, message string) *httpserver.Refusal {
	r := refuse(status, code, message)
	if m.Kind() == dragoman.Request {
		r.ID = m.ID()
	}
	return r
}

// refusedSession returns why a message finds no session, with its id if it is a
// request. All who waited for one session have the same err, so it is not changed.
func refusedSession(m *dragoman.Message, err error) error {
	shared, ok := errors.AsType[*httpserver.Refusal](err)
	if !ok || m.Kind() != dragoman.Request {
		return err
	}
	own := *shared
	own.ID = m.ID()
	if own.Code == protocol.CodeUnavailable {
		own.Status = http.StatusOK // an answer like any other
	}
	return &own
}

// codeSessionGone is what servers of the legacy era say of a session that they
// do not know.
const codeSessionGone = -32001

// refuseRequest refuses a request of a session that has too many, or whose id is in use.
func refuseRequest(m *dragoman.Message, e *dragoman.Error) error {
	status := http.StatusBadRequest
	if e.Code == protocol.CodeOverloaded {
		status = http.StatusTooManyRequests
	}
	r := refuseMessage(m, status, e.Code, e.Message)
	r.Data = e.Data
	return r
}

// refusedNote refuses a notification that a limit kept from being passed on. Every other notification is
// accepted, whatever becomes of it.
func refusedNote(err error) error {
	e, ok := errors.AsType[*dragoman.Error](err)
	if !ok || httpserver.RefusedStatus(e) == 0 {
		return nil
	}
	return httpserver.Unavailable(e)
}

// refuseDraining refuses whatever comes while we are stopping.
func refuseDraining() error {
	return httpserver.Unavailable(protocol.Draining())
}

func sessionGone() error {
	return refuse(http.StatusNotFound, codeSessionGone, "Session not found; send initialize to begin another")
}

func streamGone() error {
	return refuse(http.StatusBadRequest, protocol.CodeServer, "the stream of Last-Event-ID is gone; make the request again if you need its answer")
}

// unavailable refuses what was not sent because the server cannot be reached. An answer of
// the server's to our own request says no more than that.
func unavailable(reason error) error {
	if e, ok := errors.AsType[*dragoman.Error](reason); ok {
		switch e.Code {
		case protocol.CodeUnavailable, protocol.CodeOverloaded, protocol.CodeDraining:
		default:
			reason = errors.New(e.Message)
		}
	}
	return httpserver.Unavailable(protocol.Unavailable(reason))
}

// cannotReplay says that events cannot be replayed.
func cannotReplay(err error) error {
	return refuse(http.StatusBadRequest, protocol.CodeServer, "events behind Last-Event-ID cannot be replayed: "+err.Error()+
		"; open a stream without Last-Event-ID and fetch what you need again")
}

// legacyStatus is the HTTP status that goes with a response of the legacy era, as
// long as there is no stream.
func legacyStatus(resp *dragoman.Message) int {
	if !resp.IsError() {
		return http.StatusOK
	}
	if protocol.NeededScope(resp.RPCError()) != "" {
		return http.StatusForbidden
	}
	return cmp.Or(httpserver.RefusedStatus(resp.RPCError()), http.StatusOK)
}

// initializeStatus is the HTTP status that goes with the answer to initialize. It is
// 400, as in the modern era, only for the error that says which revisions there are:
// clients take other errors with such a status for the word of a server of HTTP+SSE.
func initializeStatus(resp *dragoman.Message) int {
	if resp.IsError() && resp.RPCError().Code == protocol.CodeUnsupported {
		return http.StatusBadRequest
	}
	return legacyStatus(resp)
}

// modernStatus is the HTTP status that goes with a response to a method of the modern
// era. Once a stream has begun, it is 200 whatever comes. 404 is for a method that
// the server does not have, not for what a request names.
func modernStatus(method string, resp *dragoman.Message) int {
	if resp.IsError() {
		switch resp.RPCError().Code {
		case protocol.CodeMethodNotFound:
			if protocol.NamesItem(method) {
				return http.StatusOK
			}
			return http.StatusNotFound
		case protocol.CodeHeaderMismatch, protocol.CodeMissingCapability, protocol.CodeUnsupported:
			return http.StatusBadRequest
		}
		return legacyStatus(resp)
	}
	return http.StatusOK
}

// unsupported refuses a revision that is not served, and names those that are.
func (s *Server) unsupported(m *dragoman.Message, requested string) error {
	e := protocol.Unsupported(requested, protocol.Names(slices.DeleteFunc(protocol.Revisions(), func(rev protocol.Revision) bool {
		if rev.Era() == protocol.Modern {
			return !s.opts.modern
		}
		return !s.opts.legacy || !rev.HasStreamableHTTP()
	})))
	refusal := refuseMessage(m, http.StatusBadRequest, e.Code, e.Message)
	refusal.Data = e.Data
	return refusal
}
