package peertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// parse makes a message of JSON text.
func (t *test) parse(text string) *dragoman.Message {
	t.Helper()
	m, err := dragoman.Limits{MaxMessage: -1}.Parse([]byte(text))
	if err != nil {
		t.Fatalf("the suite's own message is bad: %v: %s", err, short(text))
	}
	return m
}

// withEnvelope gives a message of the dialling side the envelope of a modern one, if
// the conversation is modern.
func (t *test) withEnvelope(m *dragoman.Message) *dragoman.Message {
	t.Helper()
	if t.opts.Revision.Era() != protocol.Modern {
		return m
	}
	m, err := m.Edit().
		SetMeta(protocol.MetaProtocolVersion, []byte(strconv.Quote(t.opts.Revision.String()))).
		SetMeta(protocol.MetaClientInfo, []byte(`{"name":"peertest","version":"1"}`)).
		SetMeta(protocol.MetaClientCapabilities, []byte(`{}`)).
		Message()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// request makes a request of the asker. id and arguments are JSON text; the
// latter is an object.
func (t *test) request(id, arguments string) *dragoman.Message {
	t.Helper()
	return t.requestWith(id, arguments, "")
}

// requestWith makes a request whose params have more members. They begin with
// a comma.
func (t *test) requestWith(id, arguments, more string) *dragoman.Message {
	t.Helper()
	method, name := protocol.MethodCallTool, "peertest"
	if t.reverse {
		method = protocol.MethodCreateMessage
	}
	m := t.parse(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"name":%q,"arguments":%s%s}}`, id, method, name, arguments, more))
	if t.reverse {
		return m
	}
	return t.withEnvelope(m)
}

// note makes a notification of the asker that belongs to no call.
func (t *test) note(params string) *dragoman.Message {
	t.Helper()
	if t.reverse {
		return t.parse(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":` + params + `}`)
	}
	return t.withEnvelope(t.parse(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":` + params + `}`))
}

// question makes a request that the callee asks inside a call.
func question(id, params string) (*dragoman.Message, error) {
	return dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":` + params + `}`))
}

// progressNote makes a progress notification. token is JSON text.
func progressNote(token []byte, n int, message string) (*dragoman.Message, error) {
	return dragoman.NewNotification(protocol.NoteProgress,
		json.RawMessage(fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":%q}`, token, n, message)))
}

// logNote makes a log message.
func logNote(data string) (*dragoman.Message, error) {
	return dragoman.NewNotification(protocol.NoteMessage, json.RawMessage(fmt.Sprintf(`{"level":"info","data":%q}`, data)))
}

// sendNote tells to what make made. A callee may have nobody to tell.
func sendNote(ctx context.Context, to dragoman.Peer, note *dragoman.Message, err error) error {
	if err != nil || to == nil {
		return err
	}
	return to.Notify(ctx, note)
}

// arguments returns params.arguments as text.
func arguments(req *dragoman.Message) string { return string(req.Get("arguments")) }

// content is a result that says text, fit for any kind of request.
func content(r protocol.Revision, text string) json.RawMessage {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	kind := ""
	if r.TagsResults() {
		kind = `,"resultType":"complete"`
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]%s}`, quoted, kind)
}

// answer answers a request by saying text.
func (t *test) answer(req *dragoman.Message, text string) (*dragoman.Message, error) {
	return req.Reply(content(t.opts.Revision, text))
}

// echo answers every request with its arguments.
func (t *test) echo() dragoman.Funcs {
	return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return t.answer(req, arguments(req))
	}}
}

// textOf returns what a response says.
func textOf(resp *dragoman.Message) string {
	var result struct {
		Content []struct{ Text string }
	}
	if err := resp.Decode(&result); err != nil || len(result.Content) != 1 {
		return fmt.Sprintf("something else than the suite's answers: %s", short(resp.String()))
	}
	return result.Content[0].Text
}

// An outcome is what a call came to.
type outcome struct {
	resp *dragoman.Message
	err  error
}

func (o outcome) String() string {
	if o.err != nil {
		return fmt.Sprintf("the Go error %q", o.err)
	}
	if o.resp == nil {
		return "neither answer nor error"
	}
	return short(o.resp.String())
}

// start calls on a goroutine of its own.
func start(ctx context.Context, to dragoman.Peer, req *dragoman.Message, from dragoman.Peer) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		resp, err := to.Call(ctx, req, from)
		done <- outcome{resp, err}
	}()
	return done
}

// finish waits for the outcome of a call.
func (t *test) finish(done <-chan outcome, what string) outcome {
	t.Helper()
	return receive(t, done, "Call returns: "+what)
}

// call calls and waits for the outcome.
func (t *test) call(to dragoman.Peer, req *dragoman.Message, from dragoman.Peer) outcome {
	t.Helper()
	return t.finish(start(t.ctx, to, req, from), short(req.String()))
}

// want fails the test unless o is the answer to req that says text.
func (t *test) want(o outcome, req *dragoman.Message, text string) {
	t.Helper()
	if err := check(o, req, text); err != nil {
		t.Fatal(err)
	}
}

// check tells what is wrong with o as the answer to req that says text.
func check(o outcome, req *dragoman.Message, text string) error {
	switch {
	case o.err != nil || o.resp == nil || o.resp.Kind() != dragoman.Response || o.resp.IsError():
		return fmt.Errorf("Call(%s)\n got %v\nwant an answer that says %s", short(req.String()), o, short(text))
	case o.resp.ID() != req.ID():
		return fmt.Errorf("Call(%s)\n got an answer with the id %v: %v\nwant the id %v", short(req.String()), o.resp.ID(), o, req.ID())
	case textOf(o.resp) != text:
		return fmt.Errorf("Call(%s)\n got an answer that says %s\nwant one that says %s", short(req.String()), short(textOf(o.resp)), short(text))
	}
	return nil
}

// wantWorking shows that the conversation still does, in the direction of to.
func (t *test) wantWorking(to dragoman.Peer, id string) {
	t.Helper()
	req := t.request(id, `{"still":"here"}`)
	t.want(t.call(to, req, nil), req, `{"still":"here"}`)
}

// wantClosed fails the test unless err is ErrClosed.
func (t *test) wantClosed(err error, what string) {
	t.Helper()
	if !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("%s: got error %v, want one that is ErrClosed", what, err)
	}
}

// short is text that fits into a message to a person.
func short(text string) string {
	const most = 600
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s … (%d bytes) … %s", text[:most/2], len(text), text[len(text)-most/2:])
}
