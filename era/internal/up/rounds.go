package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// betweenRounds is how long a request waits that the server wants to have again
// without asking anything.
var betweenRounds = retry.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}

// tooManyRounds says why a request cannot come to its end, in words for the client: what
// the server needs cannot be had.
type tooManyRounds struct{ why string }

func (e *tooManyRounds) Error() string { return e.why }

// malformed says that the server's answer is not one of the protocol's.
type malformed struct{ what string }

func (e *malformed) Error() string { return e.what }

// drive carries a request to its end whose answer was not the last one.
func (k *clientCall) drive(ctx context.Context, resp *dragoman.Message) (*dragoman.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.session.server.ctx, func() { cancel(dragoman.ErrClosed) })()
	for {
		var err error
		method, kind := k.req.Method(), resultType(resp)
		switch {
		case kind == protocol.ResultComplete:
			k.completeURLElicitations(ctx, resp)
			return k.finish(resp)
		case kind == protocol.ResultInputRequired && protocol.MayNeedInput(method):
			resp, err = k.round(ctx, resp)
		case kind == protocol.ResultTask && method == protocol.MethodCallTool:
			resp, err = k.follow(ctx, resp)
		default:
			err = &malformed{fmt.Sprintf("the server answered %s with a result of type %q, which it cannot have", method, kind)}
		}
		var (
			end *tooManyRounds
			bad *malformed
			rpc *dragoman.Error
		)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.As(err, &end):
			return k.giveUp(end.why)
		case errors.As(err, &bad):
			return k.malformedResult("%v", bad), nil
		case errors.As(err, &rpc):
			return k.finish(k.req.Fail(rpc))
		case err != nil:
			return nil, err
		}
	}
}

// resultType returns what an answer is. An error is a complete one.
func resultType(resp *dragoman.Message) string {
	text := resp.Get("resultType")
	if isComplete(text) {
		return protocol.ResultComplete
	}
	var kind string
	if json.Unmarshal(text, &kind) != nil {
		return string(text)
	}
	return kind
}

// round asks the client what the server needs to know and sends the request
// again, with the answers. It returns what the server says to that.
func (k *clientCall) round(ctx context.Context, resp *dragoman.Message) (*dragoman.Message, error) {
	if err := k.nextRound(); err != nil {
		return nil, err
	}
	questions, err := readQuestions(resp.Get("inputRequests"))
	if err != nil {
		return nil, err
	}
	state := resp.Get("requestState")
	switch {
	case state == nil && len(questions) == 0:
		return nil, &malformed{"the server needs input but neither asks for it nor gives a requestState"}
	case state != nil && state[0] != '"':
		return nil, &malformed{"the server's requestState is not a string"}
	}
	answers, err := k.answers(ctx, questions)
	if err != nil {
		return nil, err
	}
	// A state or answers of the round before are not for this one.
	next, err := k.up.Edit().Set("inputResponses", answers).Set("requestState", state).Message()
	if err != nil {
		return nil, &tooManyRounds{"the answers cannot be sent to the server: " + err.Error()}
	}
	k.repeats()
	return k.send(ctx, next.WithID(k.session.server.newID()))
}

// nextRound counts a round. The error says that there may be no more.
func (k *clientCall) nextRound() error {
	opts := &k.session.server.opts
	if k.until.IsZero() {
		k.until = time.Now().Add(opts.RoundsTimeout)
	}
	k.rounds++
	switch {
	case k.rounds > opts.MaxRounds:
		return &tooManyRounds{fmt.Sprintf("the server asks for more after %d rounds of questions", opts.MaxRounds)}
	case !time.Now().Before(k.until):
		return k.timedOut()
	}
	return nil
}

func (k *clientCall) timedOut() error {
	return &tooManyRounds{fmt.Sprintf("the server's questions were not answered within %v", k.session.server.opts.RoundsTimeout)}
}

// answers returns the client's answers to the server's questions, by key. If
// there are no questions, it is nil, a while later.
func (k *clientCall) answers(ctx context.Context, questions map[string]question) (json.RawMessage, error) {
	ctx, cancel := context.WithDeadline(ctx, k.until)
	defer cancel()
	var answers json.RawMessage
	var err error
	if len(questions) == 0 {
		k.idle++
		err = retry.Sleep(ctx, betweenRounds.Wait(k.idle))
	} else {
		k.idle = 0
		answers, err = k.askAll(ctx, questions)
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) && !time.Now().Before(k.until) {
		return nil, k.timedOut()
	}
	return answers, err
}

// repeats notes that the server is asked once more for what the client asked
// once.
func (k *clientCall) repeats() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.repeated = true
}

// giveUp is the answer to a request that cannot come to its end. Where there is
// a model that could make something of the reason, it is a result.
func (k *clientCall) giveUp(why string) (*dragoman.Message, error) {
	if k.req.Method() != protocol.MethodCallTool {
		return k.malformedResult("%s", why), nil
	}
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return k.req.Reply(struct {
		Content []text `json:"content"`
		IsError bool   `json:"isError"`
	}{[]text{{"text", "This call could not be finished: " + why + "."}}, true})
}
