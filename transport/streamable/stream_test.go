package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestEachPlainGetIsPrimed(t *testing.T) {
	clients := make(chan dragoman.Conn, 1)
	peer := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return opened(req)
	}}
	v := open(t, &streamable.Server{Sessions: dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		clients <- c
		return peer, nil
	})}).hello(protocol.LatestLegacy)
	client := <-clients
	seen := make(map[string]bool)
	for i := range 3 {
		ctx, drop := context.WithCancel(t.Context())
		var resp *http.Response
		until(t, "the last stream is closed", func() bool {
			resp = v.do(ctx, http.MethodGet, "")
			return resp.StatusCode != http.StatusConflict
		})
		stream := v.events(resp)
		first, err := stream.r.Next()
		if err != nil || first.ID == "" || len(first.Data) > 0 || seen[first.ID] {
			t.Fatalf("stream %d begins with %+v, %v", i, first, err)
		}
		seen[first.ID] = true
		if err := client.Notify(t.Context(), told(t)); err != nil {
			t.Fatal(err)
		}
		note := stream.next()
		drop()
		ctx, drop = context.WithCancel(t.Context())
		resumed := v.events(v.with(protocol.HeaderLastEventID, first.ID).do(ctx, http.MethodGet, ""))
		if again := resumed.next(); again.ID != note.ID {
			t.Errorf("resumed behind its first event, stream %d continues with %+v, want %+v", i, again, note)
		}
		drop()
	}
}

// What a client was told while it had no stream waits in the log for its next one.
func TestS25_StreamBeginsWithWhatWasSaidWithoutOne(t *testing.T) {
	clients := make(chan dragoman.Conn, 1)
	peer := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return opened(req)
	}}
	v := open(t, &streamable.Server{Sessions: dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		clients <- c
		return peer, nil
	})}).hello(protocol.LatestLegacy)
	client := <-clients
	note, err := dragoman.NewNotification(protocol.NoteMessage, map[string]any{"level": "info", "data": strings.Repeat("x", 64<<10)})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 { // more than may wait
		if err := client.Notify(t.Context(), note); err != nil {
			t.Fatal(err)
		}
	}
	stream := v.events(v.do(t.Context(), http.MethodGet, ""))
	for range 60 {
		stream.next()
	}
	if err := client.Notify(t.Context(), told(t)); err != nil {
		t.Fatal(err)
	}
	for {
		if strings.Contains(string(stream.next().Data), "begun") {
			return
		}
	}
}

// stuckLog is a log whose disk does not answer to what is stuck, until proceed is closed.
type stuckLog struct {
	eventlog.Log
	mu      sync.Mutex
	stuck   string
	proceed chan struct{}
	waited  int
}

// stick makes an operation on streams whose names end in a part stuck.
func (l *stuckLog) stick(stuck string) (proceed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck, l.proceed, l.waited = stuck, make(chan struct{}), 0
	return l.proceed
}

// isStuck reports whether so many wait.
func (l *stuckLog) isStuck(n int) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.waited == n
	}
}

func (l *stuckLog) wait(operation string) {
	l.mu.Lock()
	stuck := l.stuck != "" && strings.HasPrefix(operation, l.stuck[:1]) && strings.HasSuffix(operation, l.stuck[1:])
	proceed := l.proceed
	if stuck {
		l.waited++
	}
	l.mu.Unlock()
	if stuck {
		<-proceed
	}
}

func (l *stuckLog) Append(ctx context.Context, stream string, after int64, event []byte) (int64, error) {
	l.wait("+" + stream)
	return l.Log.Append(ctx, stream, after, event)
}

func (l *stuckLog) After(ctx context.Context, stream string, position int64) ([][]byte, error) {
	l.wait("?" + stream)
	return l.Log.After(ctx, stream, position)
}

func (l *stuckLog) Drop(ctx context.Context, stream string) error {
	l.wait("-" + stream)
	return l.Log.Drop(ctx, stream)
}

func TestSlowLogHoldsUpNobodyElse(t *testing.T) {
	log := &stuckLog{Log: eventlog.NewMemory(nil)}
	v, proceed, _ := talking(t, log)
	close(proceed["2"])
	stream := v.events(v.do(t.Context(), http.MethodPost, fmt.Sprintf(toolCall, 1)))
	first := stream.next()
	var wg sync.WaitGroup
	defer wg.Wait()
	others := func(when, body string) {
		t.Helper()
		done := make(chan string, 1)
		wg.Go(func() {
			_, text := v.post(body)
			done <- text
		})
		select {
		case text := <-done:
			if !strings.Contains(text, `"result"`) {
				t.Errorf("%s another call is answered with %s", when, text)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s another call of the session has no answer", when)
		}
	}

	free := log.stick("?/1")
	wg.Go(func() { v.resume(first.ID) })
	until(t, "the stream is being resumed", log.isStuck(1))
	proceed["1"] <- struct{}{}
	if e := stream.next(); !strings.Contains(string(e.Data), `"1-1"`) {
		t.Errorf("while a stream is resumed, its first connection gets %s", e.Data)
	}
	close(free)

	free = log.stick("+/1")
	proceed["1"] <- struct{}{}
	until(t, "an event is being logged", log.isStuck(1))
	for range 70 {
		others("while an event is logged,", fmt.Sprintf(toolCall, 2))
	}
	close(free)

	free = log.stick("-")
	wg.Go(func() { v.post(fmt.Sprintf(toolCall, 2)) })
	until(t, "a stream is being dropped", log.isStuck(1))
	others("while a stream is dropped,", `{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	close(free)
	proceed["1"] <- struct{}{}
}
