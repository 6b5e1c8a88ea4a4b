package era

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/rounds"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Call is a request that a function of [FromMethods] answers, with what the server may
// tell and ask the client meanwhile. One goroutine uses it.
type Call struct {
	// Revision is that of the request, which is modern.
	Revision protocol.Revision

	// Can is what the client can be asked.
	Can protocol.Abilities

	// Sealed makes answers count only in the rounds after their question was asked. A
	// client that knows the questions may otherwise answer them in its first request.
	Sealed bool

	server *methodServer
	req    *dragoman.Message
	from   dragoman.Peer // may be nil
	level  int           // severity from which on the client wants log messages

	principal string // that of the caller

	current answers  // of this round
	earlier answers  // of the rounds before, by the state
	asked   []string // keys of what was asked before, by the state
}

type answers = map[string]json.RawMessage

// callKey is the key of the Call in the context of its function.
type callKey struct{}

// CallOf returns the call that a function of [FromMethods] answers, by the context of the
// function. It is nil elsewhere.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// newCall reads what a request says about its sender, and what the rounds before it
// brought.
func (s *methodServer) newCall(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*Call, *dragoman.Error) {
	e, err := protocol.ReadEnvelope(req)
	if err != nil {
		return nil, invalid("%v", err)
	}
	c := &Call{server: s, req: req, from: from, level: len(protocol.LogLevels), Revision: protocol.ParseRevision(e.Version), principal: dragoman.CallerOf(ctx).Principal}
	if !slices.Contains(s.modern, c.Revision) {
		return nil, protocol.Unsupported(e.Version, protocol.Names(s.opts.served()))
	}
	if string(e.Capabilities) != "{}" {
		if c.Can, err = protocol.AbilitiesOf(e.Capabilities); err != nil {
			return nil, invalid("params._meta %s must be an object of capability objects", protocol.MetaClientCapabilities)
		}
	}
	if e.LogLevel != nil {
		name, _ := dragoman.Text(e.LogLevel)
		if c.level = protocol.LogLevel(name); c.level < 0 {
			return nil, invalid("params._meta %s: unknown log level %s; use one of %q", protocol.MetaLogLevel, e.LogLevel, protocol.LogLevels)
		}
	}
	if protocol.MayNeedInput(req.Method()) {
		if err := c.readRounds(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// invalid says what is wrong with the params of a request.
func invalid(format string, args ...any) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// Progress reports how much of the call is done, if the client asked for that. What does
// not reach the client is lost.
func (c *Call) Progress(ctx context.Context, done, total float64, message string) {
	token := c.req.Meta(protocol.MetaProgressToken)
	if _, ok := dragoman.ParseID(token); ok {
		c.notify(ctx, protocol.NoteProgress, map[string]any{"progressToken": token, "progress": done, "total": total, "message": message})
	}
}

// Log sends a log message, if the client wants those of its level. data is text or another
// value to encode.
func (c *Call) Log(ctx context.Context, level, logger string, data any) {
	if protocol.LogLevel(level) >= c.level {
		c.notify(ctx, protocol.NoteMessage, map[string]any{"level": level, "logger": logger, "data": data})
	}
}

// notify sends a notification that belongs to the call.
func (c *Call) notify(ctx context.Context, method string, params any) {
	if c.from == nil {
		return
	}
	if note, err := dragoman.NewNotification(method, params); err == nil { // a value that cannot be encoded cannot be sent
		_ = c.from.Notify(ctx, note) // a client that cannot be notified has gone, which ends ctx
	}
}

// A InputRequest is a server request that a call asks the client: sampling/createMessage,
// elicitation/create or roots/list.
type InputRequest struct {
	Key    string // its own within the call
	Method string
	Params any

	// Check returns what is wrong with an answer, which is then asked for again. It may be
	// nil.
	Check func(answer json.RawMessage) error
}

// Ask returns the client's answers to questions, by key. If some are missing, the function
// of the call must return the error as it is: the client is asked, and sends its request
// again, so that the function runs from its beginning. A legacy client is asked by
// requests, and notices nothing of that. A client that cannot be asked gets an error.
func (c *Call) Ask(questions ...InputRequest) (map[string]json.RawMessage, error) {
	got := make(answers)
	var missing []InputRequest
	for _, q := range questions {
		if e := c.lacks(&q); e != nil {
			return nil, e
		}
		answer, ok := c.earlier[q.Key]
		if !ok && (!c.Sealed || slices.Contains(c.asked, q.Key)) {
			answer, ok = c.current[q.Key]
		}
		if !ok || q.Check != nil && q.Check(answer) != nil {
			missing = append(missing, q)
			continue
		}
		got[q.Key] = answer
	}
	if missing != nil {
		maps.Copy(got, c.earlier)
		return nil, &inputRequired{missing, got}
	}
	if c.earlier == nil {
		c.earlier = make(answers)
	}
	maps.Copy(c.earlier, got)
	return got, nil
}

// lacks returns the error for a client that cannot be asked a question, or nil.
func (c *Call) lacks(q *InputRequest) error {
	params, err := json.Marshal(q.Params)
	if err != nil {
		return fmt.Errorf("params of %s: %w", q.Method, err)
	}
	url := string(dragoman.Member(params, "mode")) == `"url"`
	tools := dragoman.Member(params, "tools") != nil
	if c.Can.Answers(q.Method, url, tools) {
		return nil
	}
	return protocol.MissingCapability(q.Method, url, tools)
}

// inputRequired ends a round of a call: the client is asked questions.
type inputRequired struct {
	questions []InputRequest
	keep      answers // that need not be asked for again
}

// Error implements error.
func (e *inputRequired) Error() string {
	var keys []string
	for _, q := range e.questions {
		keys = append(keys, q.Key)
	}
	return "era: input required: " + strings.Join(keys, ", ")
}

// inputResult returns the result that asks the questions.
func (c *Call) inputResult(e *inputRequired) (any, error) {
	requests := make(map[string]any)
	var asked []string
	for _, q := range e.questions {
		requests[q.Key] = map[string]any{"method": q.Method, "params": q.Params}
		asked = append(asked, q.Key)
	}
	result := map[string]any{"resultType": protocol.ResultInputRequired, "inputRequests": requests}
	if c.Sealed || len(e.keep) > 0 {
		same, err := rounds.Digest(c.req)
		if err != nil {
			return nil, err
		}
		result["requestState"] = c.server.sealer.Seal("call", c.principal, callState{time.Now().Add(stateLife).Unix(), same, asked, e.keep})
	}
	return result, nil
}

// stateLife is how long a client may take over the answers of a round.
const stateLife = 10 * time.Minute

// A callState is what the requestState of a call holds. The server keeps nothing between
// rounds.
type callState struct {
	Expires int64    `json:"e"` // in seconds since 1970
	Digest  []byte   `json:"d"` // of method and params
	Asked   []string `json:"a,omitempty"`
	Earlier answers  `json:"r,omitempty"`
}

// readRounds reads inputResponses and requestState of the request.
func (c *Call) readRounds() (refusal *dragoman.Error) {
	if c.current, refusal = rounds.Answers(c.req); refusal != nil {
		return refusal
	}
	text := c.req.Get("requestState")
	if text == nil {
		return nil
	}
	var st callState
	sealed, _ := dragoman.Text(text)
	err := c.server.sealer.Open(sealed, "call", c.principal, &st)
	same, wrong := rounds.Digest(c.req)
	if err != nil || wrong != nil || !bytes.Equal(st.Digest, same) {
		return invalid("params.requestState is not one that this server gave for this call; " +
			"send it back as it came, with the same params, or call without it and without inputResponses")
	}
	if time.Now().Unix() > st.Expires {
		return invalid("params.requestState has expired; call again without it and without inputResponses")
	}
	c.asked, c.earlier = st.Asked, st.Earlier
	return nil
}
