package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What a modern client is asked by, and has to hand back.
const (
	signInKey   = "sign-in"
	signInState = "dragoman:sign-in"
)

// A signInQuestion asks the user of a client to sign in on a page.
type signInQuestion struct {
	Mode    string `json:"mode"`
	Message string `json:"message"`
	URL     string `json:"url"`
	ID      string `json:"elicitationId,omitempty"` // of the legacy era
}

// questionOf returns what to ask the client of a request that was not sent because a sign-in
// is needed; nil if that is not so, or nobody waits for one.
func (u *Upstream) questionOf(resp *dragoman.Message, err error) *signInQuestion {
	if !needsSignIn(resp, err) {
		return nil
	}
	e, ok := errors.AsType[*dragoman.Error](err)
	if !ok {
		e = resp.RPCError()
	}
	var data struct{ URL, Code string }
	_ = json.Unmarshal(e.Data, &data) // without one there is nothing to ask
	if data.URL == "" {
		return nil
	}
	text := fmt.Sprintf("Sign in to use the server %q", u.name)
	if data.Code != "" {
		text += ", and enter " + data.Code + " there"
	}
	return &signInQuestion{Mode: "url", Message: text, URL: data.URL}
}

// elicits reports whether capabilities say that the user can be sent to a page.
func elicits(capabilities json.RawMessage) bool {
	return dragoman.Member(dragoman.Member(capabilities, "elicitation"), "url") != nil
}

// inputRequired asks a modern client by its result. The client sends the request again, with
// its answer.
func (q *signInQuestion) inputRequired(req *dragoman.Message) (*dragoman.Message, error) {
	return req.Reply(map[string]any{
		"resultType":    protocol.ResultInputRequired,
		"inputRequests": map[string]any{signInKey: map[string]any{"method": protocol.MethodElicit, "params": q}},
		"requestState":  signInState,
	})
}

// errDeclined is why a server cannot be used whose caller was asked to sign in.
var errDeclined = errors.New("the user did not agree to sign in")

// afterQuestion takes our question off a request of a modern client that comes back from it, and
// waits for the sign-in that the user has agreed to. Any other request is as it was.
func (u *Upstream) afterQuestion(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	if string(req.Get("requestState")) != `"`+signInState+`"` {
		return req, nil
	}
	var answer struct{ Action string }
	_ = json.Unmarshal(dragoman.Member(req.Get("inputResponses"), signInKey), &answer) // none is no agreement
	if answer.Action != "accept" {
		return req, &oauth.SignInError{Server: u.name, Reason: errDeclined}
	}
	if source := u.sourceOf(u.passedOf(dragoman.CallerOf(ctx))); source != nil {
		_ = source.Await(ctx) // the request finds out what came of it
	}
	return req.Edit().Drop("requestState", "inputResponses").Message()
}

// ask asks a legacy client within its request, and reports whether its user has signed in.
func (q *signInQuestion) ask(ctx context.Context, from dragoman.Peer, source *oauth.Source) bool {
	q.ID = "dragoman-sign-in"
	question, err := dragoman.NewRequest(dragoman.StringID(q.ID), protocol.MethodElicit, q)
	if err != nil || from == nil || source == nil {
		return false
	}
	resp, err := from.Call(ctx, question, nil)
	if err != nil || resp == nil || resp.IsError() || string(resp.Get("action")) != `"accept"` {
		return false
	}
	return source.Await(ctx) == nil
}
