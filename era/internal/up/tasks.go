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

const (
	// minPoll and maxPoll bound how often a task is looked at, whatever the
	// server says. usualPoll is for servers that do not say.
	minPoll   = 100 * time.Millisecond
	maxPoll   = 30 * time.Second
	usualPoll = time.Second

	// maxLosses is how often in a row a look at a task may fail. The link comes
	// back by itself, and the task outlives it.
	maxLosses = 5

	// cancelTimeout is how long the server may take to hear that a task is not
	// wanted any more.
	cancelTimeout = 5 * time.Second
)

// A task is what a server made of a call.
type task struct {
	ID       string              `json:"taskId"`
	Status   string              `json:"status"`
	Message  string              `json:"statusMessage"`
	Poll     *float64            `json:"pollIntervalMs"`
	Requests map[string]question `json:"inputRequests"`
	Result   json.RawMessage     `json:"result"`
	Error    *dragoman.Error     `json:"error"`
}

// follow follows a task to its end and returns the answer that the call would
// have had. When ctx ends before, the task is cancelled.
func (k *clientCall) follow(ctx context.Context, resp *dragoman.Message) (*dragoman.Message, error) {
	t, err := readTask(resp)
	if err != nil {
		return nil, err
	}
	id := t.ID
	asked := make(map[string]bool) // keys of questions that have been answered
	for {
		if t.Status == "working" {
			err = retry.Sleep(ctx, t.wait())
		}
		if err == nil {
			t, err = k.pollTask(ctx, id)
		}
		if err == nil && t.Status == "input_required" {
			err = k.sendTaskInput(ctx, id, t, asked)
		}
		switch {
		case ctx.Err() != nil:
			k.abandonTask(ctx, id)
			return nil, context.Cause(ctx)
		case err != nil:
			var end *tooManyRounds
			if errors.As(err, &end) {
				k.abandonTask(ctx, id)
			}
			return nil, err
		}
		switch t.Status {
		case "working", "input_required":
		case "completed":
			return k.completed(t)
		case "failed":
			if t.Error == nil {
				return nil, &malformed{"the server's task failed without an error"}
			}
			return k.req.Fail(t.Error), nil
		case "cancelled":
			return nil, &tooManyRounds{"the server cancelled the task " + t.Message}
		default:
			return nil, &malformed{fmt.Sprintf("the server's task has the unknown status %q", t.Status)}
		}
	}
}

func (k *clientCall) completed(t *task) (*dragoman.Message, error) {
	if !dragoman.IsObject(t.Result) {
		return nil, &malformed{"the server's task is completed without a result"}
	}
	return k.req.Reply(t.Result)
}

// wait returns when to look at the task again.
func (t *task) wait() time.Duration {
	if t.Poll == nil {
		return usualPoll
	}
	ms := min(max(*t.Poll, float64(minPoll/time.Millisecond)), float64(maxPoll/time.Millisecond))
	return time.Duration(ms * float64(time.Millisecond))
}

func readTask(resp *dragoman.Message) (*task, error) {
	t := new(task)
	if err := resp.Decode(t); err != nil {
		return nil, &malformed{"the server's task cannot be read: " + err.Error()}
	}
	if t.ID == "" || t.Status == "" {
		return nil, &malformed{"the server's task lacks its id or its status"}
	}
	return t, nil
}

// pollTask asks the server how a task stands.
func (k *clientCall) pollTask(ctx context.Context, id string) (*task, error) {
	for losses := 1; ; losses++ {
		resp, err := k.about(ctx, protocol.MethodGetTask, taskParams{ID: id})
		switch {
		case err == nil:
			return readTask(resp)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case isAnswer(err) || losses == maxLosses:
			return nil, err
		}
		if err := retry.Sleep(ctx, betweenRounds.Wait(losses+1)); err != nil {
			return nil, err
		}
	}
}

// sendTaskInput has the client answer what a task needs to know.
func (k *clientCall) sendTaskInput(ctx context.Context, id string, t *task, asked map[string]bool) error {
	questions := make(map[string]question)
	for key, q := range t.Requests {
		if !asked[key] {
			questions[key] = q
		}
	}
	if len(questions) == 0 {
		return retry.Sleep(ctx, t.wait()) // the server has not taken the answers in yet
	}
	if len(questions) > MaxServerRequests {
		return &malformed{fmt.Sprintf("the server sends %d input requests together, more than %d", len(questions), MaxServerRequests)}
	}
	k.until = time.Time{} // between its questions a task may work for days
	if err := k.nextRound(); err != nil {
		return err
	}
	answers, err := k.answers(ctx, questions)
	if err != nil {
		return err
	}
	if _, err := k.about(ctx, protocol.MethodUpdateTask, taskParams{id, answers}); err != nil {
		return err
	}
	for key := range questions {
		asked[key] = true
	}
	return nil
}

// abandonTask tells the server that a task is not wanted any more. ctx may have ended.
func (k *clientCall) abandonTask(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if _, err := k.about(ctx, protocol.MethodCancelTask, taskParams{ID: id}); err != nil {
		k.session.server.opts.Logger.Warn("task not cancelled", "error", err)
	}
}

type taskParams struct {
	ID      string          `json:"taskId"`
	Answers json.RawMessage `json:"inputResponses,omitempty"`
}

// about asks the server something about a task. An error of the server is a
// *dragoman.Error.
func (k *clientCall) about(ctx context.Context, method string, params taskParams) (*dragoman.Message, error) {
	env := *k.session.envelope(k.hello)
	env.LogLevel = nil // a task tells nothing on the way
	req, err := k.session.server.request(method, params, env)
	if err != nil {
		return nil, err
	}
	resp, err := k.session.server.link.Call(ctx, req, nil)
	switch {
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, errors.New("up: the server gave no answer to " + method)
	case resp.IsError():
		return nil, resp.RPCError()
	}
	return resp, nil
}

// isAnswer reports whether an error is the server's own word.
func isAnswer(err error) bool {
	var rpc *dragoman.Error
	var bad *malformed
	return errors.As(err, &rpc) || errors.As(err, &bad)
}
