package down

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/rounds"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A urlElicitation is a web site that the user has to go to before a call can be made.
type urlElicitation struct {
	Mode    string `json:"mode"`
	Message string `json:"message"`
	URL     string `json:"url"`
}

// askForURLs turns the error by which a server wants the user to visit web sites
// first into a round of input. The server has not carried out the call, and when
// the client comes back it is sent again.
func (s *Server) askForURLs(r *request, ss *session, e *dragoman.Error, asked int) (*dragoman.Message, error) {
	if !r.kind.can.URL {
		return r.Fail(failure(protocol.CodeMissingCapability,
			map[string]any{"requiredCapabilities": json.RawMessage(`{"elicitation":{"url":{}}}`)},
			"the server needs the user to visit a web site, which this client cannot be asked for: %s", e.Message)), nil
	}
	var data struct{ Elicitations []urlElicitation }
	_ = json.Unmarshal(e.Data, &data) // what cannot be read names none
	if len(data.Elicitations) == 0 {
		return r.Fail(failure(protocol.CodeInternal, nil, "the server needs the user to visit a web site but does not say which: %s", e.Message)), nil
	}
	if asked >= s.opts.MaxRounds {
		return r.Fail(failure(protocol.CodeInternal, nil, "the server has asked %d times: %s", asked, e.Message)), nil
	}
	sum, err := rounds.Digest(r.Message)
	if err != nil {
		return r.Fail(invalid("params cannot be read: %v", err)), nil
	}
	for i := range data.Elicitations {
		data.Elicitations[i].Mode = "url"
	}
	return s.urlQuestion(r, ss, state{Digest: sum, Round: asked + 1, Visits: data.Elicitations}), nil
}

// urlQuestion asks for the visits of st.
func (s *Server) urlQuestion(r *request, ss *session, st state) *dragoman.Message {
	asked := make(map[string]asking, len(st.Visits))
	for i, to := range st.Visits {
		params, _ := json.Marshal(to) // strings encode
		asked[strconv.Itoa(i+1)] = asking{protocol.MethodElicit, params}
	}
	st.ID = rand.Text()
	return s.ask(r, ss, asked, st)
}

// resumeAfterURLs takes a request that comes back from its visits. It is sent again if
// the user agreed to all of them.
func (s *Server) resumeAfterURLs(ctx context.Context, r *request, st state, answers map[string]json.RawMessage) (*dragoman.Message, error) {
	agreed := 0
	for i, to := range st.Visits {
		var answer struct{ Action string }
		_ = json.Unmarshal(answers[strconv.Itoa(i+1)], &answer) // none is as good as one that cannot be read
		switch answer.Action {
		case "accept":
			agreed++
		case "decline", "cancel":
			return declined(r, to)
		}
	}
	if agreed < len(st.Visits) && st.Round >= s.opts.MaxRounds {
		return r.Fail(invalid("params.inputResponses lacks answers, and was asked for %d times", st.Round)), nil
	}
	fresh, err := s.suspended.use(st.ID, r.owner.Caller, time.UnixMilli(st.Expires))
	switch {
	case err != nil:
		return s.failed(ctx, r, err)
	case !fresh:
		return r.Fail(invalid("params.requestState has been used; the call is not repeated")), nil
	case agreed == len(st.Visits):
		return s.begin(ctx, r, st.Round)
	}
	st.Round++
	return s.urlQuestion(r, &session{}, st), nil
}

// declined is the answer to a call that the user did not want to continue.
func declined(r *request, to urlElicitation) (*dragoman.Message, error) {
	why := fmt.Sprintf("the user did not agree to visit %s, which the server needs: %s", to.URL, to.Message)
	if r.Method() != protocol.MethodCallTool {
		return r.Fail(failure(protocol.CodeInternal, nil, "%s", why)), nil
	}
	return r.Reply(map[string]any{
		"resultType": protocol.ResultComplete, "isError": true,
		"content": []any{map[string]string{"type": "text", "text": why}},
	})
}
