package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestIdsAndTokensAreOursOnTheWireAndTheCallersBehindIt(t *testing.T) {
	c, w := start(t, nil, nil)
	received := make(notes, 8)
	done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"a\u00e9","method":"tools/call","params":{"name":"x","n":12345678901234567890,"_meta":{"progressToken":"tok","k":1}}}`), received)

	sent := w.hearText(t)
	want := `{"jsonrpc":"2.0","id":#1,"method":"tools/call","params":{"name":"x","n":12345678901234567890,"_meta":{"progressToken":#1,"k":1}}}`
	if sent != want {
		t.Errorf("on the wire:\n%s\nwant\n%s", sent, want)
	}
	w.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":#1,"progress":0.50}}`)
	w.say(`{"jsonrpc":"2.0","id":#1,"result":{"n":1.00}}`)
	r := await(t, done)
	if r.err != nil || r.resp.String() != `{"jsonrpc":"2.0","id":"a\u00e9","result":{"n":1.00}}` {
		t.Errorf("answer: %v, %v", r.resp, r.err)
	}
	if got := (<-received).String(); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":0.50}}` {
		t.Errorf("progress: %s", got)
	}
}

func TestD04_LateDoubleAndUnknownAnswersAreDropped(t *testing.T) {
	c, w := start(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	first := call(ctx, c, peertest.Parse(t, `{"jsonrpc":"2.0","id":7,"method":"a"}`), nil)
	w.hear(t)
	cancel()
	await(t, first)
	if m := w.hear(t); m.Method() != protocol.NoteCancelled || string(m.Get("requestId")) != w.real("#1") {
		t.Errorf("after the cancel the wire carries %s", m)
	}
	w.say(`{"jsonrpc":"2.0","id":#1,"result":{}}`)    // late
	w.say(`{"jsonrpc":"2.0","id":99,"result":{}}`)    // never asked
	w.say(`{"jsonrpc":"2.0","id":"one","result":{}}`) // not even a number
	second := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":8,"method":"b"}`), nil)
	w.hear(t)
	w.say(`{"jsonrpc":"2.0","id":#2,"result":{"first":true}}`)
	w.say(`{"jsonrpc":"2.0","id":#2,"result":{"first":false}}`) // double
	if r := await(t, second); r.err != nil || string(r.resp.Get("first")) != "true" {
		t.Errorf("answer: %v, %v", r.resp, r.err)
	}
	third := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":9,"method":"c"}`), nil)
	w.hear(t)
	w.say(`{"jsonrpc":"2.0","id":#3,"result":{"third":true}}`)
	if r := await(t, third); r.err != nil || string(r.resp.Get("third")) != "true" {
		t.Errorf("afterwards: %v, %v", r.resp, r.err)
	}
}

func TestInitializeIsNotCancelled(t *testing.T) {
	c, w := start(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := call(ctx, c, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), nil)
	w.hear(t)
	cancel()
	if r := await(t, done); !errors.Is(r.err, context.Canceled) {
		t.Errorf("Call returned %v", r.err)
	}
	probe := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":2,"method":"ping"}`), nil)
	if m := w.hear(t); m.Method() != "ping" {
		t.Errorf("the wire carries %s, want the ping", m)
	}
	w.say(`{"jsonrpc":"2.0","id":#2,"result":{}}`)
	await(t, probe)
}

func TestErrorWithoutIdEndsTheOnlyCall(t *testing.T) {
	c, w := start(t, nil, nil)
	done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"q","method":"a"}`), nil)
	w.hear(t)
	w.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`)
	r := await(t, done)
	if r.err != nil || r.resp.RPCError().Code != -32700 || r.resp.ID().String() != `"q"` {
		t.Errorf("answer: %v, %v", r.resp, r.err)
	}
}

func TestServersQuestionGoesToTheOnlyCallElseToTheLocalPeer(t *testing.T) {
	tagged := func(name string) dragoman.Peer {
		return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Reply(map[string]string{"by": name})
		}}
	}
	c, w := start(t, tagged("local"), nil)
	ask := func(want string) {
		t.Helper()
		w.say(`{"jsonrpc":"2.0","id":"s","method":"roots/list"}`)
		for {
			m := w.hear(t)
			if m.Kind() == dragoman.Response {
				if got := string(m.Get("by")); got != `"`+want+`"` {
					t.Errorf("answered by %s, want %q", got, want)
				}
				return
			}
		}
	}
	ask("local")
	one := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), tagged("one"))
	w.hear(t)
	ask("one")
	listen := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{}}`), tagged("listen"))
	w.hear(t)
	ask("one") // a listen is no call in that count
	discover := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":4,"method":"server/discover","params":{}}`), tagged("discover"))
	w.hear(t)
	ask("one") // nor is a discover that the server may have ignored
	two := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":3,"method":"a"}`), tagged("two"))
	w.hear(t)
	ask("local")
	for i := 1; i <= 4; i++ {
		w.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":#%d,"result":{}}`, i))
	}
	for _, ch := range []<-chan reply{one, listen, discover, two} {
		await(t, ch)
	}
}

func TestTooManyCallsAreRefusedAndNotSent(t *testing.T) {
	c, w := start(t, nil, &jsonrpc.Options{MaxCalls: 2})
	for i := range 2 {
		call(t.Context(), c, peertest.Parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"a"}`, i)), nil)
		w.hear(t)
	}
	if _, err := c.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":3,"method":"a"}`), nil); !errors.Is(err, dragoman.ErrOverloaded) {
		t.Errorf("third call: %v, want ErrOverloaded", err)
	}
	if len(w.sent) != 0 {
		t.Errorf("the refused call was sent: %s", <-w.sent)
	}
}

func TestTooManyRequestsAndDoubleIdsAreRefused(t *testing.T) {
	release := make(chan struct{})
	slow := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		<-release
		return req.Reply(nil)
	}}
	_, w := start(t, slow, &jsonrpc.Options{MaxCalls: 2, Server: true})
	w.say(`{"jsonrpc":"2.0","id":"a","method":"x"}`)
	w.say(`{"jsonrpc":"2.0","id":"\u0061","method":"x"}`) // the same id, spelt otherwise
	if m := w.hear(t); m.RPCError().Code != protocol.CodeInvalidRequest || m.ID().String() != `"\u0061"` {
		t.Errorf("double id: %s", m)
	}
	w.say(`{"jsonrpc":"2.0","id":"b","method":"x"}`)
	w.say(`{"jsonrpc":"2.0","id":"c","method":"x"}`)
	if m := w.hear(t); m.RPCError().Code != protocol.CodeOverloaded || m.ID().String() != `"c"` {
		t.Errorf("over the limit: %s", m)
	}
	close(release)
	for range 2 {
		if m := w.hear(t); m.IsError() {
			t.Errorf("a request that was not refused gets %s", m)
		}
	}
}

func TestA12_BadInputIsAnsweredAndTheStreamContinues(t *testing.T) {
	_, w := start(t, echo, &jsonrpc.Options{Server: true})
	for _, test := range []struct {
		say, id string
		code    int
	}{
		{`{"jsonrpc":"2.0","id":1,`, "null", protocol.CodeParse},
		{"\xff\xfe", "null", protocol.CodeParse},
		{`"text"`, "null", protocol.CodeInvalidRequest},
		{`[]`, "null", protocol.CodeInvalidRequest},
		{`{"jsonrpc":"2.0","id":5,"method":"a","params":[1]}`, "5", protocol.CodeInvalidRequest},
		{`{"jsonrpc":"2.0","id":"z","method":"a","Method":"b"}`, `"z"`, protocol.CodeInvalidRequest},
	} {
		w.say(test.say)
		m := w.hear(t)
		if !m.IsError() || m.RPCError().Code != test.code || m.ID().String() != test.id {
			t.Errorf("%q is answered by %s, want code %d and id %s", test.say, m, test.code, test.id)
		}
	}
	w.say(`{"jsonrpc":"2.0","id":9,"method":"a","params":{"x":1}}`)
	if got := w.hearText(t); got != `{"jsonrpc":"2.0","id":9,"result":{"x":1}}` {
		t.Errorf("afterwards: %s", got)
	}
}

func TestD11_JunkIsSkippedByAClient(t *testing.T) {
	c, w := start(t, nil, nil)
	done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), nil)
	w.hear(t)
	w.say("Server is starting…")
	w.say(`{"level":"info","msg":"ready"}`)
	w.say("{\"jsonrpc\":\"2.0\",\"id\":#1,\"result\":{\"text\":\"\xff\"}}") // mended
	r := await(t, done)
	if r.err != nil || string(r.resp.Get("text")) != "\"\uFFFD\"" {
		t.Errorf("answer: %v, %v", r.resp, r.err)
	}
	if len(w.sent) != 0 {
		t.Errorf("a client answered junk: %s", <-w.sent)
	}
}

func TestMalformedAnswerEndsItsCall(t *testing.T) {
	c, w := start(t, nil, nil)
	done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":"q","method":"a"}`), nil)
	w.hear(t)
	w.say(`{"jsonrpc":"2.0","id":#1,"result":{},"error":{"code":1,"message":"both"}}`)
	var bad *dragoman.ParseError
	if r := await(t, done); !errors.As(r.err, &bad) {
		t.Errorf("Call: %v, %v, want a ParseError", r.resp, r.err)
	}
}

func TestOversizeAnswerEndsItsCall(t *testing.T) {
	for _, test := range []struct{ name, head, tail string }{
		{"id first", `{"jsonrpc":"2.0","id":#1,"result":{"x":"`, `…"}}`},
		{"id last", `{"result":{"x":"`, `"},"jsonrpc":"2.0","id":#1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWire()
			bad := make(chan error, 1)
			c := jsonrpc.New(&faulty{wire: w, errs: bad}, nil)
			c.Start(nil)
			t.Cleanup(func() { _ = c.Close() })
			done := call(t.Context(), c, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), nil)
			w.hear(t)
			bad <- &jsonrpc.BadFrame{Err: dragoman.ErrTooLarge, Head: []byte(w.real(test.head)), Tail: []byte(w.real(test.tail))}
			if r := await(t, done); !errors.Is(r.err, dragoman.ErrTooLarge) {
				t.Errorf("Call: %v, %v, want ErrTooLarge", r.resp, r.err)
			}
		})
	}
}

func TestOversizeRequestIsRefusedByItsId(t *testing.T) {
	for _, test := range []struct{ name, head, tail, id string }{
		{"id first", `{"jsonrpc":"2.0","id":"q\"1","method":"a","params":{"x":"`, `…"}}`, `"q\"1"`},
		{"id last", `{"method":"a","params":{"x":"`, `"},"jsonrpc":"2.0","id":7}`, `7`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWire()
			bad := make(chan error, 1)
			c := jsonrpc.New(&faulty{wire: w, errs: bad}, nil)
			c.Start(nil)
			t.Cleanup(func() { _ = c.Close() })
			bad <- &jsonrpc.BadFrame{Err: dragoman.ErrTooLarge, Head: []byte(test.head), Tail: []byte(test.tail)}
			if m := w.hear(t); !m.IsError() || m.ID().String() != test.id {
				t.Errorf("answered by %s, want an error with id %s", m, test.id)
			}
		})
	}
}

func TestOversizeNotificationIsNotAnswered(t *testing.T) {
	w := newWire()
	bad := make(chan error)
	c := jsonrpc.New(&faulty{wire: w, errs: bad}, &jsonrpc.Options{Server: true})
	c.Start(echo)
	t.Cleanup(func() { _ = c.Close() })
	bad <- &jsonrpc.BadFrame{Err: dragoman.ErrTooLarge, Head: []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"x":"`), Tail: []byte(`…"}}`)}
	w.say(`{"jsonrpc":"2.0","id":9,"method":"a","params":{"x":1}}`)
	if got := w.hearText(t); got != `{"jsonrpc":"2.0","id":9,"result":{"x":1}}` {
		t.Errorf("first comes %s, want the answer to the request behind it", got)
	}
}

func TestCancelledRequestIsNotAnsweredAndTellsNoMore(t *testing.T) {
	late := make(chan error, 1)
	started := make(chan struct{})
	server := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == "ping" {
			return req.Reply(nil)
		}
		close(started)
		<-ctx.Done()
		note, _ := dragoman.NewNotification(protocol.NoteProgress, map[string]int{"progressToken": 1, "progress": 1})
		late <- from.Notify(ctx, note)
		return req.Reply(nil)
	}}
	_, w := start(t, server, &jsonrpc.Options{Server: true})
	w.say(`{"jsonrpc":"2.0","id":"x","method":"slow"}`)
	<-started
	w.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
	if err := await(t, late); !errors.Is(err, dragoman.ErrCancelled) {
		t.Errorf("Notify after the cancel: %v, want ErrCancelled", err)
	}
	w.say(`{"jsonrpc":"2.0","id":"y","method":"ping"}`)
	if m := w.hear(t); m.ID().String() != `"y"` {
		t.Errorf("the cancelled request was answered: %s", m)
	}
}

func TestC14_WritesThatGatherGoTogether(t *testing.T) {
	w := newWire()
	w.hold = make(chan struct{})
	c := jsonrpc.New(w, nil)
	c.Start(nil)
	defer c.Close()
	note := peertest.Parse(t, `{"jsonrpc":"2.0","method":"n"}`)
	for range 100 {
		if err := c.Notify(t.Context(), note); err != nil {
			t.Fatal(err)
		}
	}
	close(w.hold)
	for range 100 {
		w.hear(t)
	}
	_ = c.Close()
	if len(w.writes) > 2 {
		t.Errorf("100 messages took %d writes, want 2 at most: what was in flight, and the rest", len(w.writes))
	}
}

// heldUp returns a conversation whose other side reads nothing before hold is closed.
func heldUp(maxQueue int) (*jsonrpc.Conn, *wire) {
	w := newWire()
	w.hold = make(chan struct{})
	c := jsonrpc.New(w, &jsonrpc.Options{MaxQueue: maxQueue})
	c.Start(nil)
	return c, w
}

func TestProgressOfEveryCallIsToldThoughOthersFillTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := heldUp(1000)
		defer c.Close()
		notify := func(text string) {
			if err := c.Notify(t.Context(), peertest.Parse(t, text)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			notify(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d}}`, i))
			synctest.Wait() // the first is being written, the others wait
		}
		for i := range 50 {
			for token := range 3 {
				notify(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, token, i))
			}
		}
		close(w.hold)
		_ = c.Close()
		sent := strings.Join(slices.Concat(w.writes...), "\n")
		for token := range 3 {
			if n := strings.Count(sent, fmt.Sprintf(`"progressToken":%d`, token)); n != 1 || !strings.Contains(sent, fmt.Sprintf(`"progressToken":%d,"progress":49}`, token)) {
				t.Errorf("of call %d, progress is sent %d times:\n%s", token, n, sent)
			}
		}
	})
}

func TestD14_SlowReaderBoundsWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := heldUp(1000)
		defer c.Close()
		pad := strings.Repeat("x", 100)
		logNote := peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`+pad+`"}}`)
		for range 100 {
			if err := c.Notify(t.Context(), logNote); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first is being written, the others wait
		}
		for i := range 100 {
			if err := c.Notify(t.Context(), peertest.Parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`, i))); err != nil {
				t.Fatal(err)
			}
		}
		// A call waits for room, as long as its caller does.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Call(ctx, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a","params":{"p":"`+pad+`"}}`), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call: %v", err)
		}
		// What must not be lost ends the conversation when it gets too much.
		change := peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"p":"`+pad+`"}}`)
		var err error
		for range 30 {
			if err = c.Notify(t.Context(), change); err != nil {
				break
			}
		}
		if !errors.Is(err, dragoman.ErrSlow) || !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("Notify beyond the limit: %v, want ErrSlow and ErrClosed", err)
		}
		close(w.hold)
		_ = c.Close()
		sent := strings.Join(slices.Concat(w.writes...), "\n")
		if len(sent) > 2500 {
			t.Errorf("%d bytes were kept for the slow reader, want 2000 and some at most:\n%s", len(sent), sent)
		}
		if strings.Count(sent, protocol.NoteProgress) != 1 || !strings.Contains(sent, `"progress":99}`) {
			t.Errorf("the newest progress was not kept, or more than that:\n%s", sent)
		}
	})
}

func TestStalledReaderIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.hold = make(chan struct{})
		c := jsonrpc.New(w, &jsonrpc.Options{Stall: time.Minute})
		c.Start(nil)
		begin := time.Now()
		_, err := c.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), nil)
		if !errors.Is(err, dragoman.ErrSlow) || time.Since(begin) != time.Minute {
			t.Errorf("after %v: %v, want ErrSlow after a minute", time.Since(begin), err)
		}
		_ = c.Close()
	})
}

func TestA09_EndOfInputLetsAnswersFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			select {
			case <-time.After(5 * time.Second):
				return req.Reply(nil)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		w := newWire()
		c := jsonrpc.New(w, &jsonrpc.Options{Server: true, Linger: 30 * time.Second})
		c.Start(server)
		w.say(`{"jsonrpc":"2.0","id":1,"method":"slow"}`)
		close(w.got)
		<-c.Done()
		_ = c.Close()
		if got := <-w.sent; got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Errorf("written: %s", got)
		}
	})
}

// faulty is a wire on which Read may fail.
type faulty struct {
	*wire
	errs chan error
}

func (f *faulty) Read() ([]byte, error) {
	select {
	case err := <-f.errs:
		return nil, err
	case b := <-f.got:
		return b, nil
	case <-f.closed:
		return nil, errors.New("closed")
	}
}

func TestD03_WhatFollowsTheHandshakeWaitsForIt(t *testing.T) {
	initialized := false // guarded by the order that is tested; the race detector watches
	server := dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == protocol.MethodInitialize {
				time.Sleep(time.Second)
				return req.Reply(nil)
			}
			return req.Reply(map[string]bool{"initialized": initialized})
		},
		OnNotify: func(context.Context, *dragoman.Message) error {
			time.Sleep(time.Second)
			initialized = true
			return nil
		},
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		c := jsonrpc.New(w, nil)
		c.Start(server)
		w.say(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		w.say(`{"jsonrpc":"2.0","id":2,"method":"a"}`)
		w.say(`{"jsonrpc":"2.0","id":3,"method":"a"}`)
		if got := <-w.sent; !strings.Contains(got, `"id":1,`) {
			t.Errorf("first answer: %s", got)
		}
		for range 2 {
			if got := <-w.sent; !strings.Contains(got, `"initialized":true`) {
				t.Errorf("overtook the handshake: %s", got)
			}
		}
		_ = c.Close()
	})
}
