//go:build npm

package interop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// useEverything uses the built-in server by our client.
func useEverything(t *testing.T, server dragoman.Dialer, rev protocol.Revision) {
	t.Helper()
	c, _ := begin(t, server, rev)
	c.logs()
	useBuiltin(t, c.session)
}

// The library's socket stands between our client on its standard input and our
// server.
func TestNpmPipSocketsUseEverything(t *testing.T) {
	t.Parallel()
	eachLanguage(t, "ws", func(t *testing.T, program []string) {
		for _, rev := range bothEras {
			t.Run(rev.String(), func(t *testing.T) {
				t.Parallel()
				args := append(slices.Clone(program[1:]), serveWS(t, &ws.Server{Compression: rev.HasSessions()}), "mcp")
				useEverything(t, &stdio.Command{Path: program[0], Args: args}, rev)
			})
		}
	})
}

func TestNpmPipA04_A26_SocketsCallToolsByFrames(t *testing.T) {
	t.Parallel()
	eachLanguage(t, "ws", func(t *testing.T, program []string) {
		p := openPeer(t, program, serveWS(t, &ws.Server{Compression: true}))
		p.expect("!open")
		waiting := make(map[string]string)
		for i := range 200 {
			id := fmt.Sprint(i)
			if i%2 == 1 {
				id = `"call ` + id + `"`
			}
			text := strings.Repeat("é", i)
			waiting[id] = text
			p.say(fmt.Sprintf(`{"id":%s,"name":"echo","arguments":{"text":%q}}`, id, text))
			if i%50 == 0 { // overtaken by others
				waiting[`"slow `+id+`"`] = "50 ms in 1 steps"
				p.say(fmt.Sprintf(`{"id":"slow %s","name":"slow","arguments":{"ms":50}}`, id))
			}
			p.say(`{"type":"ping"}`) // asks for nothing
		}
		for len(waiting) > 0 {
			var got struct {
				ID     json.RawMessage `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			line := p.next()
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatalf("%v: %q", err, line)
			}
			want, ok := waiting[string(got.ID)]
			if !ok {
				t.Fatalf("no call waits for %s", line)
			}
			delete(waiting, string(got.ID))
			checkResult(t, "echo", got.Result, expected{text: want})
		}
		p.say(`{"id":7,"name":"none"}`)
		p.expect(`{"jsonrpc":"2.0","id":7,"error":{"code":-32602,`)
		p.say(`{"id":true,"name":"echo"}`)
		p.expect(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`)
	})
}

func TestNpmPipSocketsArePingedAndPing(t *testing.T) {
	t.Parallel()
	eachLanguage(t, "ws", func(t *testing.T, program []string) {
		p := openPeer(t, program, serveWS(t, &ws.Server{PingInterval: 10 * time.Millisecond}), "mcp")
		p.expect("!open mcp")
		for range 3 { // each follows the pong to the one before it
			if line := p.next(); line != "!pinged" {
				t.Fatalf("the library's socket says %q", line)
			}
		}
		p.say("!ping")
		p.expect("!pong")
		p.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		p.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

func TestNpmPipA30_SocketsSeeWhyTheyAreClosed(t *testing.T) {
	t.Parallel()
	eachLanguage(t, "ws", func(t *testing.T, program []string) {
		tests := map[string]struct {
			say   string
			close string
		}{
			"binary":    {"!binary", "!close 1003 only text"},
			"too large": {strings.Repeat(" ", 5000), "!close 1009"},
			"stopping":  {"", "!close 1001 the server is stopping"},
		}
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := &ws.Server{MaxMessage: 4096}
				p := openPeer(t, program, serveWS(t, s), "mcp")
				p.expect("!open mcp")
				if test.say != "" {
					p.say(test.say)
				} else {
					shutdown(t, s.Shutdown)
				}
				p.expect(test.close)
			})
		}
	})
}
