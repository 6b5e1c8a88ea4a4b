package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var calls = []behaviour{
	{"A04 E04 ids come back as they were", 0, true, idsComeBack},
	{"A04 E04 ids of all kinds are in flight together", 0, true, idsAtOnce},
	{"A04 D04 two callers may use the same id at once", 0, true, sameID},
	{"D04 E06 answers in any order reach their callers", 0, true, anyOrder},
	{"both sides may use the same ids at once", serverRequests, false, sameIDBothWays},
	{"bytes pass as they are", 0, true, bytesPass},
	{"messages with line ends pass", 0, true, linesPass},
}

// ids are ids as JSON text, of every kind that could get lost.
var ids = []string{
	`1`, `"1"`, `0`, `-7`, `""`, `"0"`, `"-7"`,
	`12345678901234567890`, `-98765432109876543210`, `9007199254740993`, `"12345678901234567890"`,
	`"plain"`, `"sp ace"`, `"null"`, `"\"quoted\""`, `"back\\slash"`, `"sl\/ash"`,
	`"tab\tnew\nline"`, `"\u0041\u00e9"`, `"Aé"`, `"日本語 🜁"`, `"\ud83d\ude00"`, `"{\"id\":1}"`,
}

func idsComeBack(t *test) {
	to, _ := t.open(dragoman.NoPeer, t.echo())
	for i, id := range ids {
		req := t.request(id, fmt.Sprintf(`{"n":%d}`, i))
		t.want(t.call(to, req, nil), req, arguments(req))
	}
}

func idsAtOnce(t *test) {
	g := newGate()
	to, _ := t.open(dragoman.NoPeer, t.gated(g))
	reqs := make([]*dragoman.Message, len(ids))
	done := make([]<-chan outcome, len(ids))
	for i, id := range ids {
		reqs[i] = t.request(id, fmt.Sprintf(`{"n":%d}`, i))
		done[i] = start(t.ctx, to, reqs[i], nil)
	}
	t.awaitArrivals(g, len(ids))
	for _, req := range reqs {
		g.open(arguments(req))
	}
	for i, req := range reqs {
		t.want(t.finish(done[i], short(req.String())), req, arguments(req))
	}
}

func sameID(t *test) {
	g := newGate()
	to, _ := t.open(dragoman.NoPeer, t.gated(g))
	for _, id := range []string{`1`, `"1"`, `"\u0031"`} {
		const n = 4
		var reqs [n]*dragoman.Message
		var done [n]<-chan outcome
		for i := range n {
			reqs[i] = t.request(id, fmt.Sprintf(`{"caller":%d,"id":%s}`, i, id))
			done[i] = start(t.ctx, to, reqs[i], nil)
		}
		t.awaitArrivals(g, n)
		for i := n - 1; i >= 0; i-- {
			g.open(arguments(reqs[i]))
			t.want(t.finish(done[i], short(reqs[i].String())), reqs[i], arguments(reqs[i]))
		}
	}
}

func anyOrder(t *test) {
	g := newGate()
	to, _ := t.open(dragoman.NoPeer, t.gated(g))
	n := t.opts.MaxCalls
	reqs := make([]*dragoman.Message, n)
	done := make([]<-chan outcome, n)
	for i := range n {
		id := fmt.Sprint(i)
		if i%2 == 1 {
			id = fmt.Sprintf("%q", fmt.Sprint(i-1)) // the same digits as its neighbour
		}
		reqs[i] = t.request(id, fmt.Sprintf(`{"n":%d}`, i))
		done[i] = start(t.ctx, to, reqs[i], nil)
	}
	t.awaitArrivals(g, n)
	// Each is answered before the next is let through, so the order is truly
	// the one that is drawn here.
	for _, i := range rand.Perm(n) {
		g.open(arguments(reqs[i]))
		t.want(t.finish(done[i], short(reqs[i].String())), reqs[i], arguments(reqs[i]))
	}
}

func sameIDBothWays(t *test) {
	g := newGate()
	asker := t.gated(g)
	to, back := t.open(asker, t.gated(g))
	mine := t.request(`1`, `{"asks":"dialling side"}`)
	done := start(t.ctx, to, mine, asker)
	t.awaitArrivals(g, 1)
	// To some transports it looks as if this were asked inside the call above,
	// so the caller is ready to answer there too.
	theirs := t.other().request(`1`, `{"asks":"accepting side"}`)
	doneBack := start(t.ctx, back, theirs, nil)
	t.awaitArrivals(g, 1)
	g.open(arguments(theirs))
	t.want(t.finish(doneBack, "the accepting side's"), theirs, arguments(theirs))
	g.open(arguments(mine))
	t.want(t.finish(done, "the dialling side's"), mine, arguments(mine))
}

// strange is params.arguments that a reader who decodes and encodes would
// change.
const strange = `{"z":1,"a":123456789012345678901234567890,"exp":1.50e+2,"E":1E5,"neg":-0,"tiny":1e-400,` +
	`"esc":"\u00e9\/\ud83d\ude00<>&","raw":"é/😀","nul":"\u0000","spaced" : [ 1 , 2,  3 ] ,"A":null,"":{},` +
	`"deep":{"b":{"a":[[],[{}]]}},"true":false}`

func bytesPass(t *test) {
	result := `{"z":[3,2,1],"content":[{"type":"text","text":"\u0041"}],"structuredContent":` + strange + `,"unknown":1.0,"_meta":{"b":1,"a":2}}`
	if t.opts.Revision.TagsResults() {
		result = `{"resultType":"complete",` + result[1:]
	}
	to, came := t.openFixed(result)
	for _, meta := range []string{
		``,
		`,"_meta":{}`,
		`,"_meta":{"x.test/big":98765432109876543210, "x.test/a":{"b":1.0}}`,
		`,"_meta":{"x.test/b":1,"progressToken":"tok","x.test/a":2}`,
		`,"_meta":{"progressToken":12345678901234567890}`,
	} {
		if meta == `` || !t.opts.ToolsOnly {
			t.passes(to, came, t.requestWith(`"the \u0069d"`, strange, `,"unknown":{"member":[1.0]},"Zz":1`+meta), result)
		}
	}
}

func linesPass(t *test) {
	result := "{\"content\":\n[{\"type\":\"text\",\r\n\"text\":\"a\\nb\"}]\n}"
	if t.opts.Revision.TagsResults() {
		result = "{\"resultType\":\n\"complete\"," + result[1:]
	}
	to, came := t.openFixed(result)
	t.passes(to, came, t.requestWith(`1`, "{\n\t\"a\":\r\n1,\n\n\"b\":\"c\\nd\"\r}", ",\n\"unknown\":\n[\n]"), result)
}

// openFixed opens a conversation in which every request gets the same result.
// The callee shows the requests as it sees them.
func (t *test) openFixed(result string) (dragoman.Conn, <-chan *dragoman.Message) {
	t.Helper()
	came := make(chan *dragoman.Message, 16)
	to, _ := t.open(dragoman.NoPeer, dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			came <- req
			return req.Reply(json.RawMessage(result))
		},
	})
	return to, came
}

// passes compares what arrives of a request and its result with what was sent.
func (t *test) passes(to dragoman.Peer, came <-chan *dragoman.Message, req *dragoman.Message, result string) {
	t.Helper()
	before := req.String()
	o := t.call(to, req, t.recorder("the caller", nil))
	if o.err != nil || o.resp.IsError() {
		t.Fatalf("Call(%s)\n got %v\nwant a result", req, o)
	}
	got := receive(t, came, "the callee is called")
	if t.opts.ToolsOnly {
		t.same("params.arguments as the callee sees them", line(got.Get("arguments")), line(req.Get("arguments")))
	} else {
		t.same("the request as the callee sees it", t.plain(got, req), t.plain(req, req))
	}
	t.same("the result as the caller sees it", line(o.resp.Result()), line([]byte(result)))
	if o.resp.ID() != req.ID() {
		t.Errorf("the answer has the id %v, want %v", o.resp.ID(), req.ID())
	}
	if after := req.String(); after != before {
		t.Errorf("the caller's message was changed:\nbefore %s\n after %s", before, after)
	}
}

// plain returns a request as text on one line, without the traces that a
// transport may leave in it until it is answered: its id and progress token.
func (t *test) plain(m, sent *dragoman.Message) string {
	t.Helper()
	if (m.Meta(protocol.MetaProgressToken) == nil) != (sent.Meta(protocol.MetaProgressToken) == nil) {
		t.Errorf("progress token\n  of %s\nwant as in %s", m, sent)
	}
	if m.Meta(protocol.MetaProgressToken) != nil {
		var err error
		if m, err = m.Edit().SetMeta(protocol.MetaProgressToken, []byte(`"*"`)).Message(); err != nil {
			t.Fatal(err)
		}
	}
	return line(m.WithID(dragoman.StringID("*")).Bytes())
}

// line returns JSON text on one line, as some transports need it.
func line(text []byte) string {
	text = append([]byte(nil), text...)
	dragoman.OneLine(text)
	return string(text)
}

func (t *test) same(what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s\n got %s\nwant %s", what, short(got), short(want))
	}
}
