//go:build linux

package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// elsewhere is where clients are that vanish.
const elsewhere = "127.0.0.2"

// TestS45_VanishedClientsAreNoticed has clients with streams of all kinds vanish, as
// if their machine had lost its power: nothing comes from them any more, no end
// either.
func TestS45_VanishedClientsAreNoticed(t *testing.T) {
	t.Parallel() // it mostly waits, in a process of its own
	if !alone(t, 4*gatewaytest.Patience) {
		return
	}
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: shared(child(t, fault.Modern, j))}}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*gatewaytest.Patience)
	defer cancel()
	v := openSession(ctx, t, g, server)
	v.mustEcho(ctx, 1)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(elsewhere)}}
	web := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	open := func(method, url string, header http.Header, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %v, error %v", method, url, resp, err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	before := atRest(t, g)
	open(http.MethodGet, v.url, v.header(), "")
	open(http.MethodGet, g.URL(server, "sse"), http.Header{}, "")
	header, body := modernText(t, protocol.MethodListen, 1, object{"notifications": object{"toolsListChanged": true}})
	open(http.MethodPost, v.url, header, body)
	header, body = modernText(t, protocol.MethodCallTool, 2, object{"name": "count", "arguments": object{"key": t.Name(), "ms": forever}})
	open(http.MethodPost, v.url, header, body)
	socket(ctx, t, dialer, g)
	const kinds = 5
	gatewaytest.Eventually(t, func() error {
		if n := links(t, g); n != kinds {
			return fmt.Errorf("%d connections come from %s", n, elsewhere)
		}
		return nil
	})
	during := gatewaytest.Files(g.PID())
	mustRead(t, fmt.Sprintf(`table inet vanish { chain in { type filter hook input priority 0;
		ip saddr %s counter drop
		ip daddr %s counter drop
	}
	}`, elsewhere, elsewhere), "nft", "-f", "-")
	from := time.Now()
	err := gatewaytest.Until(2*gatewaytest.Patience, func() error {
		if n := gatewaytest.Files(g.PID()); n > before {
			return fmt.Errorf("%d files are open, before the streams it was %d, with them %d", n, before, during)
		}
		return nil
	})
	took := time.Since(from)
	t.Logf("noticed after %v; %d files, %d with the streams", took, before, during)
	if err != nil || gatewaytest.Exceeds(took, 31*time.Second) {
		t.Errorf("it takes %v until vanished clients are noticed: %v", took, err)
	}
	if during < before+kinds {
		t.Errorf("%d streams have %d files: nothing was shown", kinds, during-before)
	}
	must(t, "nft", "flush", "ruleset")
	v.mustEcho(ctx, 2) // the session lives on
	if len(j.Of(fault.Cancelled, t.Name())) != 1 {
		t.Error("the call of a modern client that vanished continues")
	}
}

// atRest returns how many files the gateway has open once single requests have left
// nothing behind.
func atRest(t *testing.T, g *gatewaytest.Gateway) (files int) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	same := 0
	gatewaytest.Eventually(t, func() error {
		if n := gatewaytest.Files(g.PID()); n == files {
			same++
		} else {
			files, same = n, 0
		}
		if same < 100 {
			return fmt.Errorf("the number of open files changes; it is %d", files)
		}
		return nil
	})
	return files
}

// links returns how many connections the gateway has to clients elsewhere.
func links(t *testing.T, g *gatewaytest.Gateway) int {
	t.Helper()
	port := g.Base[strings.LastIndexByte(g.Base, ':')+1:]
	return strings.Count(must(t, "ss", "-Htn", "state", "established", "sport", "=", ":"+port, "dst", elsewhere), "\n")
}

// socket opens a WebSocket that hears nothing.
func socket(ctx context.Context, t *testing.T, d *net.Dialer, g *gatewaytest.Gateway) {
	t.Helper()
	nc, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(g.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_, path, _ := strings.Cut(strings.TrimPrefix(g.URL(server, "ws"), "http://"), "/")
	_, err = io.WriteString(nc, "GET /"+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 12)
	if _, err := io.ReadFull(nc, answer); err != nil || string(answer) != "HTTP/1.1 101" {
		t.Fatalf("the socket is answered with %s, error %v", answer, err)
	}
}
