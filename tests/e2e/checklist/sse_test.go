package checklist

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

const eventType = "text/event-stream"

// An event is one event of a stream, or a comment, and when it came.
type event struct {
	name, data, comment string
	at                  time.Duration
}

// readEvents reads a stream to its end.
func readEvents(t *testing.T, r io.Reader) (events []event) {
	t.Helper()
	began := time.Now()
	var e event
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && e != (event{}):
			e.at = time.Since(began)
			events = append(events, e)
			e = event{}
		case lines.Text() == "":
		case field == "":
			e.comment = value
		case field == "event":
			e.name = value
		case field == "data":
			e.data += value
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("the stream broke: %v", err)
	}
	if e != (event{}) {
		t.Fatalf("the stream ends within an event: %+v", e)
	}
	return events
}

// stream posts a call, reads the stream that answers it, and returns that with
// and without its comments.
func stream(t *testing.T, client *http.Client, url string, req *dragoman.Message) (header http.Header, all, events []event) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(req.String()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", jsonType)
	r.Header.Set("Accept", eventType)
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != eventType {
		t.Fatalf("status %d, %s; want 200 and %s", resp.StatusCode, resp.Header.Get("Content-Type"), eventType)
	}
	all = readEvents(t, resp.Body)
	for _, e := range all {
		if e.comment == "" {
			events = append(events, e)
		}
	}
	return resp.Header, all, events
}

func eventsAreNotBuffered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		client := inMemory(t, &toolhttp.Server{Requests: builtIn()})
		header, all, events := stream(t, client, memoryURL, request(t, `1`, "slow", `{"ms":60000,"steps":3}`))
		if header.Get("X-Accel-Buffering") != "no" || !strings.Contains(header.Get("Cache-Control"), "no-cache") ||
			!strings.Contains(header.Get("Cache-Control"), "no-transform") {
			t.Errorf("nobody on the way is told to pass it on: %v", header)
		}
		if header.Get("Content-Length") != "" || header.Get("Content-Encoding") != "" {
			t.Errorf("the stream is measured or compressed: %v", header)
		}
		if all[0].at != 0 {
			t.Errorf("the stream begins after %v", all[0].at)
		}
		for i, at := range []time.Duration{20 * time.Second, 40 * time.Second, 60 * time.Second, 60 * time.Second} {
			if len(events) != 4 || events[i].at != at {
				t.Fatalf("the events are %+v, want them after 20, 40, 60 and 60 s", events)
			}
		}
	})
}

func eventsEndWithTheAnswer(t *testing.T) {
	url := serveTools(t, builtIn())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, _, events := stream(t, client, url, request(t, `"a"`, "slow", `{"ms":3,"steps":3}`))
	if len(events) != 4 {
		t.Fatalf("%d events, want three fragments and the answer: %+v", len(events), events)
	}
	for i, e := range events[:3] {
		// A fragment is a part of a result, and fits where one belongs.
		whole := parse(t, `{"jsonrpc":"2.0","id":1,"result":`+e.data+`}`)
		if wantText(t, whole, `1`, fmt.Sprintf("step %d of 3", i+1)); e.name != "result" {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if wantText(t, parse(t, events[3].data), `"a"`, "Took 3 ms in 3 steps."); events[3].name != "complete" {
		t.Errorf("the last event is %+v", events[3])
	}

	// An error is the last event too, also behind fragments.
	failing := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodListTools {
			return answering.OnCall(ctx, req, from)
		}
		note, err := dragoman.NewNotification(protocol.NoteProgress, map[string]any{
			"progressToken": req.Meta(protocol.MetaProgressToken), "progress": 1, "message": "so far so good",
		})
		if err == nil {
			err = from.Notify(ctx, note)
		}
		if err != nil {
			return nil, err
		}
		return req.Fail(&dragoman.Error{Code: 4711, Message: "out of paper"}), nil
	}}
	_, _, events = stream(t, client, serveTools(t, failing), request(t, `"b"`, "t", `{}`))
	if len(events) != 2 || events[0].name != "result" || events[1].name != "error" {
		t.Fatalf("the events are %+v, want a fragment and the error", events)
	}
	m := parse(t, events[1].data)
	if wantError(t, m, 4711, "out of paper"); m.ID().String() != `"b"` {
		t.Errorf("the error has the id %s", m.ID())
	}
	// What is no tool response does not become the end of a stream.
	_, _, events = stream(t, client, serveTools(t, answering), request(t, `1`, "t", `{"result":{"content":"x"}}`))
	if len(events) != 1 || events[0].name != "error" || !fits(toolErrorSchema, events[0].data) {
		t.Errorf("a result that is none ends the stream so: %+v", events)
	}
}

func silentStreamsHaveHeartbeats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		client := inMemory(t, &toolhttp.Server{Requests: builtIn()})
		_, all, _ := stream(t, client, memoryURL, request(t, `1`, "slow", `{"ms":300000}`))
		last, beats := time.Duration(0), 0
		for _, e := range all {
			if e.at-last >= 30*time.Second {
				t.Errorf("nothing came for %v: %+v", e.at-last, all)
			}
			if last = e.at; e.comment == "heartbeat" {
				beats++
			}
		}
		if last != 5*time.Minute || beats < 10 {
			t.Errorf("%d heartbeats in %v", beats, last)
		}
		// They are nothing to our client, which waits for the answer.
		conn := dial(t, &toolhttp.Client{URL: memoryURL, HTTP: client, Stream: true, Timeout: -1})
		resp, took := timed(t, conn, request(t, `1`, "slow", `{"ms":300000}`))
		if wantText(t, resp, `1`, "Took 300000 ms in 1 steps."); took != 5*time.Minute {
			t.Errorf("the answer came after %v", took)
		}
	})
}

// flush writes a part of a stream at once.
func flush(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", eventType)
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

func fragmentsAreReassembled(t *testing.T) {
	const a, b, c = `{"type":"text","text":"a"}`, `{"type":"text","text":"b"}`, `{"type":"text","text":"c"}`
	fragments := "event: result\ndata: {\"content\":[" + a + "]}\n\n: heartbeat\n\n" +
		"event: result\ndata: {\"content\":[\ndata: " + b + "],\ndata: \"structuredContent\":{\"n\":1}}\n\n" +
		"event: unknown\ndata: whatever\n\nevent: result\ndata: {\"content\":[" + c + "]}\n\n"
	for _, test := range []struct{ last, want string }{
		{`{"isError":false}`, "a|b|c"},
		{`{"content":[]}`, "a|b|c"},
		{`{"content":[` + a + `,` + b + `,` + c + `],"structuredContent":{"n":1}}`, "a|b|c"},
	} {
		last := make(chan struct{})
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			flush(w, fragments)
			select {
			case <-last:
			case <-r.Context().Done():
			}
			flush(w, "event: complete\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":"+test.last+"}\n\n")
		}), nil)
		conn := dial(t, &toolhttp.Client{URL: url, Stream: true})
		told := make(chan string, 3)
		from := dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
			told <- string(note.Get("message"))
			return nil
		}}
		req, err := request(t, `"x"`, "t", `{}`).Edit().SetMeta(protocol.MetaProgressToken, []byte(`1`)).Message()
		if err != nil {
			t.Fatal(err)
		}
		done := begin(t, conn, req, from)
		for _, want := range []string{`"a"`, `"b"`, `"c"`} {
			if got := wait(t, told, "a fragment"); got != want {
				t.Errorf("the caller was told of %s, want %s", got, want)
			}
		}
		select {
		case r := <-done:
			t.Fatalf("the call returned before the stream was complete: %v, %v", r.resp, r.err)
		default:
		}
		close(last)
		r := wait(t, done, "the answer")
		if r.err != nil {
			t.Fatal(r.err)
		}
		if wantText(t, r.resp, `"x"`, test.want); string(r.resp.Get("structuredContent")) != `{"n":1}` {
			t.Errorf("complete with %s: the answer is %s", test.last, r.resp)
		}
	}
	// Without its end a stream is no answer, whatever came.
	conn := dial(t, &toolhttp.Client{URL: scripted(t, http.StatusOK, eventType, fragments), Stream: true})
	wantError(t, ask(t, conn, request(t, `1`, "t", `{}`)), protocol.CodeLost, "no response received")
}

func slowStreamsAreAborted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		aborted := make(chan error, 1)
		client := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil { // fragments and heartbeats are no answer
				flush(w, ": heartbeat\n\nevent: result\ndata: {\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}\n\n")
				select {
				case <-time.After(2 * time.Second):
				case <-r.Context().Done():
				}
			}
			aborted <- r.Context().Err()
		}))
		conn := dial(t, &toolhttp.Client{URL: memoryURL, HTTP: client, Stream: true, Timeout: 7 * time.Second})
		req := request(t, `"x"`, "t", `{}`)
		began := time.Now()
		resp, err := conn.Call(t.Context(), req, nil)
		if took := time.Since(began); err != nil || took != 7*time.Second {
			t.Fatalf("the call returned %v after %v, want a tool error after 7 s", err, took)
		}
		if wantError(t, resp, protocol.CodeTimeout, "in time"); resp.ID() != req.ID() {
			t.Errorf("the error has the id %s", resp.ID())
		}
		if err := <-aborted; !errors.Is(err, context.Canceled) {
			t.Errorf("the request ended by %v", err)
		}
	})
}
