package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An owner notes when and how its call ended.
type owner struct {
	jsonrpc.Call
	ended chan error
	at    time.Time // set before ended is sent to
}

func (o *owner) Ended(err error) {
	o.at = time.Now()
	o.ended <- err
}

// begin enters a call that has an owner.
func begin(t *testing.T, table *jsonrpc.Calls, from dragoman.Peer) *owner {
	t.Helper()
	o := &owner{ended: make(chan error, 2)}
	req := peertest.Parse(t, `{"jsonrpc":"2.0","id":"caller","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"tok"}}}`)
	if err := table.BeginOwned(&o.Call, o, req, from); err != nil {
		t.Fatal(err)
	}
	return o
}

func progress(t *testing.T, o *owner) *dragoman.Message {
	t.Helper()
	return peertest.Parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, o.ID()))
}

func TestCallTakesNoLongerThanTheMaximum(t *testing.T) {
	for name, test := range map[string]struct {
		during func(t *testing.T, table *jsonrpc.Calls, o *owner)
		want   time.Duration
	}{
		"nothing happens": {func(*testing.T, *jsonrpc.Calls, *owner) {}, 10 * time.Second},
		"progress": {func(t *testing.T, table *jsonrpc.Calls, o *owner) {
			for range 20 {
				time.Sleep(9 * time.Second)
				table.Progress(progress(t, o))
			}
		}, time.Minute},
		"a question without an answer": {func(t *testing.T, _ *jsonrpc.Calls, o *owner) {
			time.Sleep(5 * time.Second)
			if _, _, ok := o.Ask(t.Context()); !ok {
				t.Error("the caller cannot be asked")
			}
		}, time.Minute},
		"a question with an answer": {func(t *testing.T, _ *jsonrpc.Calls, o *owner) {
			time.Sleep(5 * time.Second)
			_, done, _ := o.Ask(t.Context())
			time.Sleep(20 * time.Second)
			done()
		}, 35 * time.Second},
		"a question that may be of any call": {func(_ *testing.T, table *jsonrpc.Calls, _ *owner) {
			table.PauseAll()
			time.Sleep(20 * time.Second)
			table.ResumeAll()
		}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := jsonrpc.NewCalls(10)
				table.SetTimeout(10*time.Second, time.Minute)
				began := time.Now()
				o := begin(t, table, dragoman.NoPeer)
				test.during(t, table, o)
				err := <-o.ended
				late, ok := errors.AsType[*dragoman.TimeoutError](err)
				if took := o.at.Sub(began); !ok || !errors.Is(err, context.DeadlineExceeded) || took != test.want || late.After > took {
					t.Errorf("after %v the call ends with %v, want a timeout after %v", took, err, test.want)
				}
				if open, _ := o.Remove(); !open {
					t.Error("a call that took too long is not in the table, so nobody cancels it")
				}
			})
		})
	}
}

func TestOwnerIsToldOnce(t *testing.T) {
	table := jsonrpc.NewCalls(10)
	o := begin(t, table, nil)
	resp := peertest.Parse(t, `{"jsonrpc":"2.0","id":`+o.ID().String()+`,"result":{}}`)
	if got := table.Answer(resp); got != jsonrpc.Matched {
		t.Errorf("the answer is %v", got)
	}
	if got := table.Answer(resp); got != jsonrpc.Unknown {
		t.Errorf("the second answer is %v", got)
	}
	table.End(dragoman.ErrClosed)
	if err := <-o.ended; err != nil || len(o.ended) > 0 {
		t.Errorf("the owner is told %v and %d times more", err, len(o.ended))
	}
	got, over, err := o.Outcome()
	if !over || err != nil || o.Incoming(got).String() != `{"jsonrpc":"2.0","id":"caller","result":{}}` {
		t.Errorf("the outcome is %v, %v, %v", got, over, err)
	}
}

func TestRefuseReturnsWhatIsUnderWayInOrder(t *testing.T) {
	table := jsonrpc.NewCalls(3)
	var began []*jsonrpc.Call
	for range 3 {
		began = append(began, &begin(t, table, nil).Call)
	}
	_, err := table.Begin(peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), nil)
	if !errors.Is(err, dragoman.ErrOverloaded) {
		t.Errorf("a call over the limit: %v", err)
	}
	if open, ended := began[1].Remove(); !open || ended != nil {
		t.Errorf("removed: %v, %v", open, ended)
	}
	open := table.Refuse(dragoman.ErrClosed)
	if len(open) != 2 || open[0] != began[0] || open[1] != began[2] {
		t.Errorf("%d calls are in flight", len(open))
	}
	if _, err := table.Begin(peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`), nil); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("a call after that: %v", err)
	}
	if open, ended := began[0].Remove(); !open || !errors.Is(ended, dragoman.ErrClosed) {
		t.Errorf("removed after that: %v, %v", open, ended)
	}
}

func TestCallerIsNotToldAfterFinish(t *testing.T) {
	table, log := jsonrpc.NewCalls(1), slog.New(slog.DiscardHandler)
	told, release := make(chan struct{}, 2), make(chan struct{})
	var left atomic.Bool
	o := begin(t, table, dragoman.Funcs{OnNotify: func(context.Context, *dragoman.Message) error {
		told <- struct{}{}
		<-release
		left.Store(true)
		return nil
	}})
	note := progress(t, o)
	go o.Notify(t.Context(), note, log) // ends when it is released
	<-told
	finished := make(chan struct{})
	go func() { // ends when from is not used any more
		defer close(finished)
		o.Finish()
		if !left.Load() {
			t.Error("Finish returns while the caller is told something")
		}
	}()
	for range 1000 {
		runtime.Gosched() // a Finish that does not wait returns now
	}
	close(release)
	<-finished
	o.Notify(t.Context(), note, log)
	if _, _, ok := o.Ask(t.Context()); ok || len(told) > 0 {
		t.Error("the caller is used after Finish")
	}
}

func TestQueueMergesWhatItHasNoRoomFor(t *testing.T) {
	step := func(token, n int) *dragoman.Message {
		return peertest.Parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%d}}`, token, n))
	}
	log := peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
	for name, test := range map[string]struct {
		last, next *dragoman.Message
		tag        string // of next; that of last is "a"
		ok         bool
		want       *dragoman.Message // the last in the queue
	}{
		"newer progress":               {step(1, 1), step(1, 2), "a", true, step(1, 2)},
		"progress of another token":    {step(1, 1), step(2, 2), "a", false, step(1, 1)},
		"progress with another tag":    {step(1, 1), step(1, 2), "b", false, step(1, 1)},
		"a repetition":                 {log, log, "a", true, log},
		"a repetition for another tag": {log, log, "b", false, log},
		"something else":               {log, step(1, 1), "a", false, log},
	} {
		t.Run(name, func(t *testing.T) {
			var q jsonrpc.Queue[string]
			for range jsonrpc.MaxNotes - 1 {
				q.Put(log, "")
			}
			q.Put(test.last, "a")
			if ok := q.Put(test.next, test.tag); ok != test.ok || q.Len() != jsonrpc.MaxNotes {
				t.Errorf("taken: %v; %d wait", ok, q.Len())
			}
			var last *dragoman.Message
			for note, _, ok := q.Next(); ok; note, _, ok = q.Next() {
				last = note
			}
			if last.String() != test.want.String() {
				t.Errorf("the last is %s", last)
			}
		})
	}
}

func TestQueueIsBoundedInBytesButTakesOneLargerMessage(t *testing.T) {
	large := peertest.Parse(t, `{"jsonrpc":"2.0","method":"n","params":{"p":"`+strings.Repeat("x", jsonrpc.MaxNoteBytes)+`"}}`)
	small := peertest.Parse(t, `{"jsonrpc":"2.0","method":"n"}`)
	var q jsonrpc.Queue[int]
	if !q.Put(large, 0) || q.Put(small, 0) {
		t.Error("want the large message taken and nothing behind it")
	}
	q.Next()
	if !q.Put(small, 0) {
		t.Error("there is no room in an empty queue")
	}
}

func TestInboxDeliversInOrderAndWhatWaitsAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int // owned by the goroutine that delivers
		release := make(chan struct{})
		b := jsonrpc.NewInbox(func(_ *dragoman.Message, n int) {
			<-release
			got = append(got, n)
		})
		note := peertest.Parse(t, `{"jsonrpc":"2.0","method":"n"}`)
		for n := range 3 {
			if !b.Put(note, n) {
				t.Errorf("notification %d is not taken", n)
			}
		}
		b.Close()
		if b.Put(note, 3) {
			t.Error("a closed inbox takes something")
		}
		b.Wait(time.Second) // in vain
		close(release)
		b.Wait(time.Second)
		if fmt.Sprint(got) != "[0 1 2]" {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestRequestsAreRefusedByIDNumberAndDrain(t *testing.T) {
	table := jsonrpc.NewRequests(2)
	code := func(id string) int {
		_, refusal := table.Begin(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"a"}`), dragoman.NoPeer)
		if refusal == nil {
			return 0
		}
		return refusal.Code
	}
	if a, again, b, c := code("1"), code("1"), code("2"), code("3"); a != 0 || again != protocol.CodeInvalidRequest || b != 0 || c != protocol.CodeOverloaded {
		t.Errorf("refused with %d, %d, %d, %d", a, again, b, c)
	}
	table.Drain()
	if got := code("4"); got != protocol.Draining().Code {
		t.Errorf("while draining refused with %d", got)
	}
}

func TestTableOfRequestsIsIdleWhenAllAnswersAreSent(t *testing.T) {
	table := jsonrpc.NewRequests(2)
	req := peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"a"}`)
	r, _ := table.Begin(t.Context(), req, dragoman.NoPeer)
	idle := func() bool {
		select {
		case <-table.Idle():
			return true
		default:
			return false
		}
	}
	r.Free()
	if idle() {
		t.Error("idle before the answer is sent")
	}
	next, refusal := table.Begin(t.Context(), req, dragoman.NoPeer)
	if refusal != nil {
		t.Fatalf("the id is not free: %v", refusal)
	}
	r.Done()
	if !table.Cancel(req.ID()) || !errors.Is(context.Cause(next.Context()), dragoman.ErrCancelled) {
		t.Error("the second request is not cancelled")
	}
	if err := next.Notify(t.Context(), req); !errors.Is(err, dragoman.ErrCancelled) {
		t.Errorf("Notify of a cancelled request: %v", err)
	}
	next.Free()
	next.Done()
	if !idle() {
		t.Error("not idle")
	}
}

func TestOversizeTellsWhatAMessageIsFromItsEnds(t *testing.T) {
	for text, want := range map[string]struct {
		kind dragoman.Kind
		id   string
	}{
		`{"jsonrpc":"2.0","id":7,"method":"a","params":{"x":"…"}}`:     {dragoman.Request, "7"},
		`{"method":"a","params":{"x":"…"},"jsonrpc":"2.0","id":"q"}`:   {dragoman.Request, `"q"`},
		`{"method":"a","id":7,"params":{"x":"…"}}`:                     {dragoman.Request, "7"},
		`{"method":"a\"","jsonrpc":"2.0","id":7,"params":{"x":"…"}}`:   {dragoman.Request, "7"},
		`{"jsonrpc":"2.0","id":7,"result":{"x":"…"}}`:                  {dragoman.Response, "7"},
		`{"error":{"code":1,"message":"…"},"id":7}`:                    {dragoman.Response, "7"},
		`{"jsonrpc":"2.0","method":"notifications/message","params":`:  {dragoman.Notification, ""},
		`{"method":"notifications/message","params":{"data":{"id":7}}`: {dragoman.Notification, ""},
		`{"jsonrpc":"2.0","result":{"x":"…"}}`:                         {dragoman.Invalid, ""},
		`{"params":{},"method":"a"}`:                                   {dragoman.Invalid, ""},
		`[{"jsonrpc":"2.0","method":"notifications/message"}]`:         {dragoman.Invalid, ""},
	} {
		head, tail := []byte(text), []byte(text)
		if kind, id := jsonrpc.Oversize(head, tail); kind != want.kind || id.String() != want.id && !(want.id == "" && id.IsZero()) {
			t.Errorf("%s is taken for a %v with the id %v, want %v and %s", text, kind, id, want.kind, want.id)
		}
	}
}

func TestContextOfAQuestionEndsWithItAndWithItsCall(t *testing.T) {
	o := begin(t, jsonrpc.NewCalls(10), dragoman.NoPeer)
	answered, done, _ := o.Ask(t.Context())
	open, doneLater, _ := o.Ask(t.Context())
	done()
	if answered.Err() == nil || open.Err() != nil {
		t.Errorf("after the answer its question has %v, and another %v", answered.Err(), open.Err())
	}
	go func() { // ends with the call
		<-open.Done()
		doneLater()
	}()
	o.Finish()
}

// TestS61_PeerThatPanicsCostsItsRequestAlone has a peer panic in a request and in a
// notification.
func TestS61_PeerThatPanicsCostsItsRequestAlone(t *testing.T) {
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	peer := dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == "bad" {
				panic("part of the test")
			}
			return req.Reply(map[string]any{})
		},
		OnNotify: func(context.Context, *dragoman.Message) error { panic("part of the test") },
	}
	jsonrpc.Notify(t.Context(), peer, peertest.Parse(t, `{"jsonrpc":"2.0","method":"note"}`), log)
	resp := jsonrpc.Serve(t.Context(), peer, peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"bad"}`), nil, log)
	if resp == nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeInternal || resp.ID() != dragoman.IntID(1) {
		t.Errorf("the request is answered with %v", resp)
	}
	if strings.Contains(resp.String(), "part of the test") {
		t.Errorf("the client is told %s", resp)
	}
	if resp = jsonrpc.Serve(t.Context(), peer, peertest.Parse(t, `{"jsonrpc":"2.0","id":2,"method":"good"}`), nil, log); resp == nil || resp.IsError() {
		t.Errorf("the next one gets %v", resp)
	}
	if n := strings.Count(said.String(), "level=ERROR msg=\"panic"); n != 2 {
		t.Errorf("%d panics are in the log:\n%s", n, said.String())
	}
}
