package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func smokeHandshake(_ context.Context, r *run) outcome {
	x := r.hello
	if x == nil {
		x = r.discovered
	}
	if x.Misnamed { // without a result nothing is looked at
		return fail(x, "it gets %s: clients wait on", describeID(x))
	}
	return pass()
}

func smokeList(ctx context.Context, r *run) outcome {
	pages := r.tools
	if pages == nil {
		pages = r.list(ctx, r.main(), protocol.MethodListTools, "tools")
	}
	var result struct{ Tools *[]json.RawMessage }
	x := pages.Last()
	switch {
	case x.Result() == nil && r.can(r.main())["tools"] == nil:
		return skip("the server has no tools")
	case json.Unmarshal(x.Result(), &result) != nil || result.Tools == nil:
		return fail(x, "it is answered by %s, without a list of tools", x.Summary())
	}
	return pass()
}

// smokeCall calls the tool that the user has named.
func smokeCall(ctx context.Context, r *run) outcome {
	x := r.call(ctx)
	var result struct{ IsError bool }
	_ = json.Unmarshal(x.Result(), &result) // another rule looks at that
	switch {
	case x.Result() == nil:
		return fail(x, "it is answered by %s", x.Summary())
	case result.IsError:
		return fail(x, "the tool has failed")
	}
	return pass()
}

func unknownMethod(ctx context.Context, r *run) outcome {
	var list []Finding
	for _, c := range r.both() {
		x := r.tryUnknown(ctx, c, "dragoman/no-such-method", nil)
		if x.Code() != protocol.CodeMethodNotFound {
			list = append(list, finding(x, "in the %s era it is answered by %s", c.Revision.Era(), x.Summary()))
		}
	}
	return found(list)
}

func textID(ctx context.Context, r *run) outcome {
	c := r.main()
	x := r.keep(c.AskAs(ctx, "dragoman-id", harmless(c), nil))
	return verify(x.Answer != nil && !x.Misnamed, x, `the request with the id "dragoman-id" gets %s`, describeID(x))
}

// describeID says which id an answer has.
func describeID(x *rawclient.Exchange) string {
	if x.Answer == nil {
		return x.Summary()
	}
	if len(x.Answer.ID) == 0 {
		return "an answer without an id"
	}
	return "an answer with the id " + rawclient.Mask(x.Answer.ID)
}

// isRefusalOf reports whether a message is the error of a request that HTTP refused: it need not say
// which one, as the server may not have read it.
func isRefusalOf(x *rawclient.Exchange, m *rawclient.Message) bool {
	return x.Status() >= http.StatusBadRequest && m.Error != nil && (m.ID == nil || string(m.ID) == "null")
}

func notification(ctx context.Context, r *run) outcome {
	c := r.main()
	before := len(c.Loose())
	sent := c.Note(ctx, "notifications/dragoman", nil)
	for _, m := range sent.Got {
		if m.IsResponse() && !isRefusalOf(sent, m) {
			return fail(sent, "an unknown notification is answered")
		}
	}
	x := r.ask(ctx, c, harmless(c), nil)
	for _, m := range slices.Concat(c.Loose()[before:], x.Got) {
		if m != x.Answer && m.IsResponse() {
			sent.Got = append(sent.Got, m)
			return fail(sent, "an unknown notification is answered")
		}
	}
	return verify(x.Answer != nil, x, "after an unknown notification nothing is answered: %s", x.Summary())
}

// crowd is how many requests are sent at once.
const crowd = 8

// concurrent sends requests without waiting for answers.
func concurrent(ctx context.Context, r *run) outcome {
	c := r.main()
	requests := make([]rawclient.Request, crowd)
	for i := range crowd {
		requests[i] = c.Request(harmless(c), nil, fmt.Sprintf("crowd-%d", i))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, rawclient.ErrSilent)
	defer cancel()
	var missing []string
	var bad []Finding
	for i, x := range c.All(ctx, requests) {
		switch r.keep(x); {
		case x.Answer == nil:
			missing = append(missing, string(requests[i].ID))
		case x.Misnamed:
			bad = append(bad, finding(x, "one of %d requests that were sent at once gets %s", crowd, describeID(x)))
		}
	}
	if len(missing) > 0 {
		bad = append(bad, finding(nil, "of %d requests that were sent at once %d are not answered: %s", crowd, len(missing), names(missing)))
	}
	return found(bad[:min(len(bad), 1)])
}

// nonsense is a text that is no JSON.
const nonsense = `{"jsonrpc": "2.0", "method": "ping`

// A trial is what became of a text that may end a conversation, and of a request behind it.
type trial struct {
	sent, behind *rawclient.Exchange
	err          error // why it was not sent
}

// try sends what may end a conversation, once, in one for all that is tried while it lasts.
func (r *run) try(ctx context.Context, what string, send func(*rawclient.Client) *rawclient.Exchange) *trial {
	if t := r.tried[what]; t != nil {
		return t
	}
	t := &trial{}
	r.tried[what] = t
	if r.risked == nil {
		c, err := r.begin(ctx)
		if err != nil {
			t.err = err
			return t
		}
		c.Ask(ctx, harmless(c), nil) // what the handshake has brought is over then
		r.risked = c
	}
	c := r.risked
	t.sent = send(c)
	if t.behind = c.Ask(ctx, harmless(c), nil); t.behind.Answer == nil {
		r.risked = nil
	}
	return t
}

// lasts fails if a text has ended the conversation.
func (t *trial) lasts(what string) outcome {
	switch {
	case t.err != nil:
		return fail(nil, "another conversation cannot be begun: %v", t.err)
	case t.behind.Answer == nil:
		return fail(t.sent, "after %s nothing is answered: %s", what, t.behind.Summary())
	}
	return pass()
}

func cancelUnknown(ctx context.Context, r *run) outcome {
	return r.try(ctx, "cancel", func(c *rawclient.Client) *rawclient.Exchange {
		return c.Note(ctx, protocol.NoteCancelled, rawclient.Object{"requestId": "dragoman-none", "reason": "nobody waits"})
	}).lasts("it")
}

func batch(ctx context.Context, r *run) outcome {
	return r.try(ctx, "array", func(c *rawclient.Client) *rawclient.Exchange {
		one, two := c.Request(harmless(c), nil, nil), c.Request(harmless(c), nil, nil)
		return c.Send(ctx, "["+string(one.Text)+","+string(two.Text)+"]")
	}).lasts("an array of two requests")
}

func (r *run) tryGarbage(ctx context.Context) *trial {
	return r.try(ctx, "garbage", func(c *rawclient.Client) *rawclient.Exchange { return c.Send(ctx, nonsense) })
}

func garbage(ctx context.Context, r *run) outcome {
	t := r.tryGarbage(ctx)
	if t.err == nil && t.sent.Status()/100 == 2 {
		return fail(t.sent, "what is no JSON gets status %d", t.sent.Status())
	}
	return t.lasts("a text that is no JSON")
}

func parseError(ctx context.Context, r *run) outcome {
	t := r.tryGarbage(ctx)
	switch {
	case t.err != nil:
		return skip(t.err.Error())
	case t.sent.Code() != protocol.CodeParse:
		return fail(t.sent, "it is answered by %s", t.sent.Summary())
	}
	return pass()
}

// lists are what a server that announces it must have. Many that have resources have no templates.
var lists = slices.DeleteFunc(slices.Clone(rawclient.Lists), func(l rawclient.List) bool { return l.Method == protocol.MethodListTemplates })

func listPromise(ctx context.Context, r *run) outcome {
	var bad []Finding
	for _, c := range r.both() {
		for _, l := range lists {
			if r.can(c)[l.Capability] == nil {
				continue
			}
			x := r.ask(ctx, c, l.Method, nil)
			var result map[string]json.RawMessage
			var entries []json.RawMessage
			if x.Result() == nil || json.Unmarshal(x.Result(), &result) != nil || json.Unmarshal(result[l.Member], &entries) != nil || result[l.Member] == nil {
				bad = append(bad, finding(x, "the capability %s is announced, and %s gets %s without a list of %s (%s era)", l.Capability, l.Method, x.Summary(), l.Member, c.Revision.Era()))
			}
		}
	}
	return found(bad)
}

func listEnd(ctx context.Context, r *run) outcome {
	var bad []Finding
	for _, l := range lists {
		if r.can(r.main())[l.Capability] == nil {
			continue
		}
		pages := r.tools
		if l.Capability != "tools" || pages == nil {
			pages = r.list(ctx, r.main(), l.Method, l.Member)
		}
		switch {
		case pages.Endless:
			bad = append(bad, finding(pages.Last(), "%s always names another page, or one that was there before", l.Method))
		case pages.Flooded:
			bad = append(bad, finding(nil, "%s has more than %d MiB, and is not read to its end", l.Method, pages.Bytes>>20))
		}
	}
	return found(bad)
}

func listCursor(ctx context.Context, r *run) outcome {
	if r.tools == nil {
		return skip("the server has no tools")
	}
	x := r.tryUnknown(ctx, r.main(), protocol.MethodListTools, rawclient.Object{"cursor": "dragoman-no-such-cursor"})
	return verify(x.Code() == protocol.CodeInvalidParams, x, "it is answered by %s", x.Summary())
}

func listSteady(ctx context.Context, r *run) outcome {
	again := r.list(ctx, r.main(), protocol.MethodListTools, "tools")
	before, after := toolNames(r.toolList()), toolNames(toolsOf(again))
	if slices.Equal(before, after) {
		return pass()
	}
	return fail(nil, "first %s, then %s", names(before), names(after))
}

func toolNames(tools []tool) (list []string) {
	for i := range tools {
		list = append(list, tools[i].Name)
	}
	return list
}

func unknownTool(ctx context.Context, r *run) outcome {
	x := r.tryUnknown(ctx, r.main(), protocol.MethodCallTool, rawclient.Object{"name": "dragoman_no_such_tool", "arguments": rawclient.Object{}})
	var result struct{ IsError bool }
	_ = json.Unmarshal(x.Result(), &result) // an answer that cannot be read is no error
	return verify(x.Failed() || result.IsError, x, "a call of a tool that does not exist gets %s", x.Summary())
}

func unknownResource(ctx context.Context, r *run) outcome {
	return r.readMissing(ctx, func(_ *rawclient.Client, x *rawclient.Exchange) bool { return !x.Failed() })
}

func unknownResourceCode(ctx context.Context, r *run) outcome {
	return r.readMissing(ctx, func(c *rawclient.Client, x *rawclient.Exchange) bool {
		return x.Failed() && x.Code() != c.Revision.CodeNoResource()
	})
}

// readMissing reads a resource that does not exist in every era that has resources.
func (r *run) readMissing(ctx context.Context, bad func(*rawclient.Client, *rawclient.Exchange) bool) outcome {
	var list []Finding
	asked := false
	for _, c := range r.both() {
		if r.can(c)["resources"] == nil {
			continue
		}
		asked = true
		x := r.tryUnknown(ctx, c, protocol.MethodReadResource, rawclient.Object{"uri": "dragoman://no/such/resource"})
		if bad(c, x) {
			list = append(list, finding(x, "in the %s era it gets %s", c.Revision.Era(), x.Summary()))
		}
	}
	if !asked {
		return skip("the server has no resources")
	}
	return found(list)
}

func unknownPrompt(ctx context.Context, r *run) outcome {
	if r.can(r.main())["prompts"] == nil {
		return skip("the server has no prompts")
	}
	x := r.tryUnknown(ctx, r.main(), protocol.MethodGetPrompt, rawclient.Object{"name": "dragoman_no_such_prompt"})
	return verify(x.Failed(), x, "it gets %s", x.Summary())
}

func logLevel(ctx context.Context, r *run) outcome {
	if r.can(r.legacy)["logging"] == nil {
		return skip("the server does not log")
	}
	x := r.tryUnknown(ctx, r.legacy, protocol.MethodSetLevel, rawclient.Object{"level": "dragoman"})
	return verify(x.Code() == protocol.CodeInvalidParams, x, "it gets %s", x.Summary())
}

// spokenShape judges all messages.
func spokenShape(_ context.Context, r *run) outcome {
	seen := map[string]bool{}
	var bad []Finding
	for _, x := range r.exchanges {
		for _, m := range x.Got {
			stray := m != x.Answer && m.IsResponse() // another rule looks at those
			if m.Problem != "" && !stray && !isRefusalOf(x, m) && !seen[m.Problem] {
				seen[m.Problem] = true
				bad = append(bad, finding(x, "%s", m.Problem))
			}
		}
	}
	return found(bad)
}

func spokenID(_ context.Context, r *run) outcome {
	for _, x := range r.exchanges {
		if x.Answer != nil && x.Misnamed && !isRefusalOf(x, x.Answer) {
			return fail(x, "the request gets %s", describeID(x))
		}
	}
	return pass()
}

func spokenError(_ context.Context, r *run) outcome {
	for _, x := range r.exchanges {
		if x.Failed() && strings.TrimSpace(x.Answer.Error.Message) == "" {
			return fail(x, "an error has no message")
		}
	}
	return pass()
}

// spokenFlood judges how much the server wrote.
func spokenFlood(_ context.Context, r *run) outcome {
	switch {
	case r.flood == nil:
		return pass()
	case errors.Is(r.flood.Err, rawclient.ErrFlood):
		return found([]Finding{{Text: fmt.Sprintf("%s before the answer to %s", rawclient.ErrFlood, rawclient.Mask(r.flood.Sent))}})
	}
	return fail(nil, "more than %d MiB came in all; what came later is not judged", maxKept>>20)
}

// spokenProgress judges what was told of how far requests are.
func spokenProgress(_ context.Context, r *run) outcome {
	type progress struct {
		ProgressToken json.RawMessage
		Progress      float64
	}
	for _, x := range r.exchanges {
		token := members(members(members(x.Sent)["params"])["_meta"])["progressToken"]
		var last *float64
		for _, m := range x.Got {
			if m.Method != protocol.NoteProgress {
				continue
			}
			var p progress
			_ = json.Unmarshal(m.Params, &p) // then it has no token
			switch {
			case token == nil:
				return fail(x, "it tells how far a request is that has not asked for that")
			case !bytes.Equal(p.ProgressToken, token):
				return fail(x, "progress names another token than that of its request")
			case last != nil && p.Progress <= *last:
				return fail(x, "progress does not increase: %v, then %v", *last, p.Progress)
			}
			last = &p.Progress
		}
	}
	return pass()
}

func spokenModern(_ context.Context, r *run) outcome {
	for _, x := range r.exchanges {
		if !isModern(x) {
			continue
		}
		for _, m := range x.Got {
			switch {
			case m.IsRequest():
				return fail(x, "the server asks %s", rawclient.Mask([]byte(m.Method)))
			case m.Method == protocol.NoteMessage:
				return fail(x, "the server logs, and nobody has asked for that by logLevel")
			}
		}
	}
	return pass()
}
