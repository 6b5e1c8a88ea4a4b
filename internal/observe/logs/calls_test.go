package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
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
		var answer string
		var fails error
		var takes time.Duration
		calls := &logs.Calls{Log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		calls.Slow.Store(int64(logs.DefaultSlow))
		p := event.Observe(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			time.Sleep(takes)
			if fails != nil {
				return nil, fails
			}
			if answer == "down" {
				return req.Fail(protocol.Unavailable(errors.New("it has ended"))), nil
			}
			return dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,` + answer + `}`))
		}}, &event.Link{Server: "files"}, event.Observers{calls})
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
		if l := call("tools/call"); l.Level != "INFO" || l.Msg != logs.CallRecord || l.Client != "claude" || l.Server != "files" || l.Method != "tools/call" || l.Name != "read" ||
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
		fails, answer, takes = nil, `"result":{}`, logs.DefaultSlow
		if l := call("tools/call"); l.Level != "WARN" || l.Outcome != "answered, slow" {
			t.Errorf("a slow call: %+v", l)
		}
		for _, method := range []string{protocol.MethodListen, protocol.MethodPing, protocol.MethodDiscover, protocol.MethodInitialize} {
			takes = 0
			if method == protocol.MethodListen { // which has no end
				takes = logs.DefaultSlow
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
		time.Sleep(time.Minute)
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
		calls := &logs.Calls{Log: slog.New(slog.NewJSONHandler(&out, nil))}
		calls.Slow.Store(int64(logs.DefaultSlow))
		p := event.Observe(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			wait -= 7 * time.Millisecond
			if wait%2 == 0 {
				return req.Fail(protocol.Unavailable(errors.New("it has ended"))), nil
			}
			return req.Fail(protocol.Limited(protocol.LimitServer, "too often: "+wait.String(), wait)), nil
		}}, &event.Link{Server: "files"}, event.Observers{calls})
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

func BenchmarkCallLine(b *testing.B) {
	for name, handler := range map[string]slog.Handler{"disabled": slog.DiscardHandler, "text": &logs.Handler{Out: discard{}}, "slog": slog.NewTextHandler(discard{}, nil)} {
		b.Run(name, func(b *testing.B) {
			req, _ := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`))
			resp, _ := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`))
			calls := &logs.Calls{Log: slog.New(handler)}
			x := &event.Exchange{Link: &event.Link{Server: "files"}, Request: req, Response: resp, Caller: new(dragoman.Caller)}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				x.Began = time.Now()
				calls.End(ctx, x)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
