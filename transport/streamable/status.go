package streamable

import (
	"encoding/json"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// unsent tells whether a response says that a limit of ours, or our end, kept the
// request from being sent.
func unsent(resp *dragoman.Message) bool {
	if !resp.IsError() {
		return false
	}
	e := resp.RPCError()
	if e.Code != protocol.CodeOverloaded && e.Code != protocol.CodeDraining {
		return false
	}
	var data struct {
		Outcome string `json:"outcome"`
	}
	return json.Unmarshal(e.Data, &data) == nil && data.Outcome == protocol.OutcomeNotSent
}

// legacyStatus is the HTTP status that goes with a response of the legacy era, as
// long as there is no stream.
func legacyStatus(resp *dragoman.Message) int {
	if unsent(resp) {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// crowded refuses a request of a session that has too many, or whose id is in use.
func crowded(m *dragoman.Message, e *dragoman.Error) error {
	status := http.StatusBadRequest
	if e.Code == protocol.CodeOverloaded {
		status = http.StatusTooManyRequests
	}
	r := refused(m, status, e.Code, e.Message)
	r.Data = e.Data
	return r
}

// tooMany refuses another session, which a request with that id would need.
func tooMany(id dragoman.ID) error {
	refusal := httpx.Unavailable(protocol.Overloaded("there are too many sessions; try again later"))
	refusal.ID = id
	return refusal
}

// draining refuses whatever comes while we are stopping.
func draining() error {
	return httpx.Unavailable(protocol.Draining())
}
