package streamable_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// When we close a conversation, its calls end because of that, whatever the server makes
// of them when it learns that they are cancelled.
func TestCallsEndWithCloseWhateverTheServerDoes(t *testing.T) {
	for name, end := range map[string]func(w http.ResponseWriter, k *took){
		"ends the stream": func(http.ResponseWriter, *took) {},
		"answers that the call is lost": func(w http.ResponseWriter, k *took) {
			sendEvents(w, oneEvent("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-31003,"message":"lost"}}`, k.m.ID())))
		},
		"breaks the connection": func(http.ResponseWriter, *took) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closeDuringCalls(t, end) })
		})
	}
}

func closeDuringCalls(t *testing.T, end func(w http.ResponseWriter, k *took)) {
	var mu sync.Mutex
	cancelled := make(map[string]chan struct{}) // by the id of the request
	of := func(id string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if cancelled[id] == nil {
			cancelled[id] = make(chan struct{})
		}
		return cancelled[id]
	}
	_, c := serveInMemory(t, func(w http.ResponseWriter, k *took) {
		switch k.what() {
		case "tools/call":
			sendEvents(w, ": open")
			select {
			case <-of(k.m.ID().String()):
				end(w, k)
			case <-k.Context().Done():
			}
		case "notifications/cancelled":
			close(of(string(k.m.Get("requestId"))))
			w.WriteHeader(http.StatusAccepted)
		default:
			shakes(w, k, "2025-11-25")
		}
	})
	conn := dialScript(t, c, nil)
	shake(t, conn, "2025-11-25")
	var calls sync.WaitGroup
	for range 400 { // so many that the server has answered the first cancels before the last is sent
		calls.Go(func() {
			resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
			if !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("a call ends with %v, %v, want ErrClosed", resp, err)
			}
		})
	}
	synctest.Wait()
	_ = conn.Close()
	calls.Wait()
}
