package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The session id comes with the answer to initialize and goes with all
// that follows, the version where the revision wants it, and DELETE ends it.
func TestB12_D15_ClientKeepsAndSendsTheSessionId(t *testing.T) {
	for revision, version := range map[string]string{"2025-03-26": "", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
				if !shakes(w, k, revision) {
					w.Header().Set("Mcp-Session-Id", "another") // not for us to take
					replyTo(w, k, `{}`)
				}
			})
			c.Header = http.Header{"authorization": {"Bearer x"}}
			conn := dialScript(t, c, nil)
			shake(t, conn, revision)
			for range 2 {
				if _, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil); err != nil {
					t.Fatal(err)
				}
			}
			s.wait("GET")
			_ = conn.Close()
			all, _ := s.taken("")
			got := strings.Join(all, " ")
			if !strings.HasPrefix(got, "initialize notifications/initialized ") || !strings.HasSuffix(got, " DELETE") || !strings.Contains(got, "GET") {
				t.Errorf("requests: %s", got)
			}
			for i, k := range s.all {
				h, wantSession, wantVersion := k.Header, "s1", version
				if i == 0 {
					wantSession, wantVersion = "", ""
				}
				if h.Get("Mcp-Session-Id") != wantSession || h.Get("MCP-Protocol-Version") != wantVersion {
					t.Errorf("%s has session %q and version %q", k.what(), h.Get("Mcp-Session-Id"), h.Get("MCP-Protocol-Version"))
				}
				if k.Method == "POST" && (h.Get("Accept") != "application/json, text/event-stream" || h.Get("Content-Type") != "application/json") {
					t.Errorf("%s has Accept %q and Content-Type %q", k.what(), h.Get("Accept"), h.Get("Content-Type"))
				}
				if h.Get("Authorization") != "Bearer x" || h.Get("Mcp-Method") != "" {
					t.Errorf("%s has the headers %v", k.what(), h)
				}
			}
		})
	}
}

// The answer is JSON or the end of an event stream; what comes before
// it reaches the caller, with the caller's token and id.
func TestB06_D05_ClientTakesJSONAndStreams(t *testing.T) {
	note := func(k *took) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, k.m.Meta("progressToken"))
	}
	result := func(k *took) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"x":1.0}}`, k.m.ID()) }
	const told = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":1}}` + "\n"
	cases := []struct {
		name, revision string
		answer         func(w http.ResponseWriter, k *took)
		told           string
	}{
		{"JSON", "2025-11-25", func(w http.ResponseWriter, k *took) { replyTo(w, k, `{"x":1.0}`) }, ""},
		{"JSON with a charset", "2025-11-25", func(w http.ResponseWriter, k *took) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprint(w, result(k))
		}, ""},
		{"events", "2025-11-25", func(w http.ResponseWriter, k *took) {
			sendEvents(w, ": hello", "id: 1\nretry: 5\ndata:", oneEvent("2", note(k)), "event: ping\ndata: x", oneEvent("3", result(k)))
		}, told},
		{"events without the last blank line", "2025-06-18", func(w http.ResponseWriter, k *took) {
			sendEvents(w, "event: message\n"+oneEvent("", note(k)))
			fmt.Fprint(w, oneEvent("", result(k)))
		}, told},
		{"a malformed event is skipped", "2025-06-18", func(w http.ResponseWriter, k *took) {
			sendEvents(w, "data: {", oneEvent("", result(k)))
		}, ""},
		{"a batch", "2025-03-26", func(w http.ResponseWriter, k *took) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "[%s,%s]", result(k), note(k))
		}, told},
		{"a batch in an event", "2025-03-26", func(w http.ResponseWriter, k *took) {
			sendEvents(w, oneEvent("", "["+note(k)+","+result(k)+"]"))
		}, told},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, client := serveScript(t, func(w http.ResponseWriter, k *took) {
				if !shakes(w, k, c.revision) {
					c.answer(w, k)
				}
			})
			conn := dialScript(t, client, nil)
			shake(t, conn, c.revision)
			h := newHeard()
			resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), h)
			if err != nil || resp.ID().String() != `"\u0041"` || string(resp.Result()) != `{"x":1.0}` {
				t.Fatalf("got %v, %v", resp, err)
			}
			if h.all() != c.told {
				t.Errorf("the caller was told %q, want %q", h.all(), c.told)
			}
		})
	}
}

// failRPC refuses with an error of JSON-RPC. In its id, $ is that of the request.
func failRPC(status int, id, header string) func(w http.ResponseWriter, k *took) {
	return func(w http.ResponseWriter, k *took) {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, strings.ReplaceAll(id, "$", k.m.ID().String()))
	}
}

// says400 refuses in plain text.
func says400(text string) func(w http.ResponseWriter, k *took) {
	return func(w http.ResponseWriter, _ *took) { http.Error(w, text, http.StatusBadRequest) }
}

// What is no answer becomes an error that says why; what holds
// a JSON-RPC error is the answer, whatever its status.
func TestA15_D06_D16_D17_ClientTurnsRefusalsIntoErrors(t *testing.T) {
	cases := []struct {
		name   string
		answer func(w http.ResponseWriter, k *took)
		code   int    // of the answer
		text   string // in the Go error
	}{
		{"400 with our id", failRPC(400, "$", ""), -32601, ""},
		{"400 with a null id", failRPC(400, "null", ""), -32601, ""},
		{"404 with our id is no lost session", failRPC(404, "$", ""), -32601, ""},
		{"500 with our id", failRPC(500, "$", ""), -32601, ""},
		{"400 with the id of another", failRPC(400, "99", ""), 0, "400 Bad Request"},
		{"400 in the Go SDK's words for an unknown method", says400(`JSON RPC not handled: "tools/call" unsupported`), -32601, ""},
		{"400 about another method", says400(`JSON RPC not handled: "tools/list" unsupported`), 0, "400 Bad Request"},
		{"401 is about authorization, also with a body", failRPC(401, "$", "WWW-Authenticate: Bearer realm=x"), 0, "401 Unauthorized: no"},
		{"503", func(w http.ResponseWriter, _ *took) { w.WriteHeader(503) }, 0, "503 Service Unavailable"},
		{"302 to elsewhere", func(w http.ResponseWriter, k *took) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		}, 0, "307 Temporary Redirect"},
		{"302 makes a GET of a POST", func(w http.ResponseWriter, k *took) {
			w.Header().Set("Location", k.URL.Path)
			w.WriteHeader(302)
		}, 0, "302 Found"},
		{"an answer elsewhere, where there is nowhere else", func(w http.ResponseWriter, _ *took) { w.WriteHeader(202) }, 0, "no response received for request"},
		{"a stream without the answer", func(w http.ResponseWriter, _ *took) { sendEvents(w, "data: ") }, 0, "no response received for request"},
		{"JSON that is not the answer", func(w http.ResponseWriter, _ *took) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":99,"result":{}}`)
		}, 0, "no response received for request"},
		{"a body that breaks off", func(w http.ResponseWriter, _ *took) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"jsonrpc"`)
		}, 0, "no response received for request"},
		{"an answer that cannot be read", func(w http.ResponseWriter, k *took) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{},"Result":{}}`, k.m.ID())
		}, 0, "bad message"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, client := serveScript(t, func(w http.ResponseWriter, k *took) {
				if !shakes(w, k, "2025-11-25") {
					c.answer(w, k)
				}
			})
			conn := dialScript(t, client, nil)
			shake(t, conn, "2025-11-25")
			resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
			switch {
			case c.code != 0:
				if err != nil || !resp.IsError() || resp.RPCError().Code != c.code || resp.ID().String() != `"\u0041"` {
					t.Errorf("got %v, %v", resp, err)
				}
			case err == nil || !strings.Contains(err.Error(), c.text):
				t.Errorf("got %v, %v; want an error with %q", resp, err, c.text)
			}
			if conn.Err() != nil {
				t.Errorf("the conversation is over: %v", conn.Err())
			}
		})
	}
}

// A refusal carries status, text, hints and the time to wait.
func TestD16_ClientErrorCarriesStatusTextAndHints(t *testing.T) {
	_, client := serveScript(t, func(w http.ResponseWriter, _ *took) {
		w.Header().Add("WWW-Authenticate", `Bearer resource_metadata="https://x/"`)
		w.Header().Add("WWW-Authenticate", "Basic")
		w.Header().Set("Mcp-Auth-Server", "https://auth/")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(401)
		fmt.Fprint(w, strings.Repeat("x", 100<<10))
	})
	_, err := dialScript(t, client, nil).Call(t.Context(), peertest.Parse(t, modernTool), nil)
	var e *protocol.StatusError
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Status != 401 || len(e.Challenges) != 2 || e.AuthServer != "https://auth/" ||
		e.RetryAfter.Seconds() != 7 || len(e.Body) != 64<<10 {
		t.Errorf("got %+v with %d bytes", e, len(e.Body))
	}
}

// What is too large is refused, and the conversation continues.
func TestD14_ClientRefusesWhatIsTooLarge(t *testing.T) {
	large := strings.Repeat("x", 2000)
	var how string
	_, client := serveScript(t, func(w http.ResponseWriter, k *took) {
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"x":"%s"}}`, k.m.ID(), large)
		switch how {
		case "JSON":
			fmt.Fprint(w, text)
		case "chunks":
			fmt.Fprint(w, text[:100])
			_ = http.NewResponseController(w).Flush()
			fmt.Fprint(w, text[100:])
		case "event":
			sendEvents(w, oneEvent("", text))
		default:
			replyTo(w, k, `{}`)
		}
	})
	client.MaxMessage = 900
	conn := dialScript(t, client, nil)
	for _, how = range []string{"JSON", "chunks", "event"} {
		if resp, err := conn.Call(t.Context(), peertest.Parse(t, modernTool), nil); !errors.Is(err, dragoman.ErrTooLarge) {
			t.Errorf("%s: got %v, %v", how, resp, err)
		}
	}
	how = ""
	if _, err := conn.Call(t.Context(), peertest.Parse(t, strings.Replace(modernTool, "eu", large, 1)), nil); !errors.Is(err, dragoman.ErrTooLarge) {
		t.Errorf("a large request: %v", err)
	}
	if _, err := conn.Call(t.Context(), peertest.Parse(t, modernTool), nil); err != nil {
		t.Error(err)
	}
}

// A cancelled call of the modern era is an HTTP request that is dropped.
func TestD10_ClientDropsACancelledModernRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s, client := serveScript(t, func(w http.ResponseWriter, k *took) {
		sendEvents(w, ": ok")
		close(began)
		<-k.Context().Done()
		close(ended)
	})
	conn := dialScript(t, client, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() { <-began; cancel(why) }()
	if _, err := conn.Call(ctx, peertest.Parse(t, modernTool), nil); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	<-ended
	_ = conn.Close()
	if all, _ := s.taken(""); len(all) != 1 {
		t.Errorf("requests: %v", all)
	}
}
