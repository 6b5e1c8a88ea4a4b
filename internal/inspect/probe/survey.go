package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An opener opens a conversation with the server that knows nothing of those before.
type opener func(ctx context.Context) (rawclient.Wire, error)

// A conversation is one that was begun.
type conversation struct {
	*rawclient.Client
	hello *rawclient.Exchange
	named string // the revision that it was offered last, when it asked for another one; empty if it did not
}

// finish ends a conversation, but for the first one with a command.
func (p *prober) finish(ctx context.Context, t *conversation) {
	if t.Wire == p.first && p.first != nil {
		return
	}
	if s, ok := t.Wire.(*rawclient.Session); ok {
		p.end(ctx, s)
	}
	t.Close()
}

// survey finds out which revisions the server speaks and what it offers.
func (p *prober) survey(ctx context.Context, open opener) {
	defer func() {
		for _, t := range p.conversations {
			p.finish(ctx, t)
		}
		if p.able != nil && p.able.Client != nil {
			p.finish(ctx, p.able)
		}
	}()
	if p.first == nil {
		p.expect(len(protocol.Revisions()))
	} else {
		p.expect(2) // in the modern era, and for a client that can do everything
	}
	for _, rev := range protocol.Revisions() {
		if ctx.Err() != nil {
			return
		}
		p.ask(ctx, open, rev)
	}
	p.showRevisions()
	spoken := p.spoken()
	if len(spoken) == 0 {
		return
	}
	if p.first == nil {
		p.expect(1) // for a client that can do everything
	}
	best := protocol.ParseRevision(spoken[0].Revision)
	without, ok := p.offers(ctx, open, best)
	if !ok {
		return
	}
	i := slices.IndexFunc(spoken, func(v Revision) bool { return v.Era == protocol.Legacy.String() })
	if i > 0 { // where what is offered may depend on the client
		best = protocol.ParseRevision(spoken[i].Revision)
		if without, ok = p.toolsFor(ctx, open, best, nil); !ok {
			return
		}
	}
	if with, ok := p.toolsFor(ctx, open, best, rawclient.CanAll()); ok {
		p.compare(without, with)
	}
}

// ask finds out whether the server speaks a revision.
func (p *prober) ask(ctx context.Context, open opener, rev protocol.Revision) {
	p.stage("revision %s", rev)
	v := Revision{Revision: rev.String(), Era: rev.Era().String()}
	defer func() { p.Revisions = append(p.Revisions, v) }()
	if p.again(ctx, open, rev, &v) {
		return
	}
	t, err := p.begin(ctx, open, rev, nil)
	if err != nil {
		v.Answer = redact.Text(err.Error())
		return
	}
	x := t.hello
	switch v.Answer = x.Summary(); {
	case x.Result() == nil:
	case rev.Era() == protocol.Modern:
		v.Spoken, v.Answer = slices.Contains(x.Supported(), v.Revision), "it lists "+strings.Join(x.Supported(), ", ")
	default:
		v.Spoken, v.Answer = x.Named() == v.Revision, x.Named()
	}
	p.examine(x, t.Wire)
	if p.able != nil && v.Answer == p.able.named {
		p.renegotiates = true // a new process says the same
	}
	if offered := protocol.ParseRevision(x.Named()); !v.Spoken && offered.Era() == protocol.Legacy && p.conversations[offered] == nil {
		p.conversations[offered] = t
	} else if v.Spoken && !slices.ContainsFunc(p.spoken(), func(newer Revision) bool { return newer.Era == v.Era }) {
		p.conversations[rev] = t
	} else {
		p.finish(ctx, t)
	}
}

// again asks for a legacy revision in a conversation that has another one, with a command whose
// process would have to be started for it. It reports whether the answer can be relied on: a server
// may keep what was agreed on first, or end.
func (p *prober) again(ctx context.Context, open opener, rev protocol.Revision, v *Revision) bool {
	if p.first == nil || rev.Era() != protocol.Legacy || p.conversations[rev] != nil || ctx.Err() != nil {
		return false
	}
	if p.able == nil {
		p.openAble(ctx, open)
	}
	if p.able.hello == nil || p.able.hello.Result() == nil {
		return false
	}
	x := p.able.Initialize(ctx, rev.String())
	p.able.named = x.Named()
	if v.Answer = x.Named(); v.Answer == v.Revision {
		v.Spoken, p.renegotiates = true, true
	}
	return v.Spoken || p.renegotiates && v.Answer != ""
}

// openAble begins the conversation of a client that can do everything.
func (p *prober) openAble(ctx context.Context, open opener) {
	p.able = &conversation{}
	t, err := p.begin(ctx, open, protocol.LatestLegacy, rawclient.CanAll())
	if err != nil {
		return
	}
	p.able = t
	if hello := t.hello.Hello(); hello.Can()["tools"] != nil {
		p.ableTools = t.List(ctx, protocol.MethodListTools, "tools")
	}
}

// showRevisions adds what was found out to the report.
func (p *prober) showRevisions() {
	var spoken, order []string
	answers := map[string][]string{} // what is the same for several is said once
	for _, v := range p.Revisions {
		if v.Spoken {
			spoken = append(spoken, fmt.Sprintf("%s (%s)", v.Revision, v.Era))
			continue
		}
		if answers[v.Answer] == nil {
			order = append(order, v.Answer)
		}
		answers[v.Answer] = append(answers[v.Answer], v.Revision)
	}
	if len(spoken) == 0 {
		p.problem("revisions", "see what it answers below, and its own log; a client needs an answer to initialize or server/discover", "it speaks no revision of MCP that is known")
	} else {
		p.ok("revisions", "%s", strings.Join(spoken, ", "))
	}
	for _, answer := range order {
		said := "answers " + answer
		if answer == rawclient.ErrSilent.Error() {
			said = "gives " + answer
		}
		if protocol.ParseRevision(answer) != protocol.Unknown {
			said = "offers " + answer + " instead"
		}
		p.note("revisions", "not %s: it %s", strings.Join(answers[answer], ", "), said)
	}
}

// begin opens a conversation in a revision, with capabilities. Without them one that was kept is gone on with.
func (p *prober) begin(ctx context.Context, open opener, rev protocol.Revision, can rawclient.Object) (*conversation, error) {
	if t := p.conversations[rev]; t != nil && can == nil {
		delete(p.conversations, rev)
		return t, nil
	}
	w, err := open(ctx)
	if err != nil {
		return nil, err
	}
	c := p.client(w)
	c.Revision, c.Capabilities = rev, can
	return &conversation{Client: c, hello: c.Begin(ctx)}, nil
}

// offers shows what the server says of itself and how much it offers. It returns the names of its tools.
func (p *prober) offers(ctx context.Context, open opener, rev protocol.Revision) (tools []string, ok bool) {
	p.stage("what it offers")
	c, err := p.begin(ctx, open, rev, nil)
	if err != nil {
		p.problem("server", "it answered before; look at its own log", "it cannot be reached again: %v", err)
		return nil, false
	}
	defer p.finish(ctx, c)
	hello := c.hello.Hello()
	p.examine(c.hello, nil)
	p.introduce(&hello, rev)
	announced := hello.Can()
	p.Counts = map[string]int{}
	var offered []string
	for _, l := range rawclient.Lists {
		if announced[l.Capability] == nil {
			continue
		}
		pages := c.List(ctx, l.Method, l.Member)
		for _, x := range pages.Exchanges {
			p.examine(x, c.Wire)
		}
		last := pages.Last()
		switch {
		case pages.Endless:
			p.problem("offers", "end a list by leaving nextCursor out", "the pages of %s have no end", l.Method)
			continue
		case pages.Flooded:
			p.problem("offers", "offer less: no client reads that much", "%s has more than %d MiB", l.Method, pages.Bytes>>20)
			continue
		case last.Result() == nil && l.Method == protocol.MethodListTemplates && last.Code() == protocol.CodeMethodNotFound:
			continue // many servers that have resources have no templates
		case last.Result() == nil:
			p.problem("offers", "answer what the capability "+l.Capability+" promises, or leave that out", "%s: %s", l.Method, last.Summary())
			continue
		}
		p.Counts[l.Member] = len(pages.Entries)
		text := humanize.Count(len(pages.Entries), l.One)
		if l.Member == "tools" {
			tools = namesOf(pages.Entries)
			text += fmt.Sprintf(" (about %d tokens)", pages.Tokens())
		}
		offered = append(offered, text)
	}
	if len(offered) == 0 {
		p.note("offers", "no tools, resources or prompts")
	} else {
		p.ok("offers", "%s", strings.Join(offered, ", "))
	}
	p.checkConduct(ctx, c.Client)
	return tools, true
}

// introduce shows what the server says of itself.
func (p *prober) introduce(hello *rawclient.Hello, rev protocol.Revision) {
	p.Server, p.Capabilities = hello.ServerInfo, hello.Capabilities
	var info struct{ Name, Version string }
	_ = json.Unmarshal(p.Server, &info) // what cannot be read is not shown
	switch {
	case info.Name == "" && rev.Era() == protocol.Legacy:
		p.problem("server", "put serverInfo with name and version into the result of initialize", "it does not say what it is")
	case info.Name != "":
		text := strings.TrimSpace(info.Name + " " + info.Version)
		if n := len(hello.Instructions); n > 0 {
			text += fmt.Sprintf(", with instructions of %d characters", n)
		}
		p.ok("server", "%s", text)
	}
	var can map[string]map[string]json.RawMessage
	if json.Unmarshal(p.Capabilities, &can) != nil || can == nil {
		p.problem("server", "put an object of capabilities there, {} if there are none", "capabilities are not an object of objects")
		return
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(can)) {
		var more []string
		for _, option := range slices.Sorted(maps.Keys(can[name])) {
			if value := string(can[name][option]); value != "false" {
				more = append(more, option)
			}
		}
		if len(more) > 0 {
			name += " (" + strings.Join(more, ", ") + ")"
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		p.ok("can", "%s", strings.Join(names, ", "))
	} else {
		p.note("can", "it announces no capabilities")
	}
}

// checkConduct sees whether the server bears what any client may send.
func (p *prober) checkConduct(ctx context.Context, c *rawclient.Client) {
	x := c.Try(ctx, "text-id", "dragoman/unknown", nil)
	p.examine(x, c.Wire)
	switch {
	case x.Answer == nil:
		p.problem("conduct", "answer every request, with -32601 if the method is unknown", "a method that it does not know is not answered: %s", x.Summary())
	case x.Code() != protocol.CodeMethodNotFound:
		p.note("conduct", "a method that it does not know is answered by %s, and not by -32601", x.Summary())
	}
	c.Note(ctx, "notifications/dragoman", nil)
	if c.Revision.Era() == protocol.Modern {
		p.examine(c.Ask(ctx, protocol.MethodDiscover, nil), c.Wire) // an answer to the notification comes before
		return
	}
	x = c.Ask(ctx, protocol.MethodPing, nil)
	p.examine(x, c.Wire)
	if x.Result() == nil {
		p.problem("conduct", "answer ping with {}", "ping is not answered: %s", x.Summary())
	}
}

// toolsFor returns the names of the tools that a client with capabilities is offered.
func (p *prober) toolsFor(ctx context.Context, open opener, rev protocol.Revision, can rawclient.Object) ([]string, bool) {
	if _, has := p.Counts["tools"]; !has {
		return nil, false
	}
	p.stage("what it offers to other clients")
	if can != nil && p.able != nil && p.able.hello != nil && rev.Era() == protocol.Legacy {
		return p.offered(p.able, p.ableTools)
	}
	c, err := p.begin(ctx, open, rev, can)
	if err != nil {
		return nil, false
	}
	defer p.finish(ctx, c)
	var pages *rawclient.Pages
	if c.hello.Result() != nil {
		pages = c.List(ctx, protocol.MethodListTools, "tools")
	}
	return p.offered(c, pages)
}

// offered returns the names of the tools of a list that was asked for in a conversation.
func (p *prober) offered(c *conversation, pages *rawclient.Pages) ([]string, bool) {
	if c.hello.Result() == nil {
		p.problem("offers", "accept any capabilities in the handshake, and ignore those that you do not know", "a client with capabilities is refused: %s", c.hello.Summary())
		return nil, false
	}
	if pages == nil {
		return nil, false
	}
	return namesOf(pages.Entries), pages.OK()
}

// compare shows which tools depend on what the client can do.
func (p *prober) compare(without, with []string) {
	less := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return slices.Contains(b, name) })
	}
	more, fewer := less(with, without), less(without, with)
	if len(more) > 0 {
		p.note("offers", "%s more to clients that have roots, sampling and elicitation: %s", humanize.Count(len(more), "tool"), strings.Join(more, ", "))
	}
	if len(fewer) > 0 {
		p.note("offers", "%s to clients without roots, sampling and elicitation alone: %s", humanize.Count(len(fewer), "tool"), strings.Join(fewer, ", "))
	}
}

func namesOf(entries []json.RawMessage) (names []string) {
	for _, entry := range entries {
		var e struct{ Name string }
		_ = json.Unmarshal(entry, &e) // what has no name cannot be called
		names = append(names, e.Name)
	}
	return names
}

// examine reports what is wrong with the messages of an exchange, each thing once.
func (p *prober) examine(x *rawclient.Exchange, w rawclient.Wire) {
	once := func(key, advice, format string, args ...any) {
		if p.told == nil {
			p.told = map[string]bool{}
		}
		if !p.told[key] {
			p.told[key] = true
			p.problem("messages", advice, format, args...)
		}
	}
	if errors.Is(x.Err, rawclient.ErrFlood) {
		once("flood", "write what was asked for, and no more", "%v", rawclient.ErrFlood)
	}
	if x.Answer != nil && x.Misnamed {
		id := string(x.Answer.ID)
		if len(x.Answer.ID) == 0 {
			id = "none"
		}
		var sent struct {
			Method string
			ID     json.RawMessage
		}
		_ = json.Unmarshal(x.Sent, &sent) // it is ours
		if x.Answer.Error == nil || !bytes.Equal(x.Answer.ID, []byte("null")) {
			p.Hurry()
			once("id", "repeat the id of the request as it came, with its type", "the answer to %s with the id %s has the id %s", sent.Method, sent.ID, id)
		}
	}
	var loose []*rawclient.Message
	if w != nil {
		loose = w.Loose()
	}
	for _, m := range slices.Concat(x.Got, loose) {
		switch {
		case m != x.Answer && m.IsResponse() && !errors.Is(x.Err, rawclient.ErrSilent):
			once("answer", "do not answer notifications, which have no id", "an answer came that nobody asked for, as to a notification: %s", short(m.Text))
		case m.Problem != "":
			once("shape "+m.Problem, "write messages as JSON-RPC 2.0 wants them", "a message is malformed: %s: %s", m.Problem, short(m.Text))
		}
	}
}

// short returns the beginning of a text that a server wrote.
func short(text []byte) string {
	runes := []rune(rawclient.Mask(text))
	if len(runes) > 160 {
		return string(runes[:160]) + "…"
	}
	return string(runes)
}
