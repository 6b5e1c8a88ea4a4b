package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/inspect/replay"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A fake server answers by a function.
type fake func(method string, params json.RawMessage) (json.RawMessage, error)

func (f fake) Request(_ context.Context, method string, params any) (json.RawMessage, error) {
	raw, _ := params.(json.RawMessage)
	return f(method, raw)
}

func line(at int, from, more, message string) string {
	return fmt.Sprintf(`{"time":"2026-11-17T01:00:%02dZ","from":%q,%s"size":1,"message":%s}`+"\n", at, from, more, message)
}

const recorded = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`

func read(t *testing.T, text string) *replay.Recording {
	t.Helper()
	rec, err := replay.Read(strings.NewReader(text), "")
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func ask(at, id int, method, params string) string {
	return line(at, "client", fmt.Sprintf(`"method":%q,"id":%d,`, method, id), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
}

func answer(at, id int, method, rest string) string {
	return line(at, "server", fmt.Sprintf(`"method":%q,"id":%d,"answer":true,`, method, id), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, id, rest))
}

func TestDifferencesAreFoundByTheirPaths(t *testing.T) {
	const want = `{"a":[1,{"b":"x"}],"c":"token [redacted] end","d":"[redacted]","n":1.0,"gone":true}`
	for _, test := range []struct{ got, want string }{
		{`{"a":[1,{"b":"x"}],"c":"token t0p end","d":{"any":1},"n":1,"gone":true}`, ""},
		{`{"n":2,"a":[1,{"b":"y"},3],"c":"other end","d":1,"gone":null,"new":[]}`,
			`result.a[1].b "x" "y"|result.a[2]  3|result.c "token [redacted] end" "other end"|result.gone true null|result.n 1.0 2|result.new  []`},
		{`{"a":[1,{"b":"x"}],"c":"token t0p end","n":1,"gone":true}`, `result.d "[redacted]" `}, // a secret that is not there
		{`7`, "result " + want + " 7"},
	} {
		rec := read(t, ask(0, 1, "x", "{}")+answer(1, 1, "x", `"result":`+want))
		var got []string
		err := rec.Run(t.Context(), fake(func(string, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(test.got), nil }), 0, nil, func(r replay.Result) {
			for _, d := range r.Differences {
				got = append(got, fmt.Sprintf("%s %s %s", d.Path, string(d.Want), string(d.Got)))
			}
		})
		if text := strings.Join(got, "|"); err != nil || len(text) != len(test.want) || !strings.HasPrefix(test.want, "result {") && text != test.want {
			t.Errorf("%s: %s, want %s", test.got, text, test.want)
		}
	}
	rec := read(t, ask(0, 1, "x", "{}")+answer(1, 1, "x", `"result":`+want))
	_ = rec.Run(t.Context(), fake(func(string, json.RawMessage) (json.RawMessage, error) {
		return nil, &dragoman.Error{Code: -1, Message: "m"}
	}), 0, []string{"result"}, func(r replay.Result) {
		if len(r.Differences) != 1 || r.Differences[0].Path != "error" {
			t.Errorf("%+v", r.Differences)
		}
	})
}

func TestRequestsAreSentAgainWithoutWhatBelongedToTheConversation(t *testing.T) {
	text := line(0, "client", `"method":"initialize","id":1,`, recorded) + answer(0, 1, "initialize", `"result":{}`) +
		ask(1, 2, "tools/call", `{"name":"a","_meta":{"progressToken":5,"io.modelcontextprotocol/clientInfo":{},"mine":1},"arguments":{"password":"[redacted]"}}`) +
		ask(2, 3, "tools/list", `{}`) + answer(3, 3, "tools/list", `"result":{"n":3}`) + answer(4, 2, "tools/call", `"error":{"code":-32602,"message":"no"}`) +
		ask(5, 4, "ping", `{}`) + "\n" + `{"time":"2026-11-17T01:00:09Z","from":"client","size":3,"text":"???"}` + "\n"
	rec := read(t, text)
	if rec.Era != protocol.Legacy || rec.Masked != 1 || len(rec.Steps) != 3 {
		t.Fatalf("%+v", rec)
	}
	var sent []string
	wrong := 0
	err := rec.Run(t.Context(), fake(func(method string, params json.RawMessage) (json.RawMessage, error) {
		sent = append(sent, method+string(params))
		if method == "tools/call" {
			return nil, fmt.Errorf("wrapped: %w", &dragoman.Error{Code: -32602, Message: "no"})
		}
		return json.RawMessage(`{"n":3}`), nil
	}), 0, nil, func(r replay.Result) { wrong += len(r.Differences) })
	if err != nil || wrong != 0 {
		t.Errorf("%d differences, %v", wrong, err)
	}
	if got := strings.Join(sent, " "); got != `tools/call{"_meta":{"mine":1},"arguments":{"password":"[redacted]"},"name":"a"} tools/list{} ping{}` {
		t.Errorf("sent is %s", got)
	}
}

func TestWithASpeedRequestsAreSentAtTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := read(t, ask(0, 1, "a", "{}")+ask(10, 2, "b", "{}")+ask(30, 3, "c", "{}"))
		began := time.Now()
		var mu sync.Mutex
		var at []string
		err := rec.Run(t.Context(), fake(func(method string, _ json.RawMessage) (json.RawMessage, error) {
			mu.Lock()
			at = append(at, fmt.Sprint(method, time.Since(began)))
			mu.Unlock()
			time.Sleep(time.Minute) // nobody waits for it
			return json.RawMessage("{}"), nil
		}), 2, nil, func(replay.Result) {})
		if got := strings.Join(at, " "); err != nil || got != "a0s b5s c15s" {
			t.Errorf("%s, %v", got, err)
		}
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := rec.Run(ended, fake(func(string, json.RawMessage) (json.RawMessage, error) { return nil, nil }), 1, nil, func(replay.Result) {}); err == nil {
			t.Error("it continues after the end of its context")
		}
	})
}

func TestWhatIsNoRecordingIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n":                        "line 1 is none of a recording",
		"x":                           "line 1 is none of a recording",
		"":                            "no request",
		"\n[1]\n":                     "line 2",
		ask(0, 1, "initialize", "{}"): "no request",
		strings.Replace(ask(0, 1, "a", "{}"), `"size"`, `"server":"x","size"`, 1) + strings.Replace(ask(0, 1, "a", "{}"), `"size"`, `"server":"y","size"`, 1): "--server: x, y",
	} {
		if _, err := replay.Read(strings.NewReader(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The questions of a server are answered as in the recording, in either era.
func TestQuestionsAreAnsweredAsTheyWere(t *testing.T) {
	const reply = `{"action":"accept","content":{"username":"ada","email":"a@example.com"}}`
	legacy := line(0, "client", `"method":"initialize","id":1,`, recorded) + ask(1, 2, "tools/call", `{"name":"test_elicitation","arguments":{"message":"who?"}}`) +
		line(2, "server", `"method":"elicitation/create","id":9,`, `{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{}}`) +
		line(3, "client", `"method":"elicitation/create","id":9,"answer":true,`, `{"jsonrpc":"2.0","id":9,"result":`+reply+`}`)
	modern := strings.ReplaceAll(ask(1, 2, "tools/call", `{"name":"test_elicitation","arguments":{"message":"who?"}}`)+
		answer(2, 2, "tools/call", `"result":{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{}}}}`)+
		ask(3, 3, "tools/call", `{"name":"test_elicitation","arguments":{"message":"who?"},"requestState":"s","inputResponses":{"k":`+reply+`}}`), `"size"`, `"name":"test_elicitation","size"`)
	for era, text := range map[protocol.Era]string{protocol.Legacy: legacy, protocol.Modern: modern} {
		rec := read(t, text)
		if rec.Era != era || len(rec.Steps) != 1 {
			t.Fatalf("%v: %+v", era, rec)
		}
		server := builtin.New(nil)
		opts := rec.Options()
		opts.Era = &era
		c, err := client.Connect(t.Context(), &client.Server{Dialer: dragoman.Local(server)}, opts)
		if err != nil {
			t.Fatal(err)
		}
		err = rec.Run(t.Context(), c, 0, nil, func(r replay.Result) {
			if r.Err != nil {
				t.Errorf("%v: %v", era, r.Err)
			}
		})
		if err != nil {
			t.Error(err)
		}
		_ = c.Close()
		_ = server.Close()
	}
}

func TestMessagesThatWereNotRecordedAreCounted(t *testing.T) {
	rec := read(t, ask(0, 1, "x", "{}")+line(1, "server", `"dropped":3,"method":"x","id":1,"answer":true,`, `{"jsonrpc":"2.0","id":1,"result":{}}`)+line(2, "server", `"dropped":4,`, `{"jsonrpc":"2.0","method":"n"}`))
	if rec.Dropped != 7 {
		t.Errorf("%d are counted", rec.Dropped)
	}
}

func TestAnAnswerThatBelongsToNoStepIsNotThatOfAnother(t *testing.T) {
	call := line(1, "client", `"method":"tools/call","name":"a","id":2,`, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`)
	asks := answer(2, 2, "tools/call", `"result":{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}}}`)
	again := ask(3, 3, "tools/call", `{"inputResponses":{"k":{"action":"accept"}}}`)
	rec := read(t, ask(0, 1, "x", "{}")+call+asks+again+answer(4, 3, "tools/call", `"result":{"content":[]}`))
	if want := rec.Steps[0].Want; want != nil {
		t.Errorf("the first step wants %s", want.Result)
	}
}
