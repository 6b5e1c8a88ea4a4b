package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A tool is one fault, or a means to see one.
type tool struct {
	name, description string
	properties        string // of its input schema
	wire              bool   // works on standard input and output only
	run               func(ctx context.Context, c *call) (any, error)
}

// What the tools say.
const (
	// Separators is the text of u2028: what parsers of lines and of event
	// streams may take for an end.
	Separators = "a\u2028b\u2029c\u0085d\re\n\nevent: x\n\ndata: injected\n\nf"

	// Replaced is the text of badutf8 in which U+FFFD stands for the bytes that
	// are no UTF-8.
	Replaced = "a\ufffdb"

	// Crashing is what crash writes to stderr last.
	Crashing = "fault: this is the crash that was asked for"
)

// crashStatus is the status of a process that crash ends.
const crashStatus = 3

// junk is a line of garbage.
const junk = "npm notice: this is no message {\n"

func tools() []*tool {
	return []*tool{
		{name: "sleep", description: "Answers with its text after a while.", properties: `"ms":{"type":"integer"},"text":{"type":"string"}`, run: sleep},
		{name: "whoami", description: "Says which process it is, and how it was started.", run: whoami},
		{name: "count", description: "Writes its key in the journal and takes a while.", properties: `"key":{"type":"string"},"ms":{"type":"integer"}`, run: count},
		{name: "crash", description: "Ends the process without an answer, after a while.", properties: `"ms":{"type":"integer"}`, run: crash},
		{name: "garbage", description: "Writes lines that are no messages before its answer.", properties: `"n":{"type":"integer"}`, wire: true, run: garbage},
		{name: "big", description: "Answers with a text of so many bytes.", properties: `"bytes":{"type":"integer"}`, run: big},
		{name: "badutf8", description: "Answers with bytes that are no UTF-8.", wire: true, run: badUTF8},
		{name: "u2028", description: "Answers with separators of lines in its text.", run: separators},
		{name: "grandchild", description: "Starts a process that keeps standard output open.", run: grandchild},
		{name: "dupresp", description: "Answers twice.", wire: true, run: answerTwice},
		{name: "wrongid", description: "Sends responses to unknown ids before its answer.", wire: true, run: wrongID},
		{name: "notify", description: "Tells progress and log messages, so many of each.", properties: `"n":{"type":"integer"},"text":{"type":"string"}`, run: notify},
		{name: "hold", description: "Tells its text, and answers with it when its key is released in the journal.", properties: `"key":{"type":"string"},"text":{"type":"string"}`, run: hold},
		{name: "serverreq", description: "Asks the client for its roots, and answers with the first.", run: serverRequest},
		{name: "freeze", description: "Neither reads nor writes for a while, or forever.", properties: `"key":{"type":"string"},"ms":{"type":"integer"}`, wire: true, run: freeze},
		{name: "stderrflood", description: "Writes so many lines to standard error.", properties: `"lines":{"type":"integer"}`, run: flood},
		{name: "noanswer", description: "Never answers.", run: noAnswer},
		{name: "endless", description: "Writes a line that never ends.", wire: true, run: endless},
	}
}

func findTool(name string) *tool {
	for _, t := range tools() {
		if t.name == name {
			return t
		}
	}
	return nil
}

// definition returns how a tool is listed.
func (t *tool) definition() json.RawMessage {
	return fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{%s}}}`, t.name, t.description, t.properties)
}

// pause waits so many milliseconds, unless the call is cancelled before.
func pause(ctx context.Context, ms int) error {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func sleep(ctx context.Context, c *call) (any, error) {
	if err := pause(ctx, c.args.MS); err != nil {
		return nil, err
	}
	return c.result(c.args.Text, false), nil
}

// count also reports its progress once, so that the caller sees that it has begun.
func count(ctx context.Context, c *call) (any, error) {
	c.journal.Write(Ran, c.args.Key)
	if err := c.progress(ctx, 1, 2); err != nil {
		c.journal.Write(Cancelled, c.args.Key)
		return nil, err
	}
	if err := pause(ctx, c.args.MS); err != nil {
		c.journal.Write(Cancelled, c.args.Key)
		return nil, err
	}
	c.journal.Write(Ended, c.args.Key)
	return c.result(c.args.Key, false), nil
}

// hold sends its text as progress and as a log message, so that both are in flight with the call.
func hold(ctx context.Context, c *call) (any, error) {
	c.journal.Write(Ran, c.args.Key)
	if err := c.tell(ctx, 1, 2); err != nil {
		return nil, err
	}
	for len(c.journal.Of(Released, c.args.Key)) == 0 {
		if err := pause(ctx, 100); err != nil {
			c.journal.Write(Cancelled, c.args.Key)
			return nil, err
		}
	}
	c.journal.Write(Ended, c.args.Key)
	return c.result(c.args.Text, false), nil
}

func crash(ctx context.Context, c *call) (any, error) {
	if err := pause(ctx, c.args.MS); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, Crashing)
	c.exit()
	return c.result("crashed", false), nil
}

func garbage(_ context.Context, c *call) (any, error) {
	raw := bytes.Repeat([]byte(junk), c.args.N)
	return json.RawMessage(c.wire.store(append(raw, c.line(c.req.ID(), "after the garbage")...))), nil
}

func big(_ context.Context, c *call) (any, error) {
	return c.result(strings.Repeat("x", c.args.Bytes), false), nil
}

func badUTF8(_ context.Context, c *call) (any, error) {
	line := bytes.Replace(c.line(c.req.ID(), "aXXb"), []byte("XX"), []byte("\xff\xfe"), 1)
	return json.RawMessage(c.wire.store(line)), nil
}

func separators(ctx context.Context, c *call) (any, error) {
	if err := c.progress(ctx, 1, 1); err != nil { // so that the answer comes by an event stream
		return nil, err
	}
	text := Separators
	if c.wire == nil {
		return c.result(text, false), nil
	}
	// encoding/json escapes the separators; a server may write them as they are.
	line := c.line(c.req.ID(), text)
	for _, r := range []string{"\u2028", "\u2029"} {
		line = bytes.ReplaceAll(line, fmt.Appendf(nil, `\u%x`, []rune(r)[0]), []byte(r))
	}
	return json.RawMessage(c.wire.store(line)), nil
}

func answerTwice(_ context.Context, c *call) (any, error) {
	once := c.line(c.req.ID(), "first")
	return json.RawMessage(c.wire.store(append(once, c.line(c.req.ID(), "second")...))), nil
}

func wrongID(_ context.Context, c *call) (any, error) {
	var raw []byte
	for _, id := range []dragoman.ID{dragoman.StringID("nobody"), dragoman.IntID(1 << 60)} {
		raw = append(raw, c.line(id, "for nobody")...)
	}
	return json.RawMessage(c.wire.store(append(raw, c.line(c.req.ID(), "the right one")...))), nil
}

func notify(ctx context.Context, c *call) (any, error) {
	for i := range c.args.N {
		if err := c.tell(ctx, i+1, c.args.N); err != nil {
			return nil, err
		}
	}
	return c.result(strconv.Itoa(c.args.N), false), nil
}

// tell reports how far the call is, and logs its text, or how far it is if there is none.
func (c *call) tell(ctx context.Context, done, total int) error {
	if c.from == nil {
		return nil
	}
	if err := c.progress(ctx, done, total); err != nil {
		return err
	}
	var data any = done - 1
	if c.args.Text != "" {
		data = c.args.Text
	}
	note, err := dragoman.NewNotification(protocol.NoteMessage, object{"level": "info", "data": data})
	if err != nil {
		return err
	}
	return c.from.Notify(ctx, note)
}

// progress reports how far the call is, if the caller asked for it.
func (c *call) progress(ctx context.Context, done, total int) error {
	token := c.req.Meta(protocol.MetaProgressToken)
	if c.from == nil || token == nil {
		return nil
	}
	params := object{"progressToken": token, "progress": done, "total": total}
	if c.args.Text != "" {
		params["message"] = c.args.Text
	}
	note, err := dragoman.NewNotification(protocol.NoteProgress, params)
	if err != nil {
		return err
	}
	return c.from.Notify(ctx, note)
}

// freeze writes its key in the journal when nothing is read any more.
func freeze(_ context.Context, c *call) (any, error) {
	c.wire.freeze(time.Duration(c.args.MS) * time.Millisecond)
	if c.args.Key != "" {
		c.journal.Write(Ran, c.args.Key)
	}
	return c.result("thawed", false), nil
}

func flood(_ context.Context, c *call) (any, error) {
	line := strings.Repeat("e", 199) + "\n"
	for range c.args.Lines {
		if _, err := os.Stderr.WriteString(line); err != nil {
			return nil, err
		}
	}
	return c.result("flooded", false), nil
}

func noAnswer(ctx context.Context, _ *call) (any, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// endless writes until nobody reads any more.
func endless(_ context.Context, c *call) (any, error) {
	block := bytes.Repeat([]byte("x"), 1<<20)
	for {
		if _, err := c.wire.Write(block); err != nil {
			return nil, err
		}
	}
}

// roots is the answer to roots/list.
type roots struct {
	Roots []struct {
		URI string `json:"uri"`
	} `json:"roots"`
}

// question is the name of the one question in a round.
const question = "roots"

// serverRequest asks as its era does: a legacy client by a request, a modern one by
// its result.
func serverRequest(ctx context.Context, c *call) (any, error) {
	var answer roots
	switch {
	case !c.modern():
		if c.from == nil {
			return nil, errors.New("fault: there is no client to ask")
		}
		req, err := dragoman.NewRequest(dragoman.StringID("fault"), protocol.MethodListRoots, nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.from.Call(ctx, req, nil)
		if err != nil {
			return nil, err
		}
		if resp.IsError() {
			return c.result(resp.RPCError().Error(), true), nil
		}
		if err := resp.Decode(&answer); err != nil {
			return nil, err
		}
	case c.req.Get("inputResponses") == nil:
		return object{
			"resultType":    protocol.ResultInputRequired,
			"inputRequests": object{question: object{"method": protocol.MethodListRoots}},
			"requestState":  "fault",
		}, nil
	default:
		var answers map[string]json.RawMessage
		if err := json.Unmarshal(c.req.Get("inputResponses"), &answers); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(answers[question], &answer); err != nil {
			return nil, err
		}
	}
	if len(answer.Roots) == 0 {
		return c.result("no roots", true), nil
	}
	return c.result(answer.Roots[0].URI, false), nil
}
