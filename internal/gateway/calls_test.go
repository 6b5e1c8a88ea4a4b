package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A callLine is the log record of a call.
type callLine struct {
	Level, Msg, Client, Server, Method, Name, Outcome string
	Took                                              time.Duration
	In, Out                                           int
	Requests                                          int
	Reason                                            string
}

// logLines reads log records.
func logLines(t *testing.T, out *bytes.Buffer) (list []callLine) {
	t.Helper()
	for line := range strings.Lines(out.String()) {
		var l callLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	out.Reset()
	return list
}

func TestEachCallIsALineInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var slow atomic.Int64
		slow.Store(int64(defaultSlow))
		var answer string
		var fails error
		var takes time.Duration
		p := &recorder{
			Peer: dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				time.Sleep(takes)
				if fails != nil {
					return nil, fails
				}
				if answer == "down" {
					return req.Fail(protocol.Unavailable(errors.New("it has ended"))), nil
				}
				return dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,` + answer + `}`))
			}},
			calls: &callLog{server: "files", log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), slow: &slow},
		}
		call := func(method string) callLine {
			t.Helper()
			req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"read","_meta":{"` + protocol.MetaClientInfo + `":{"name":"claude"}}}}`))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = p.Call(t.Context(), req, nil)
			list := logLines(t, &out)
			if len(list) != 1 {
				t.Fatalf("%d lines", len(list))
			}
			return list[0]
		}

		answer, takes = `"result":{"content":[]}`, 340*time.Millisecond
		if l := call("tools/call"); l.Level != "INFO" || l.Msg != CallRecord || l.Client != "claude" || l.Server != "files" || l.Method != "tools/call" || l.Name != "read" ||
			l.Outcome != "answered" || l.Took != takes || l.In == 0 || l.Out == 0 {
			t.Errorf("a call that is answered: %+v", l)
		}
		answer = `"result":{"content":[],"isError":true}`
		if l := call("tools/call"); l.Level != "INFO" || l.Outcome != "tool error" {
			t.Errorf("a tool that fails: %+v", l)
		}
		answer = `"error":{"code":-32602,"message":"no: Bearer abcdefgh12345"}`
		if l := call("tools/call"); l.Level != "INFO" || l.Outcome != "no: Bearer [redacted]" {
			t.Errorf("a refusal of the server: %+v", l)
		}
		fails = dragoman.ErrCancelled
		if l := call("tools/call"); l.Level != "INFO" || l.Outcome != "cancelled" {
			t.Errorf("a call that is cancelled: %+v", l)
		}
		fails, answer, takes = nil, `"result":{}`, defaultSlow
		if l := call("tools/call"); l.Level != "WARN" || l.Outcome != "answered, slow" {
			t.Errorf("a slow call: %+v", l)
		}
		for _, method := range []string{protocol.MethodListen, protocol.MethodPing, protocol.MethodDiscover, protocol.MethodInitialize} {
			takes = 0
			if method == protocol.MethodListen { // which has no end
				takes = defaultSlow
			}
			if l := call(method); l.Level != "DEBUG" || l.Outcome != "answered" {
				t.Errorf("%s, which keeps a conversation up: %+v", method, l)
			}
		}

		// A server that is down is a warning once, and again after a while or when it was back.
		answer, takes = "down", 0
		for i, want := range []string{"WARN", "INFO", "INFO"} {
			if l := call("tools/call"); l.Level != want || !strings.Contains(l.Outcome, "it has ended") {
				t.Errorf("failure %d: %+v, want %s", i, l, want)
			}
		}
		time.Sleep(warnAgain)
		if l := call("tools/call"); l.Level != "WARN" {
			t.Errorf("after a minute: %+v", l)
		}
		answer = `"result":{}`
		call("tools/call")
		answer = "down"
		if l := call("tools/call"); l.Level != "WARN" {
			t.Errorf("after it was back: %+v", l)
		}
	})
}

func TestOneWarningAMinuteWhateverItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		wait := time.Second
		p := &recorder{
			Peer: dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				wait -= 7 * time.Millisecond
				if wait%2 == 0 {
					return req.Fail(protocol.Unavailable(errors.New("it has ended"))), nil
				}
				return req.Fail(upstream.TooOften(protocol.LimitServer, "too often", limit.Rate{}, wait)), nil
			}},
			calls: &callLog{server: "files", log: slog.New(slog.NewJSONHandler(&out, nil))},
		}
		req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodCallTool, map[string]string{"name": "read"})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := p.Call(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
			wait -= time.Nanosecond // the other failure
		}
		warnings := 0
		for _, l := range logLines(t, &out) {
			if l.Level == "WARN" {
				warnings++
			}
		}
		if warnings != 2 {
			t.Errorf("%d warnings for two failures, each said in many ways", warnings)
		}
	})
}

func TestLogLinesAreNotAsLongAsACallerLikes(t *testing.T) {
	long := strings.Repeat("ü", 200_000)
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	p := &recorder{
		Peer: dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Fail(noMethod(req.Method())), nil
		}},
		calls: &callLog{server: "files", log: log},
	}
	req, err := dragoman.NewRequest(dragoman.IntID(1), "x"+long, map[string]any{"name": "x" + long, "_meta": map[string]any{protocol.MetaClientInfo: map[string]string{"name": "x" + long}}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Call(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/x"+strings.Repeat("a", 200_000), nil)
	new(refusals).log(log, r, errors.New("Host is not allowed: "+long))
	for text, s := range map[string]string{"the log": out.String(), "the answer": string(resp.Bytes()), "an unknown tool": unknown("tool", "x"+long).Message, "an unknown resource": unknown("resource", long).Message} {
		if len(s) > 3000 || strings.Contains(s, "\ufffd") || !utf8.ValidString(s) {
			t.Errorf("%s is %d bytes: %.500s", text, len(s), s)
		}
	}
}

func TestRefusedHostsAreLoggedAFewTimesAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, nil))
		var f refusals
		r := httptest.NewRequest("GET", "http://evil.example/mcp", nil)
		refuse := func(n int) []callLine {
			for range n {
				f.log(log, r, errors.New("Host is not allowed"))
			}
			return logLines(t, &out)
		}
		if list := refuse(100); len(list) != maxRefusals || list[0].Level != "WARN" || list[0].Reason != "Host is not allowed" || list[0].Client != "192.0.2.1" {
			t.Errorf("of 100: %+v", list)
		}
		time.Sleep(refusalWindow)
		if list := refuse(2); len(list) != 3 || list[0].Requests != 100-maxRefusals {
			t.Errorf("a minute later: %+v", list)
		}
	})
}

func BenchmarkCallLine(b *testing.B) {
	for name, handler := range map[string]slog.Handler{"disabled": slog.DiscardHandler, "text": &logs.Handler{Out: discard{}}, "slog": slog.NewTextHandler(discard{}, nil)} {
		b.Run(name, func(b *testing.B) {
			req, _ := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`))
			resp, _ := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`))
			p := &recorder{calls: &callLog{server: "files", log: slog.New(handler), slow: new(atomic.Int64)}}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				p.log(ctx, time.Now(), req, resp, nil)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
