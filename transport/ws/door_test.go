package ws

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// doRequest makes an HTTP request that has the headers of an upgrade, and others.
func doRequest(t testing.TB, method, at string, change func(*http.Request)) (status int, header http.Header, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http"+strings.TrimPrefix(at, "ws"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
	} {
		req.Header.Set(name, value)
	}
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, resp.Header, ""
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if name == "Host" {
			r.Host = value
			return
		}
		r.Header.Set(name, value)
	}
}

func TestS11_S20_RequestIsCheckedBeforeTheUpgrade(t *testing.T) {
	peertest.NoLeak(t)
	at := serve(t, &Server{
		Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
			return dragoman.NoPeer, nil
		}),
		Hosts: []string{"mcp.example.com"}, Origins: []string{"https://app.example.com"},
	})
	for _, c := range []struct {
		name, method string
		change       func(*http.Request)
		status       int
		says         string
	}{
		{"no origin", "GET", nil, 101, ""},
		{"allowed origin", "GET", set("Origin", "https://app.example.com"), 101, ""},
		{"local origin", "GET", set("Origin", "http://localhost:3000"), 101, ""},
		{"allowed host", "GET", set("Host", "mcp.example.com"), 101, ""},
		{"foreign origin", "GET", set("Origin", "https://evil.example"), 403, "Origin"},
		{"origin null", "GET", set("Origin", "null"), 403, "Origin"},
		{"origin of another scheme", "GET", set("Origin", "http://app.example.com"), 403, "Origin"},
		{"foreign host", "GET", set("Host", "rebound.example"), 403, "Host"},
		{"foreign origin without upgrade", "GET", func(r *http.Request) { r.Header = http.Header{"Origin": {"https://evil.example"}} }, 403, "Origin"},
		{"no upgrade", "GET", func(r *http.Request) { r.Header = http.Header{} }, 426, "WebSocket"},
		{"other upgrade", "GET", set("Upgrade", "h2c"), 426, "WebSocket"},
		{"post", "POST", nil, 405, "GET"},
		{"options", "OPTIONS", nil, 405, "GET"},
		{"old version", "GET", set("Sec-WebSocket-Version", "8"), 400, "version"},
		{"bad key", "GET", set("Sec-WebSocket-Key", "short"), 400, "Key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, body := doRequest(t, c.method, at, c.change)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Fatalf("got %d %s\nwant %d and a text with %q", status, body, c.status, c.says)
			}
			switch status {
			case 403, 426:
				if m := peertest.Parse(t, body); !m.IsError() {
					t.Errorf("the body is %s", body)
				}
				if status == 426 && header.Get("Upgrade") != "websocket" {
					t.Errorf("426 without Upgrade: %v", header)
				}
			case 405:
				if header.Get("Allow") != "GET" {
					t.Errorf("405 with Allow %q", header.Get("Allow"))
				}
			}
		})
	}
}

func TestS20_SubprotocolIsSelectedWhenOffered(t *testing.T) {
	rpc := serve(t, &Server{Acceptor: peertest.Accept(echoes)})
	tools := serve(t, &Server{Requests: echoes})
	for _, c := range []struct{ name, at, offer, want string }{
		{"mcp", rpc, "mcp", "mcp"},
		{"mcp among others", rpc, "graphql-ws, mcp", "mcp"},
		{"others alone", rpc, "graphql-ws, wamp.2.json", ""},
		{"nobody to accept", tools, "mcp", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rawDial(t, c.at, "Sec-WebSocket-Protocol: "+c.offer)
			if got := r.header.Get("Sec-WebSocket-Protocol"); got != c.want {
				t.Errorf("selected %q, want %q", got, c.want)
			}
		})
	}
}

func TestAMessageMayComeRightBehindTheHandshake(t *testing.T) {
	at := serve(t, &Server{Acceptor: peertest.Accept(echoes)})
	conn, err := net.Dial("tcp", strings.TrimPrefix(at, "ws://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	r := &raw{TB: t, Conn: conn, in: bufio.NewReader(conn), masks: true}
	message := asking(sized(10_000)) // more than comes with the handshake
	r.write(append([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"), r.frame(text, []byte(message))...))
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("no upgrade: %v %v", resp, err)
	}
	r.want(asked(sized(10_000)))
	r.wantOpen()
}

func TestTooManyClientsGet503BeforeTheUpgrade(t *testing.T) {
	peertest.NoLeak(t)
	at := serve(t, &Server{Acceptor: peertest.Accept(echoes), MaxConns: 2})
	first, second := rawDial(t, at), rawDial(t, at)
	status, header, body := doRequest(t, "GET", at, nil)
	if status != 503 || !strings.Contains(body, "-31004") || header.Get("Retry-After") == "" {
		t.Errorf("the third client got %d %v %s", status, header, body)
	}
	_, err := (&Client{URL: at}).Dial(t.Context(), nil)
	if refused := (*protocol.StatusError)(nil); !errors.As(err, &refused) || refused.Status != 503 || !errors.Is(err, dragoman.ErrOverloaded) {
		t.Errorf("Dial returned %v", err)
	}
	first.send(bye, closing(1000, ""))
	first.wantClose(1000)
	for { // the place is free as soon as the server has noticed
		if status, _, _ := doRequest(t, "GET", at, nil); status == 101 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the place of a client that left stays taken")
		}
	}
	second.wantOpen()
}

func TestFirstMessageDecidesWhatIsSpoken(t *testing.T) {
	at := serve(t, &Server{Acceptor: peertest.Accept(echoes), Requests: toolEcho})
	const junk = `{"jsonrpc":"2.0","id":null,"error":`
	for _, c := range []struct {
		name, first, want string
		tools             bool
	}{
		{"JSON-RPC", asking("x"), asked("x"), false},
		{"JSON-RPC with a name", `{"jsonrpc":"2.0","id":7,"method":"echo","name":"n","params":{}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`, false},
		{"tool frame", `{"id":1,"name":"n","arguments":{"a":1}}`, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"n {\"a\":1}"}]}}`, true},
		{"tool frame with space around", " \n{ \"name\" : \"n\" , \"id\" : \"1\" }\r\n", `{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"n "}]}}`, true},
		{"method without jsonrpc", `{"id":7,"method":"echo","name":"n"}`, `{"jsonrpc":"2.0","id":7,"error":`, false},
		{"neither", `{"type":"ping"}`, junk, false},
		{"no object", `"hello"`, junk, false},
		{"no JSON", `{"id":1,"name":"n"`, junk, false},
		{"a frame and more", `{"name":"n"},"id":{"name":"n"}`, junk, false},
		{"nothing", ``, junk, false},
	} {
		for offer, lines := range map[string][]string{"": nil, ", others offered": {"Sec-WebSocket-Protocol: chat"}} {
			t.Run(c.name+offer, func(t *testing.T) {
				r := rawDial(t, at, lines...)
				r.sendText(c.first)
				if got := r.message(); !strings.HasPrefix(got, c.want) {
					t.Fatalf("got %s\nwant %s", got, c.want)
				}
				// It stays so.
				r.sendText(asking("later"))
				got := r.message()
				if rpc := got == asked("later"); rpc == c.tools {
					t.Errorf("then JSON-RPC got %s", got)
				}
				r.sendText(`{"id":2,"name":"later"}`)
				got = r.message()
				if tools := strings.Contains(got, `"result"`); tools != c.tools {
					t.Errorf("then a tool frame got %s", got)
				}
			})
		}
	}
	t.Run("with the subprotocol it is JSON-RPC", func(t *testing.T) {
		r := rawDial(t, at, "Sec-WebSocket-Protocol: mcp")
		r.sendText(`{"id":1,"name":"n"}`)
		if got := r.message(); !strings.Contains(got, `"error"`) {
			t.Errorf("a tool frame got %s", got)
		}
		r.wantOpen()
	})
}

func TestWhatIsNotServedIsRefusedAndSaysSo(t *testing.T) {
	r := rawDial(t, serve(t, &Server{Requests: toolEcho}))
	r.sendText(asking("x"))
	if got := r.message(); !strings.Contains(got, `"id":7`) || !strings.Contains(got, "JSON-RPC is not served here") {
		t.Errorf("JSON-RPC got %s", got)
	}
	r = rawDial(t, serve(t, &Server{Acceptor: peertest.Accept(echoes)}))
	r.sendText(`{"id":1,"name":"n"}`)
	if got := r.message(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, "tool frames are not served here") {
		t.Errorf("a tool frame got %s", got)
	}
}
