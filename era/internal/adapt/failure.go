package adapt

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The codes that the modern era keeps for itself.
const (
	firstReserved = -32020
	lastReserved  = -32099
)

// failure returns an error response with the code that the client's revision
// has for it.
func (r Route) failure(method string, resp *dragoman.Message) (*dragoman.Message, error) {
	e := resp.RPCError()
	switch code := r.code(method, e); {
	case code == e.Code:
		return resp, nil
	case r.up() && code == protocol.CodeInternal:
		// data would tell of our own link to the server.
		return recoded(resp, code, "data")
	default:
		return recoded(resp, code, "")
	}
}

func (r Route) code(method string, e *dragoman.Error) int {
	switch {
	case r.down() && e.Code == protocol.CodeResourceNotFound:
		return r.Client.CodeNoResource()
	case r.down() && e.Code == protocol.CodeMissingCapability && dragoman.IsObject(dragoman.Member(e.Data, "requiredCapabilities")):
		return e.Code // the Go SDK says so to legacy clients too, and it can mean nothing else
	case r.down() && e.Code <= firstReserved && e.Code >= lastReserved:
		// To a modern client it would mean something that the server did not mean.
		return protocol.CodeInternal
	case r.up() && (e.Code == protocol.CodeHeaderMismatch || e.Code == protocol.CodeUnsupported):
		return protocol.CodeInternal
	case r.up() && e.Code == r.Server.CodeNoResource() && method == protocol.MethodReadResource && missing(e):
		return r.Client.CodeNoResource()
	}
	return e.Code
}

// missing reports whether the error of a read says that there is no such resource
// rather than that the request is wrong.
func missing(e *dragoman.Error) bool {
	_, names := dragoman.Text(dragoman.Member(e.Data, "uri"))
	return names || strings.Contains(strings.ToLower(e.Message), "not found")
}

// recoded returns an error response with another code, and without that member.
func recoded(resp *dragoman.Message, code int, without string) (*dragoman.Message, error) {
	out := edited(resp.Bytes(), func(name string, value []byte) []byte {
		if name != "error" {
			return value
		}
		return edited(value, func(name string, value []byte) []byte {
			switch name {
			case "code":
				return strconv.AppendInt(nil, int64(code), 10)
			case without:
				return nil
			}
			return value
		}, nil)
	}, nil)
	return dragoman.Limits{MaxMessage: -1}.Parse(out)
}
