package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A refusal is what the data of an error of ours says.
type refusal struct {
	Source  string `json:"source"`
	Outcome string `json:"outcome"`
	Server  string `json:"server"`
	State   State  `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"` // the last error
	Stderr  string `json:"stderr,omitempty"` // the line that says why, or the last one
	RetryMS int64  `json:"retryMs,omitempty"`
}

func (r refusal) error(code int, message string) *dragoman.Error {
	r.Source, r.Outcome = "gateway", protocol.OutcomeNotSent
	data, _ := json.Marshal(r) // strings encode
	return &dragoman.Error{Code: code, Message: message, Data: data}
}

// isRefusal reports whether an error is one of ours, of who was turned away.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*dragoman.Error](err)
	return ok && dragoman.Member(e.Data, "server") != nil
}

// unavailable is the answer while the server is away. wait is when it is tried
// again, if that is known.
func (r refusal) unavailable(wait time.Duration) *dragoman.Error {
	text := fmt.Sprintf("server %q is not available", r.Server)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	if r.Stderr != "" && !strings.Contains(r.Reason, r.Stderr) {
		text += "; last line of its stderr: " + r.Stderr
	}
	if wait > 0 {
		r.RetryMS = wait.Milliseconds()
		text += fmt.Sprintf("; next attempt in %v", wait.Round(time.Millisecond))
	}
	return r.error(protocol.CodeUnavailable, text)
}

func (u *Upstream) refusal() refusal { return refusal{Server: u.name, State: u.State()} }

// overloaded is the answer when a limit is reached.
func (u *Upstream) overloaded(what string) *dragoman.Error {
	return u.refusal().error(protocol.CodeOverloaded, fmt.Sprintf("server %q is busy: %s; send the request again later", u.name, what))
}

// draining is the answer to what comes after the end.
func (u *Upstream) drained() *dragoman.Error {
	return u.refusal().error(protocol.CodeDraining, fmt.Sprintf("server %q is being stopped; send the request again later", u.name))
}
