package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A question is something that the server wants to know of the client.
type question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// readQuestions reads the questions of a round, by key.
func readQuestions(text json.RawMessage) (map[string]question, error) {
	if text == nil {
		return nil, nil
	}
	var questions map[string]question
	if err := json.Unmarshal(text, &questions); err != nil {
		return nil, &malformed{"the server's questions cannot be read: " + err.Error()}
	}
	if len(questions) > MaxServerRequests {
		return nil, &malformed{fmt.Sprintf("the server sends %d input requests together, more than %d", len(questions), MaxServerRequests)}
	}
	return questions, nil
}

// askAll asks the client all questions at once and returns the answers as a JSON
// object. When one has no answer, the others are cancelled.
func (k *clientCall) askAll(ctx context.Context, questions map[string]question) (json.RawMessage, error) {
	for _, key := range slices.Sorted(maps.Keys(questions)) {
		if err := k.may(questions[key]); err != nil {
			return nil, err // before anybody is bothered
		}
	}
	answers := make(map[string]json.RawMessage, len(questions))
	if len(questions) == 1 {
		for key, q := range questions {
			answer, err := k.ask(ctx, q)
			if err != nil {
				return nil, err
			}
			answers[key] = answer
		}
		return object(answers), nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for key, q := range questions {
		// Ends with the client's answer, or with ctx. We wait below.
		wg.Go(func() {
			answer, err := k.ask(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			answers[key] = answer
			if err != nil && first == nil {
				first = err
				cancel(err)
			}
		})
	}
	wg.Wait()
	if first != nil {
		return nil, first
	}
	return object(answers), nil
}

// may reports whether the client can be asked a question. The error says why not.
func (k *clientCall) may(q question) error {
	switch {
	case k.from == nil:
		return &tooManyRounds{"the server needs input, and the client left no way to be asked"}
	case q.Method != protocol.MethodListRoots && q.Method != protocol.MethodCreateMessage && q.Method != protocol.MethodElicit:
		return &malformed{"the server asks " + q.Method + ", which is not a question for clients"}
	case !k.hello.can.Answers(q.Method, q.byURL(), dragoman.Member(q.Params, "tools") != nil):
		return &tooManyRounds{"the server asks " + q.Method + " in a way that the client has not declared"}
	}
	return nil
}

// byURL reports whether a question sends the user to a web site.
func (q question) byURL() bool { return string(dragoman.Member(q.Params, "mode")) == `"url"` }

// object returns a JSON object of members as they are.
func object(members map[string]json.RawMessage) json.RawMessage {
	b := []byte("{}")
	for _, name := range slices.Sorted(maps.Keys(members)) {
		b = dragoman.WithMember(b, name, members[name])
	}
	return b
}

// ask asks the client one question and returns its bare answer.
func (k *clientCall) ask(ctx context.Context, q question) (json.RawMessage, error) {
	req, err := dragoman.NewRequest(k.session.server.newID(), q.Method, q.Params)
	if err != nil {
		return nil, &malformed{"the server's question " + q.Method + " cannot be read: " + err.Error()}
	}
	req, no := k.hello.route.ServerRequest(req)
	if no != nil {
		return nil, &tooManyRounds{"the client cannot be asked " + q.Method + ": " + no.Message}
	}
	resp, err := k.from.Call(ctx, req, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, &tooManyRounds{"the client gave no answer to " + q.Method + ": " + err.Error()}
	case resp == nil:
		return nil, &tooManyRounds{"the client gave no answer to " + q.Method}
	case resp.IsError() && q.Method == protocol.MethodElicit:
		return json.RawMessage(`{"action":"cancel"}`), nil
	case resp.IsError():
		e := resp.RPCError()
		return nil, &tooManyRounds{fmt.Sprintf("the client refused %s with error %d: %s", q.Method, e.Code, e.Message)}
	}
	if resp, err = k.hello.route.Answer(q.Method, resp); err == nil && !dragoman.IsObject(resp.Result()) {
		err = errors.New("it is no object")
	}
	if err != nil {
		return nil, &tooManyRounds{"the client's answer to " + q.Method + " cannot be told to the server: " + err.Error()}
	}
	if id := req.Get("elicitationId"); id != nil && q.byURL() && string(resp.Get("action")) == `"accept"` {
		k.addURLElicitation(id)
	}
	return resp.Result(), nil
}

// addURLElicitation notes that the user is on the way to a web site.
func (k *clientCall) addURLElicitation(visit json.RawMessage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.visits = append(k.visits, visit)
}

// completeURLElicitations tells the client that the visits to web sites have served their
// purpose, which the server's result shows. An error shows nothing.
func (k *clientCall) completeURLElicitations(ctx context.Context, resp *dragoman.Message) {
	if resp.IsError() {
		return
	}
	k.mu.Lock()
	visits := k.visits
	k.visits = nil
	k.mu.Unlock()
	for _, visit := range visits {
		note, err := dragoman.NewNotification(protocol.NoteElicitationComplete, map[string]json.RawMessage{"elicitationId": visit})
		if err == nil {
			_ = k.from.Notify(ctx, note) // one who cannot be told has gone
		}
	}
}
