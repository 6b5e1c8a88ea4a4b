package ws

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

// Messages for which there is no room are not read on: many at once would need more memory than there
// is.
func TestS14_MessagesAreCountedWhileTheyAreRead(t *testing.T) {
	peertest.NoLeak(t)
	room := limit.NewBytes(1 << 20) // of which one key has half
	s := &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(nil)
	}})}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(limit.WithRoom(r.Context(), room, r.Header.Get("X-Key"))))
	}))
	defer web.Close()
	defer stop(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dial := func(key string) *websocket.Conn {
		c, resp, err := websocket.Dial(ctx, web.URL, &websocket.DialOptions{HTTPHeader: http.Header{"X-Key": {key}}, Subprotocols: []string{subprotocol}})
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body != nil {
			_ = resp.Body.Close()
		}
		t.Cleanup(func() { _ = c.CloseNow() })
		return c
	}
	begin, rest := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 300<<10), `"}}`
	answered := func(c *websocket.Conn) websocket.StatusCode {
		_, _, err := c.Read(ctx)
		return websocket.CloseStatus(err)
	}
	first := dial("a")
	w, err := first.Writer(ctx, websocket.MessageText)
	if err == nil {
		_, err = w.Write([]byte(begin))
	}
	if err != nil {
		t.Fatal(err)
	}
	for held := false; !held; { // until the server has read that
		if held = room.Take("a", 300<<10) != nil; !held {
			room.Release("a", 300<<10)
			if ctx.Err() != nil {
				t.Fatal("the message is not counted")
			}
			runtime.Gosched()
		}
	}
	second, other := dial("a"), dial("b")
	_ = second.Write(ctx, websocket.MessageText, []byte(begin+rest)) // it may be closed meanwhile
	if code := answered(second); code != websocket.StatusTryAgainLater {
		t.Errorf("another message of this caller ends with %d", code)
	}
	if err := other.Write(ctx, websocket.MessageText, []byte(begin+rest)); err != nil || answered(other) != -1 {
		t.Errorf("a message of another caller: %v", err)
	}
	if _, err := w.Write([]byte(rest)); err != nil || w.Close() != nil || answered(first) != -1 {
		t.Errorf("the first message: %v", err)
	}
	again := dial("a")
	if err := again.Write(ctx, websocket.MessageText, []byte(begin+rest)); err != nil || answered(again) != -1 {
		t.Errorf("when there is room again: %v", err)
	}
}
