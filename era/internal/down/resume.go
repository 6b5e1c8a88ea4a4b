package down

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// resume takes a request that comes back with answers.
func (s *Server) resume(ctx context.Context, r *request) (*dragoman.Message, error) {
	st, answers, refusal := s.readState(r)
	if refusal != nil {
		return r.Fail(refusal), nil
	}
	if st.Visits != nil {
		return s.comeBack(ctx, r, st, answers)
	}
	c := s.desk.get(st.ID)
	if c == nil {
		return r.Fail(invalid("params.requestState is of a call that is over: its answer has been given, or nobody came for it; " +
			"it is not repeated, call again without requestState and inputResponses if you want that")), nil
	}
	t := newTurn(r)
	given, kept, refusal := c.attach(t, st, answers)
	if refusal != nil {
		return r.Fail(refusal), nil
	}
	s.desk.resumed()
	if r.level >= 0 {
		c.session.raise(ctx, r.level)
	}
	if kept != nil {
		c.progress(ctx, kept)
	}
	for q, answer := range given {
		q.settle(q.answered(answer))
	}
	t.rouse() // there may be something to look at already
	return c.attend(ctx, t)
}

// readState reads requestState and inputResponses of a request. Everything that
// can be told without the call is checked.
func (s *Server) readState(r *request) (st state, answers map[string]json.RawMessage, refusal *dragoman.Error) {
	text := given(r.Message, "requestState")
	if text == nil {
		return st, nil, invalid("params.inputResponses without requestState; send the requestState back that came with the questions")
	}
	if all := given(r.Message, "inputResponses"); all != nil {
		if !isObject(all) || json.Unmarshal(all, &answers) != nil {
			return st, nil, invalid("params.inputResponses must be an object with an answer for each key of inputRequests")
		}
		for key, answer := range answers {
			if !isObject(answer) {
				return st, nil, invalid("params.inputResponses: the answer for %q must be a result object", key)
			}
		}
	}
	if err := s.seal.open(text, "state", &st); err != nil {
		return st, nil, invalid("params.requestState %v; send it back as it came", err)
	}
	sum, err := digest(r.Message)
	switch {
	case err != nil:
		return st, nil, invalid("params cannot be read: %v", err)
	case st.Caller != r.caller:
		return st, nil, invalid("params.requestState is of somebody else's call")
	case st.Method != r.Method() || string(st.Digest) != string(sum):
		return st, nil, invalid("params.requestState is of a call with another method or other params; send the same request again")
	case time.Now().UnixMilli() > st.Expires:
		return st, nil, invalid("params.requestState has expired; the call was given up and is not repeated")
	}
	return st, answers, nil
}

// attach makes t the turn of a call that is suspended, and takes out the questions
// that it answers. kept is the progress that nobody was told.
func (c *call) attach(t *turn, st state, answers map[string]json.RawMessage) (given map[*question]json.RawMessage, kept *dragoman.Message, refusal *dragoman.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.expired:
		return nil, nil, invalid("params.requestState has expired; the call was given up and is not repeated")
	case c.turn != nil:
		return nil, nil, invalid("params.requestState has been used; another request waits for this call")
	case c.rounds != st.Round:
		return nil, nil, invalid("params.requestState is of an earlier round of this call; send the one that came with the last questions")
	}
	c.expiry.Stop()
	c.turn = t
	kept, c.kept = c.kept, nil
	if c.done {
		return nil, kept, nil
	}
	c.lost = c.session.over()
	if t.level >= 0 {
		c.session.join(c)
	} else {
		c.session.leave(c)
	}
	given = make(map[*question]json.RawMessage, len(answers))
	open := c.questions[:0]
	for _, q := range c.questions {
		if answer, ok := answers[q.key]; ok {
			given[q] = answer
		} else {
			open = append(open, q)
		}
	}
	clear(c.questions[len(open):])
	c.questions = open
	return given, kept, nil
}
