package peertest

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// echoTime is how long a conversation with an echo may take.
const echoTime = 30 * time.Second

// Request makes a request of either era.
func Request(t testing.TB, era protocol.Era, method string, params map[string]any) *dragoman.Message {
	t.Helper()
	if era == protocol.Modern {
		params["_meta"] = map[string]any{
			protocol.MetaProtocolVersion:    protocol.Latest.String(),
			protocol.MetaClientCapabilities: struct{}{},
		}
	}
	req, err := dragoman.NewRequest(dragoman.StringID("test"), method, params)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Hello makes the request that a conversation of the legacy era begins with.
func Hello(t testing.TB) *dragoman.Message {
	t.Helper()
	return Request(t, protocol.Legacy, protocol.MethodInitialize, map[string]any{
		"protocolVersion": protocol.LatestLegacy.String(), "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "t", "version": "1"},
	})
}

// Echo makes a call of the tool that the built-in server has under that name.
func Echo(t testing.TB, era protocol.Era) *dragoman.Message {
	t.Helper()
	return Request(t, era, protocol.MethodCallTool, map[string]any{"name": "echo", "arguments": map[string]string{"text": "hello there"}})
}

// CheckEcho fails the test if that tool cannot be called in that era.
func CheckEcho(t testing.TB, dialer dragoman.Dialer, era protocol.Era) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), echoTime)
	defer cancel()
	conn, err := dialer.Dial(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if era == protocol.Legacy {
		if resp, err := conn.Call(ctx, Hello(t), nil); err != nil || resp.IsError() {
			t.Fatalf("initialize: %s %v", resp, err)
		}
		ready, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Notify(ctx, ready); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := conn.Call(ctx, Echo(t, era), nil); err != nil || !strings.Contains(string(resp.Get("content")), "hello there") {
		t.Fatalf("the echo is %s %v", resp, err)
	}
}

// HelloStatus posts that request to a URL with a Host, and an Origin unless it is empty, and
// returns the status.
func HelloStatus(t testing.TB, url, host, origin string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(Hello(t).String()))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
