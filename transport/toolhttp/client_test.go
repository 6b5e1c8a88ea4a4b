package toolhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

// dialHandler returns a conversation of c with a server that is just a handler.
func dialHandler(t *testing.T, c *toolhttp.Client, h http.HandlerFunc) dragoman.Conn {
	t.Helper()
	peertest.NoLeak(t)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	if c == nil {
		c = &toolhttp.Client{}
	}
	c.URL = server.URL + "/call"
	return dial(t, c)
}

func dial(t *testing.T, c *toolhttp.Client) dragoman.Conn {
	t.Helper()
	conn, err := c.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// respond is a handler that answers every request with this.
func respond(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// callTool makes a call with the id "x" that must have an answer.
func callTool(t *testing.T, conn dragoman.Conn, from dragoman.Peer, meta string) *dragoman.Message {
	t.Helper()
	req := peertest.Parse(t, []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t"`+meta+`}}`))
	resp, err := conn.Call(t.Context(), req, from)
	if err != nil {
		t.Fatalf("Call: %v", err)
	}
	if resp.ID() != req.ID() {
		t.Errorf("the answer has the id %v: %s", resp.ID(), resp)
	}
	return resp
}

// wantLocal fails the test unless an answer is an error that says that it is our
// own.
func wantLocal(t *testing.T, resp *dragoman.Message, code int, outcome, message string) {
	t.Helper()
	if err := protocol.CheckToolError(resp); err != nil {
		t.Fatalf("%v: %s", err, resp)
	}
	e := resp.RPCError()
	var data struct{ Source, Outcome string }
	if json.Unmarshal(e.Data, &data) != nil || data.Source != "gateway" || data.Outcome != outcome {
		t.Errorf("data is %s, want the outcome %s of the gateway", e.Data, outcome)
	}
	if e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("the error is %d %q, want %d and %q in it", e.Code, e.Message, code, message)
	}
}

const (
	events = "text/event-stream"
	good   = `{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"good"}]}}`
)

func TestA14_ClientPostsJSONWithCustomHeaders(t *testing.T) {
	var got *http.Request
	var body []byte
	conn := dialHandler(t, &toolhttp.Client{Header: http.Header{"X-Key": {"secret"}, "accept": {"text/html"}}}, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		respond(200, plainJSON, good)(w, r)
	})
	if textOf(t, callTool(t, conn, nil, `,"arguments":{"a":1.0}`)) != "good" {
		t.Error("the answer is another")
	}
	if got.Method != "POST" || got.URL.Path != "/call" || got.Header.Get("Content-Type") != plainJSON ||
		got.Header.Get("X-Key") != "secret" || got.Header.Get("Accept") != plainJSON || got.Header.Get("Accept-Encoding") != "" {
		t.Errorf("the request is %s %s with %v", got.Method, got.URL, got.Header)
	}
	if want := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"t","arguments":{"a":1.0}}}`; string(body) != want {
		t.Errorf("the body is %s", body)
	}
}

func TestA02_A15_AnswersAsJSON(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       string // content
	}{
		{"as it is", good, `[{"type":"text","text":"good"}]`},
		{"another spelling of the id", `{"jsonrpc":"2.0","id":"\u0078","result":{"content":[{"type":"text","text":"good"}]}}`, `[{"type":"text","text":"good"}]`},
		{"empty content", `{"jsonrpc":"2.0","id":"x","result":{"content":[ ]}}`, `[{"type":"text","text":""}]`},
		{"not complete", `{"jsonrpc":"2.0","id":"x","result":{"resultType":"input_required"}}`, ``},
	} {
		conn := dialHandler(t, nil, respond(200, "application/json; charset=utf-8", test.body))
		if got := string(callTool(t, conn, nil, "").Get("content")); got != test.want {
			t.Errorf("%s: content is %s, want %s", test.name, got, test.want)
		}
	}
}

func TestA03_A15_ErrorsOfTheServerPass(t *testing.T) {
	for _, id := range []string{`"x"`, `null`} {
		for _, status := range []int{200, 400, 404, 500, 503} {
			conn := dialHandler(t, nil, respond(status, plainJSON, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32602,"message":"no such tool","data":{"n":1.0}}}`))
			e := callTool(t, conn, nil, "").RPCError()
			if e == nil || e.Code != -32602 || e.Message != "no such tool" || string(e.Data) != `{"n":1.0}` {
				t.Errorf("status %d: the error is %v", status, e)
			}
		}
	}
}

func TestA15_WithoutAToolErrorTheClientMakesOne(t *testing.T) {
	const unreadable = "cannot be read"
	for _, test := range []struct {
		name          string
		status        int
		kind, body    string
		code          int
		outcome, text string
	}{
		{"a page", 404, "text/html", "<html>", protocol.CodeUnavailable, "not_sent", "the server answers 404 Not Found"},
		{"text", 401, "text/plain", "who\nare you?", protocol.CodeUnavailable, "not_sent", "401 Unauthorized: who are you?"},
		{"long text", 403, "text/plain", strings.Repeat("é", 500), protocol.CodeUnavailable, "not_sent", "é…"},
		{"other JSON", 400, plainJSON, `{"error":"bad"}`, protocol.CodeUnavailable, "not_sent", `400 Bad Request: {"error":"bad"}`},
		{"another's error", 400, plainJSON, `{"jsonrpc":"2.0","id":"y","error":{"code":1,"message":"m"}}`, protocol.CodeUnavailable, "not_sent", "400"},
		{"too many", 429, "text/plain", "", protocol.CodeOverloaded, "not_sent", "429"},
		{"fault", 500, "text/plain", "oops", protocol.CodeLost, "unknown", "500 Internal Server Error: oops"},
		{"bad gateway", 502, "text/plain", "", protocol.CodeLost, "unknown", "502"},
		{"unavailable", 503, "text/plain", "", protocol.CodeOverloaded, "not_sent", "503"},
		{"timeout", 504, "text/plain", "", protocol.CodeTimeout, "unknown", "504"},
		{"nothing", 200, plainJSON, "", protocol.CodeLost, "unknown", unreadable},
		{"accepted", 202, plainJSON, "", protocol.CodeLost, "unknown", unreadable},
		{"not JSON", 200, plainJSON, "<html>", protocol.CodeLost, "unknown", unreadable},
		{"a request", 200, plainJSON, `{"jsonrpc":"2.0","id":"x","method":"m"}`, protocol.CodeLost, "unknown", unreadable},
		{"another's answer", 200, plainJSON, strings.Replace(good, `"x"`, `"y"`, 1), protocol.CodeLost, "unknown", unreadable},
		{"no tool response", 200, plainJSON, `{"jsonrpc":"2.0","id":"x","result":{"content":[7]}}`, protocol.CodeLost, "unknown", "no tool response"},
		{"too large", 200, plainJSON, `{"jsonrpc":"2.0","id":"x","result":{"x":"` + strings.Repeat("x", 2000) + `"}}`, protocol.CodeTooLarge, "unknown", "larger than the limit"},
		{"A24 empty stream", 200, events, "", protocol.CodeLost, "unknown", "no response received for request"},
		{"A24 stream that ends early", 200, events, "event: result\ndata: {\"content\":[]}\n\n: heartbeat\n\n", protocol.CodeLost, "unknown", "no response received for request"},
		{"A24 stream with a broken answer", 200, events, "event: complete\ndata: {\"content\":\n\n", protocol.CodeLost, "unknown", unreadable},
		{"A24 stream with another's answer", 200, events, "event: complete\ndata: " + strings.Replace(good, `"x"`, `"y"`, 1) + "\n\n", protocol.CodeLost, "unknown", unreadable},
		{"A24 stream with a broken error", 200, events, "event: error\ndata: {}\n\n", protocol.CodeLost, "unknown", unreadable},
		{"A24 stream with a result for an error", 200, events, "event: error\ndata: " + good + "\n\n", protocol.CodeLost, "unknown", unreadable},
		{"A24 stream with an event that is too large", 200, events, "event: result\ndata: {\"x\":\"" + strings.Repeat("x", 3000) + "\"}\n\n", protocol.CodeTooLarge, "unknown", "larger than the limit"},
		{"A24 fragments that are too much together", 200, events, strings.Repeat("event: result\ndata: {\"content\":[{\"type\":\"text\",\"text\":\""+strings.Repeat("x", 500)+"\"}]}\n\n", 3) +
			"event: complete\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}\n\n", protocol.CodeTooLarge, "unknown", "larger than the limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := dialHandler(t, &toolhttp.Client{MaxMessage: 1000}, respond(test.status, test.kind, test.body))
			resp := callTool(t, conn, nil, "")
			wantLocal(t, resp, test.code, test.outcome, test.text)
			if test.status != 200 && test.status != 202 && !strings.Contains(string(resp.RPCError().Data), fmt.Sprintf(`"status":%d`, test.status)) {
				t.Errorf("data is %s", resp.RPCError().Data)
			}
		})
	}
}

func TestServerThatCannotBeReachedIsASyntheticError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	conn := dial(t, &toolhttp.Client{URL: "http://user:secret@" + l.Addr().String()})
	resp := callTool(t, conn, nil, "")
	wantLocal(t, resp, protocol.CodeUnavailable, "not_sent", "cannot be reached")
	if strings.Contains(resp.String(), "secret") {
		t.Errorf("the error tells the password: %s", resp)
	}
	broken := dialHandler(t, nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	wantLocal(t, callTool(t, broken, nil, ""), protocol.CodeLost, "unknown", "no response received for request")
}

func TestA23_FragmentsAreReassembled(t *testing.T) {
	text := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	event := func(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
	for _, test := range []struct {
		name, stream string
		want         string // result
	}{
		{"complete replaces everything",
			event("result", `{"content":[`+text("part")+`],"structuredContent":{"a":1}}`) + event("complete", good),
			`{"content":[` + text("good") + `]}`},
		{"complete without content gets the fragments",
			event("result", `{"content":[`+text("a")+`,`+text("b")+`],"structuredContent":{"n":1}}`) + ": heartbeat\n\n" +
				event("result", `{"content":[`+text("c")+`],"structuredContent":{"n":2},"_meta":{"progress":1}}`) +
				event("complete", `{"jsonrpc":"2.0","id":"x","result":{"x":1.0}}`),
			`{"content":[` + text("a") + `,` + text("b") + `,` + text("c") + `],"structuredContent":{"n":2},"x":1.0}`},
		{"complete with empty content gets them too",
			event("result", `{"content":[`+text("a")+`]}`) + event("complete", `{"jsonrpc":"2.0","id":"x","result":{"content":[],"isError":true}}`),
			`{"content":[` + text("a") + `],"isError":true}`},
		{"members of fragments keep their order",
			event("result", `{"f":1,"e":2,"d":3,"c":4,"b":5,"a":6}`) + event("result", `{"b":7,"0":8}`) +
				event("complete", `{"jsonrpc":"2.0","id":"x","result":{"content":[]}}`),
			`{"f":1,"e":2,"d":3,"c":4,"b":7,"a":6,"0":8,"content":[` + text("") + `]}`},
		{"fragments that are none are passed over",
			event("result", `7`) + event("result", `{`) + event("result", `{},"error":{}`) + event("strange", `{"content":[`+text("x")+`]}`) +
				event("result", `{"content":[`+text("a")+`]}`) + event("complete", `{"jsonrpc":"2.0","id":"x","result":{}}`),
			`{"content":[` + text("a") + `]}`},
		{"no fragments", event("complete", `{"jsonrpc":"2.0","id":"x","result":{}}`), `{"content":[` + text("") + `]}`},
		{"an answer as MCP has it", event("message", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`) + "data: " + good + "\n\n", `{"content":[` + text("good") + `]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := dialHandler(t, nil, respond(200, events, test.stream))
			if got := string(callTool(t, conn, nil, "").Result()); got != test.want {
				t.Errorf("the result is %s, want %s", got, test.want)
			}
		})
	}
	conn := dialHandler(t, nil, respond(200, events, event("result", `{"content":[`+text("a")+`]}`)+
		event("error", `{"jsonrpc":"2.0","id":"x","error":{"code":7,"message":"half way"}}`)))
	if e := callTool(t, conn, nil, "").RPCError(); e == nil || e.Code != 7 || e.Message != "half way" {
		t.Errorf("the error is %v", e)
	}
}

func TestFragmentsBecomeProgress(t *testing.T) {
	const image = `{"type":"image","data":"AA==","mimeType":"image/png"}`
	stream := "event: result\ndata: {\"content\":[{\"type\":\"text\",\"text\":\"one\"}],\"_meta\":{\"progress\":10,\"total\":20}}\n\n" +
		"event: result\ndata: {\"content\":[" + image + "]}\n\n" +
		"event: complete\ndata: " + good + "\n\n"
	conn := dialHandler(t, nil, respond(200, events, stream))
	var heard []string
	from := dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		heard = append(heard, string(note.Params()))
		return nil
	}}
	callTool(t, conn, from, `,"_meta":{"progressToken":"tok"}`)
	want := []string{
		`{"message":"one","progress":10,"progressToken":"tok","total":20}`,
		`{"content":[` + image + `],"progress":2,"progressToken":"tok"}`,
	}
	if fmt.Sprint(heard) != fmt.Sprint(want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	heard = nil
	callTool(t, conn, from, ``)
	callTool(t, conn, nil, `,"_meta":{"progressToken":"tok"}`)
	if heard != nil {
		t.Errorf("heard %q without a token", heard)
	}
}

func TestA23_ProgressPassesThroughClientAndServer(t *testing.T) {
	peertest.NoLeak(t)
	conn := dialServer(t, nil, &toolhttp.Server{Requests: builtin.New(nil).Requests()}, &toolhttp.Client{Stream: true})
	var heard []string
	from := dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		heard = append(heard, string(note.Get("message")))
		return nil
	}}
	req := peertest.Parse(t, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ms":10,"steps":2},"_meta":{"progressToken":7}}}`))
	resp, err := conn.Call(t.Context(), req, from)
	if err != nil || textOf(t, resp) != "Took 10 ms in 2 steps." || fmt.Sprint(heard) != `["step 1 of 2" "step 2 of 2"]` {
		t.Errorf("heard %v, then %v, %v", heard, resp, err)
	}
}

func TestA16_A24_A31_CallThatTakesTooLongIsAbortedAndAnswered(t *testing.T) {
	for _, kind := range []string{"no answer", "stream", "trickle"} {
		gone := make(chan struct{})
		conn := dialHandler(t, &toolhttp.Client{Timeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			_, _ = io.Copy(io.Discard, r.Body)
			if kind != "no answer" {
				w.Header().Set("Content-Type", map[string]string{"stream": events, "trickle": plainJSON}[kind])
				_, _ = io.WriteString(w, map[string]string{"stream": "event: result\ndata: {\"content\":[]}\n\n", "trickle": "{"}[kind])
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
		wantLocal(t, callTool(t, conn, nil, ""), protocol.CodeTimeout, "unknown", "in time")
		peertest.Receive(t, gone, "the server sees that the client has left: "+kind)
	}
}

func TestA31_CallIsSentOnceAndHasThirtySecondsByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := memnet.Listen()
		var sent atomic.Int64
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch sent.Add(1) {
			case 1:
				respond(200, plainJSON, good)(w, r)
			case 2: // on a connection that has been used, so that net/http could send the request again
				panic(http.ErrAbortHandler)
			default:
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}
		})}
		go func() { _ = server.Serve(network) }() // ends with server.Close
		transport := &http.Transport{DialContext: network.DialContext}
		conn := dial(t, &toolhttp.Client{URL: "http://localhost/call", HTTP: &http.Client{Transport: transport}})
		callTool(t, conn, nil, "")
		wantLocal(t, callTool(t, conn, nil, ""), protocol.CodeLost, "unknown", "no response received for request")
		began := time.Now()
		wantLocal(t, callTool(t, conn, nil, ""), protocol.CodeTimeout, "unknown", "in time")
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("the call ended after %v, want 30 s", took)
		}
		time.Sleep(time.Hour) // in which it could be sent again
		if n := sent.Load(); n != 3 {
			t.Errorf("3 calls were sent %d times", n)
		}
		transport.CloseIdleConnections()
		_ = server.Close()
		time.Sleep(time.Minute) // net/http lingers for a moment when it has closed
	})
}

func TestCallersOwnDeadlineIsAGoError(t *testing.T) {
	conn := dialHandler(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	why := errors.New("no time")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, why)
	defer cancel()
	if resp, err := conn.Call(ctx, peertest.Parse(t, []byte(request(`1`, "t", `{}`))), nil); !errors.Is(err, why) {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestA17_ManyCallsUseOneConnection(t *testing.T) {
	for _, stream := range []bool{false, true} {
		peertest.NoLeak(t)
		var opened atomic.Int32
		server := httptest.NewUnstartedServer(mount(&toolhttp.Server{Requests: builtin.New(nil).Requests()}))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		conn := dial(t, &toolhttp.Client{URL: server.URL + "/call", Stream: stream})
		for i := range 50 {
			for _, tool := range []string{"echo", "nothing"} {
				req := peertest.Parse(t, []byte(request(itoa(i), tool, `{"text":"x"}`)))
				if resp, err := conn.Call(t.Context(), req, nil); err != nil || resp.IsError() != (tool == "nothing") {
					t.Fatalf("call %d: %v, %v", i, resp, err)
				}
			}
		}
		if n := opened.Load(); n != 1 {
			t.Errorf("stream %t: 100 calls used %d connections", stream, n)
		}
	}
}

func TestA19_CertificatesAreVerified(t *testing.T) {
	peertest.NoLeak(t)
	server := httptest.NewUnstartedServer(mount(&toolhttp.Server{Requests: builtin.New(nil).Requests()}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of us
	server.StartTLS()
	t.Cleanup(server.Close)
	req := peertest.Parse(t, []byte(request(`1`, "echo", `{"text":"safe"}`)))

	conn := dial(t, &toolhttp.Client{URL: server.URL + "/call"})
	resp, err := conn.Call(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLocal(t, resp, protocol.CodeUnavailable, "not_sent", "certificate")

	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	conn = dial(t, &toolhttp.Client{URL: server.URL + "/call", HTTP: &http.Client{Transport: transport}})
	if resp, err := conn.Call(t.Context(), req, nil); err != nil || textOf(t, resp) != "safe" {
		t.Errorf("a known authority: %v, %v", resp, err)
	}
}

func TestRedirectsStayOnTheOrigin(t *testing.T) {
	stolen := make(chan string, 8)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen <- r.Header.Get("X-Key")
		respond(200, plainJSON, good)(w, r)
	}))
	defer other.Close()
	for _, test := range []struct {
		status int
		to     string
		ok     bool
	}{{307, "/there", true}, {308, "/there", true}, {302, "/there", false}, {307, other.URL, false}, {308, other.URL, false}} {
		conn := dialHandler(t, &toolhttp.Client{Header: http.Header{"X-Key": {"secret"}}}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/there" {
				respond(200, plainJSON, good)(w, r)
				return
			}
			http.Redirect(w, r, test.to, test.status)
		})
		resp := callTool(t, conn, nil, "")
		if test.ok != !resp.IsError() {
			t.Errorf("%d to %s: %s", test.status, test.to, resp)
		}
		if !test.ok {
			wantLocal(t, resp, protocol.CodeUnavailable, "not_sent", itoa(test.status))
		}
	}
	if len(stolen) > 0 {
		t.Errorf("the other origin was told %q", <-stolen)
	}
}

func TestS21_CompressedAnswerIsBounded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write([]byte(`{"jsonrpc":"2.0","id":"x","result":{"x":"`))
	_, _ = z.Write(bytes.Repeat([]byte("x"), 4<<20))
	_ = z.Close()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	// A client of somebody else's making inflates by itself.
	conn := dialHandler(t, &toolhttp.Client{MaxMessage: 64 << 10, HTTP: &http.Client{Transport: transport}}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", plainJSON)
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	wantLocal(t, callTool(t, conn, nil, ""), protocol.CodeTooLarge, "unknown", "larger than the limit")
	transport.CloseIdleConnections()
}

func TestClientListsToolsAndKnowsNoOtherMethods(t *testing.T) {
	peertest.NoLeak(t)
	conn := dialServer(t, nil, &toolhttp.Server{Requests: builtin.New(nil).Requests()}, &toolhttp.Client{})
	call := func(text string) *dragoman.Message {
		t.Helper()
		resp, err := conn.Call(t.Context(), peertest.Parse(t, []byte(text)), nil)
		if err != nil || resp.ID().String() != `"x"` {
			t.Fatalf("%v, %v", resp, err)
		}
		return resp
	}
	list := call(`{"jsonrpc":"2.0","id":"x","method":"tools/list"}`)
	if !strings.HasPrefix(string(list.Get("tools")), `[{`) || list.Get("resultType") != nil {
		t.Errorf("the list is %s", list)
	}
	list = call(`{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"_meta":{"` + protocol.MetaProtocolVersion + `":"2026-07-28"}}}`)
	if string(list.Get("resultType")) != `"complete"` || string(list.Get("cacheScope")) != `"private"` || string(list.Get("ttlMs")) != `0` {
		t.Errorf("the list of the modern era is %s", list)
	}
	if e := call(`{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{"cursor":"1"}}`).RPCError(); e == nil || e.Code != protocol.CodeInvalidParams {
		t.Errorf("a cursor got %v", e)
	}
	for _, method := range []string{"initialize", "ping", "server/discover", "resources/list"} {
		if e := call(`{"jsonrpc":"2.0","id":"x","method":"` + method + `","params":{}}`).RPCError(); e == nil || e.Code != protocol.CodeMethodNotFound {
			t.Errorf("%s got %v", method, e)
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"a page": respond(200, "text/html", "<html>"), "other JSON": respond(200, plainJSON, `{"a":1}`), "two values": respond(200, plainJSON, `{"tools":[]},"x":1`),
	} {
		bad := dialHandler(t, nil, h)
		resp, err := bad.Call(t.Context(), peertest.Parse(t, []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/list"}`)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { wantLocal(t, resp, protocol.CodeLost, "unknown", "cannot be read") })
	}
}

func TestRequestThatIsTooLargeIsNotSent(t *testing.T) {
	conn := dialHandler(t, &toolhttp.Client{MaxMessage: 100}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	req := peertest.Parse(t, []byte(request(`1`, "t", `{"x":"`+strings.Repeat("x", 100)+`"}`)))
	if resp, err := conn.Call(t.Context(), req, nil); !errors.Is(err, dragoman.ErrTooLarge) {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestCallsBeyondTheLimitAreNotSent(t *testing.T) {
	let := make(chan struct{})
	conn := dialHandler(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-let
		respond(200, plainJSON, strings.Replace(good, `"x"`, `1`, 1))(w, r)
	})
	req := peertest.Parse(t, []byte(request(`1`, "t", `{}`)))
	failed := make(chan error, toolhttp.MaxCalls+1)
	for range toolhttp.MaxCalls + 1 {
		go func() { // ends when let is closed
			_, err := conn.Call(t.Context(), req, nil)
			failed <- err
		}()
	}
	if err := peertest.Receive(t, failed, "one call fails"); !errors.Is(err, dragoman.ErrOverloaded) {
		t.Errorf("the first to return is %v, want ErrOverloaded", err)
	}
	close(let)
	for range toolhttp.MaxCalls {
		if err := peertest.Receive(t, failed, "the others are answered"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClientNeedsAURL(t *testing.T) {
	for _, url := range []string{"", "ftp://localhost", "http://", "http://a b/\x00", "/call"} {
		if conn, err := (&toolhttp.Client{URL: url}).Dial(t.Context(), nil); err == nil {
			t.Errorf("%q: %v", url, conn)
		} else if !strings.HasPrefix(err.Error(), "toolhttp: ") {
			t.Errorf("%q: %v", url, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrNoProgress)
	if _, err := (&toolhttp.Client{URL: "http://localhost"}).Dial(ctx, nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("an ended context: %v", err)
	}
}
