package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// counted serves a spy over HTTP and counts the requests, by HTTP method or that
// of JSON-RPC.
func counted(t *testing.T, rev protocol.Revision) (url string, s *spy, count func(what string) int) {
	t.Helper()
	s = newSpy(rev)
	h := &streamable.Server{Sessions: s, Requests: s.Requests()}
	t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
	var mu sync.Mutex
	seen := make(map[string]int)
	web := rewriting(t, h, func(w http.ResponseWriter, r *http.Request, body string) bool {
		if r.Header.Get("X-Key") != "open sesame" {
			http.Error(w, "no", http.StatusForbidden)
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		seen[r.Method]++
		if m, err := dragoman.Parse([]byte(body)); err == nil {
			seen[m.Method()]++
		}
		return false
	})
	return web.URL, s, func(what string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[what]
	}
}

var sesame = http.Header{"X-Key": {"open sesame"}}

func TestD19_ASingleCallHasASessionIfItNeedsOne(t *testing.T) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			peertest.NoLeak(t)
			url, _, count := counted(t, rev)
			result, err := client.Call(within(t), url, protocol.MethodCallTool, object{"name": "add", "arguments": object{"a": 1, "b": 2}}, &client.OneShot{Header: sesame})
			if err != nil || !strings.Contains(string(result), "3") || count(protocol.MethodCallTool) != 1 {
				t.Errorf("%s, %v", result, err)
			}
			sessions := 0
			if rev.HasSessions() {
				sessions = 1
			}
			if count(protocol.NoteInitialized) != sessions || (count(http.MethodDelete) > 0) != rev.HasSessions() {
				t.Errorf("%d handshakes, %d sessions ended", count(protocol.NoteInitialized), count(http.MethodDelete))
			}
			_, err = client.Call(within(t), url, protocol.MethodCallTool, object{"name": "nonsense"}, &client.OneShot{Header: sesame})
			if _, ok := errors.AsType[*dragoman.Error](err); !ok {
				t.Errorf("an unknown tool: %v", err)
			}
			_, err = client.Call(within(t), url, protocol.MethodListTools, nil, nil)
			if e := failure(t, err, client.ConnectionFailed); !strings.Contains(e.Advice, "Authorization") {
				t.Errorf("without the header: %v", err)
			}
		})
	}
}

func TestD19_ASingleCallEndsInTimeAndWhenItIsCancelled(t *testing.T) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			peertest.NoLeak(t)
			url, s, _ := counted(t, rev)
			wait := object{"name": "wait", "arguments": object{}}
			ctx, cancel := context.WithCancel(within(t))
			done := make(chan error)
			go func() {
				_, err := client.Call(ctx, url, protocol.MethodCallTool, wait, &client.OneShot{Header: sesame, Timeout: -1})
				done <- err
			}()
			<-s.began
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			<-s.ended
			_, err := client.Call(within(t), url, protocol.MethodCallTool, wait, &client.OneShot{Header: sesame, Timeout: 200 * time.Millisecond})
			if e := failure(t, err, client.Timeout); !errors.Is(e, context.DeadlineExceeded) {
				t.Errorf("too late: %v", err)
			}
		})
	}
}

func TestASingleCallNeedsAURL(t *testing.T) {
	if _, err := client.Call(t.Context(), "http://hush@", "x", nil, nil); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("the error is %v", err)
	}
}
