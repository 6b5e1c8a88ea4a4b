package down

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A state is what a requestState holds.
type state struct {
	ID      string `json:"s"`
	Caller  string `json:"c"`
	Method  string `json:"m"`
	Digest  []byte `json:"d"`
	Expires int64  `json:"e"` // in milliseconds since 1970
	Round   int    `json:"r"`

	// Visits are the web sites that the user was sent to, if that is what the
	// round was about: then no call is suspended, and the retry is sent anew.
	Visits []visit `json:"v,omitempty"`
}

// suspend ends a turn by asking its client. If that cannot be, the questions are
// answered with an error, the call goes on and the result is nil.
func (c *call) suspend(t *turn) *dragoman.Message {
	sum, err := digest(t.Message)
	c.mu.Lock()
	if c.done || len(c.questions) == 0 {
		c.mu.Unlock()
		t.rouse()
		return nil
	}
	if c.id == "" {
		c.id = rand.Text()
	}
	opts := &c.server.opts
	why := ""
	switch {
	case err != nil:
		why = err.Error()
	case c.rounds >= opts.MaxRounds:
		why = fmt.Sprintf("it has been asked %d times in this call", c.rounds)
	case !c.server.desk.admit(c):
		why = fmt.Sprintf("%d calls wait for their clients' answers already", opts.MaxSuspended)
	}
	if why != "" {
		questions := c.questions
		c.questions = nil
		c.mu.Unlock()
		for _, q := range questions {
			q.settle(q.failed(why))
		}
		return nil
	}
	defer c.mu.Unlock()
	c.rounds++
	round := c.rounds
	asked := make(map[string]asking, len(c.questions))
	for _, q := range c.questions {
		asked[q.key] = asking{q.method, q.params}
	}
	resp := c.server.ask(t.request, c.session, asked, state{ID: c.id, Digest: sum, Round: round})
	c.turn = nil
	c.expiry = time.AfterFunc(opts.SuspendTimeout, func() { c.expire(round) })
	return resp
}

// An asking is an entry of inputRequests.
type asking struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// ask returns the answer that asks for input. st is completed and sealed.
func (s *Server) ask(r *request, v *session, asked map[string]asking, st state) *dragoman.Message {
	st.Caller, st.Method = r.caller, r.Method()
	st.Expires = time.Now().Add(s.opts.SuspendTimeout).UnixMilli()
	result := map[string]any{
		"resultType":    protocol.ResultInputRequired,
		"inputRequests": asked,
		"requestState":  s.seal.seal("state", st),
	}
	if v.info != nil {
		result["_meta"] = map[string]json.RawMessage{protocol.MetaServerInfo: v.info}
	}
	resp, err := r.Reply(result)
	if err != nil {
		return r.Fail(failure(protocol.CodeInternal, nil, "the server's question cannot be passed on: %v", err))
	}
	return resp
}

// expire gives up a call whose client did not come back after a round, or after
// whichever there was if round is 0.
func (c *call) expire(round int) {
	c.mu.Lock()
	if c.turn != nil || c.expired || round != 0 && c.rounds != round {
		c.mu.Unlock()
		return
	}
	c.expired = true
	c.expiry.Stop()
	questions := c.questions
	c.questions = nil
	c.mu.Unlock()
	c.server.desk.remove(c.id)
	c.server.desk.resumed()
	for _, q := range questions {
		q.settle(q.lapse("it did not come back in time"))
	}
	c.stop(errExpired)
}

var errExpired = errors.New("down: the client did not come back in time")
