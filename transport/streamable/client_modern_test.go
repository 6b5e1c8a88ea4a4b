package streamable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A modern message has the headers that repeat its parts, and no session.
func TestClientModernHeaders(t *testing.T) {
	s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		if !shakes(w, k, "2025-11-25") {
			if k.m.ID().IsZero() {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			replyTo(w, k, `{}`)
		}
	})
	conn := dialScript(t, c, nil)
	shake(t, conn, "2025-11-25")
	cases := []struct{ method, params, name string }{
		{"tools/list", "", ""},
		{"tools/call", `"name":"disk_usage",`, "disk_usage"},
		{"prompts/get", `"name":"na\u00efve_tool",`, "=?base64?bmHDr3ZlX3Rvb2w=?="},
		{"resources/read", `"uri":"file:///a b",`, "file:///a b"},
		{"tasks/get", `"taskId":"=?base64?x?=",`, "=?base64?PT9iYXNlNjQ/eD89?="},
	}
	for _, c := range cases {
		req := peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":{`+c.params+modernMeta+`}}`)
		if _, err := conn.Call(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		_, list := s.taken(c.method)
		h := list[0].Header
		if h.Get("MCP-Protocol-Version") != "2026-07-28" || h.Get("Mcp-Method") != c.method || h.Get("Mcp-Name") != c.name ||
			len(h.Values("Mcp-Session-Id")) > 0 || len(h.Values("Mcp-Name")) != min(len(c.name), 1) {
			t.Errorf("%s has the headers %v", c.method, h)
		}
	}
	if err := conn.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/x","params":{`+modernMeta+`}}`)); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	_, list := s.taken("notifications/x")
	if len(list) != 1 || list[0].Header.Get("MCP-Protocol-Version") != "2026-07-28" || list[0].Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("the notification has come %d times", len(list))
	}
}

const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"%s"},"n":{"type":"integer"}}}`

// toolServer has a tool with a header of a name that may change, and one whose
// header is not valid. It lists them on two pages, or without the latter on one.
func toolServer(header *atomic.Value, pages bool) func(w http.ResponseWriter, k *took) {
	return func(w http.ResponseWriter, k *took) {
		want, _ := header.Load().(string)
		switch {
		case k.what() == "tools/list" && k.m.Get("cursor") == nil && pages:
			replyTo(w, k, `{"tools":[{"name":"bad","inputSchema":`+fmt.Sprintf(schema, "a b")+`},{"name":"other"}],"nextCursor":"2"}`)
		case k.what() == "tools/list":
			replyTo(w, k, `{"tools":[{"name":"echo","inputSchema":`+fmt.Sprintf(schema, want)+`}]}`)
		case k.Header.Get("Mcp-Param-"+want) != "eu":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Mcp-Param-%s is missing"}}`, k.m.ID(), want)
		default:
			replyTo(w, k, `{}`)
		}
	}
}

// Arguments are headers where the tool's schema says so. The client fetches the
// schemas if it has not seen them, and again if the server misses a header.
func TestS15_ClientParamHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		listed, pages bool
		first, again  string // the requests that list the tools
	}{
		"the client lists":    {false, true, "tools/list tools/list", "tools/list tools/list"},
		"the caller has done": {true, false, "tools/list", "tools/list"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var header atomic.Value
				header.Store("Region")
				s, client := serveInMemory(t, toolServer(&header, c.pages))
				client.NoToolList = c.listed // who lists by himself needs no help
				conn := dialScript(t, client, nil)
				call := func(text string) {
					t.Helper()
					if resp, err := conn.Call(t.Context(), peertest.Parse(t, text), nil); err != nil || resp.IsError() {
						t.Fatalf("got %v, %v", resp, err)
					}
				}
				if c.listed {
					call(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`)
				}
				call(modernTool)
				time.Sleep(toolsAge) // it counts until something does not fit it
				call(modernTool)
				all, _ := s.taken("")
				if got := strings.Join(all, " "); got != c.first+" tools/call tools/call" {
					t.Errorf("requests: %s", got)
				}
				header.Store("Zone")
				call(modernTool)
				after, _ := s.taken("")
				if got := strings.Join(after[len(all):], " "); got != "tools/call "+c.again+" tools/call" {
					t.Errorf("requests after the change: %s", got)
				}
			})
		})
	}
}

// toolsAge is how long a list of tools is used for that the server says nothing of.
const toolsAge = 50 * time.Minute

// A call whose caller leaves while the client asks for the list of tools ends at once.
func TestCallIsNotHeldUpByTheListOfToolsWhenItsCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := serveInMemory(t, func(_ http.ResponseWriter, k *took) { <-k.Context().Done() })
		c.NoToolList = false
		conn := dialScript(t, c, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // ends when the server is asked
			s.wait("tools/list")
			cancel()
		}()
		began := time.Now()
		if _, err := conn.Call(ctx, peertest.Parse(t, modernTool), nil); !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// A list of tools that several wait for comes although the one who asked for it first
// leaves. If it does not come because that one's conversation has ended, the next call
// asks for it.
func TestListOfToolsOutlivesWhoAskedForItFirst(t *testing.T) {
	for name, test := range map[string]struct {
		leave   func(cancel func(), conn dragoman.Conn)
		lists   int
		headers string // of the calls
	}{
		"the caller leaves":        {func(cancel func(), _ dragoman.Conn) { cancel() }, 1, "eu eu"},
		"the conversation is over": {func(_ func(), conn dragoman.Conn) { _ = conn.Close() }, 2, " eu"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				list := make(chan struct{})
				s, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
					if k.what() != "tools/list" {
						replyTo(w, k, `{}`)
						return
					}
					select {
					case <-list:
						replyTo(w, k, `{"tools":[{"name":"echo","inputSchema":`+fmt.Sprintf(schema, "Region")+`}]}`)
					case <-k.Context().Done():
					}
				})
				client.NoToolList = false
				first, second := dialScript(t, client, nil), dialScript(t, client, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				left, answered := make(chan error, 1), make(chan error, 1)
				call := func(ctx context.Context, conn dragoman.Conn, done chan<- error) {
					_, err := conn.Call(ctx, peertest.Parse(t, modernTool), nil)
					done <- err
				}
				go call(ctx, first, left) // ends when it is told to leave
				synctest.Wait()
				go call(t.Context(), second, answered) // ends when the list is there
				synctest.Wait()
				test.leave(cancel, first)
				if err := <-left; !errors.Is(err, context.Canceled) && !errors.Is(err, dragoman.ErrClosed) {
					t.Errorf("who leaves gets %v", err)
				}
				synctest.Wait()
				close(list)
				if err := <-answered; err != nil {
					t.Error(err)
				}
				if call(t.Context(), second, answered); <-answered != nil {
					t.Error("the call afterwards fails")
				}
				var headers []string
				_, calls := s.taken("tools/call")
				for _, k := range calls {
					headers = append(headers, k.Header.Get("Mcp-Param-Region"))
				}
				_, lists := s.taken("tools/list")
				if got := strings.Join(headers, " "); got != test.headers || len(lists) != test.lists {
					t.Errorf("calls have the headers %q after %d lists, want %q after %d", got, len(lists), test.headers, test.lists)
				}
			})
		})
	}
}

// A tool whose header is not valid is left out of lists, with a warning.
func TestS15_ClientInvalidTools(t *testing.T) {
	var header atomic.Value
	header.Store("Region")
	_, c := serveScript(t, toolServer(&header, true))
	var log bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	conn := dialScript(t, c, nil)
	resp, err := conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`), nil)
	if err != nil || string(resp.Result()) != `{"tools":[{"name":"other"}],"nextCursor":"2"}` {
		t.Errorf("got %v, %v", resp, err)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "tool=bad") {
		t.Errorf("logged: %s", log.String())
	}
	// In the legacy era the annotation means nothing.
	resp, err = conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), nil)
	if err != nil || !strings.Contains(resp.String(), `"bad"`) {
		t.Errorf("got %v, %v", resp, err)
	}
}

// What a server does with one kind of request. It reports whether it did.
type does = func(w http.ResponseWriter, k *took) bool

func failsWith(status int, id, body string) does {
	return func(w http.ResponseWriter, k *took) bool {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, strings.ReplaceAll(id, "$", k.m.ID().String()), body)
		return true
	}
}

func says(status int) does {
	return func(w http.ResponseWriter, _ *took) bool { w.WriteHeader(status); return true }
}

func answersWith(result string) does {
	return func(w http.ResponseWriter, k *took) bool { replyTo(w, k, result); return true }
}

// What turns out wrong is forgotten.
func TestClientProbesAgain(t *testing.T) {
	var old atomic.Bool
	s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
		switch {
		case old.Load() && shakes(w, k, "2025-11-25"):
		case old.Load():
			w.WriteHeader(http.StatusBadRequest)
		default:
			replyTo(w, k, `{"supportedVersions":["2026-07-28"]}`)
		}
	})
	if v, err := c.Probe(t.Context()); err != nil || v.Era != protocol.Modern {
		t.Fatalf("got %v, %v", v, err)
	}
	old.Store(true)
	var e *protocol.StatusError
	if _, err := dialScript(t, c, nil).Call(t.Context(), peertest.Parse(t, modernTool), nil); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
	if v, err := c.Probe(t.Context()); err != nil || v.Era != protocol.Legacy {
		t.Errorf("got %v, %v", v, err)
	}
	if _, list := s.taken("server/discover"); len(list) != 2 {
		t.Errorf("%d probes", len(list))
	}
}
