package check_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/inspect/check"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/testkit/badserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A request is what a test's server needs to know of a message.
type request struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	conn   net.Conn // that it came by, of a socket
}

// result returns an answer to the request.
func (r *request) result(text string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, text)
}

// serving is a server whose answers are those of one without a defect, but for what change says;
// it returns nil for those that are not changed, and is called by one goroutine at a time.
func serving(t *testing.T, change func(*request) []byte) *target.Spec {
	t.Helper()
	var mu sync.Mutex
	return accepting(t, func(conn net.Conn) {
		for lines := bufio.NewReader(conn); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			r := request{conn: conn}
			_ = json.Unmarshal(line, &r) // what is no JSON is none
			mu.Lock()
			answer := change(&r)
			mu.Unlock()
			if answer == nil {
				answer = badserver.Answer(line)
			}
			if len(answer) > 0 {
				_, _ = conn.Write(append(answer, '\n'))
			}
		}
	})
}

// accepting is a server that is a function of each connection, which is closed with the test.
func accepting(t *testing.T, serve func(net.Conn)) *target.Spec {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		_ = l.Close()
		running.Wait()
	})
	running.Go(func() { // until the listener is closed
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			running.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	return &target.Spec{URL: "tcp:" + l.Addr().String()}
}

// changed is a server without a defect behind HTTP, but for what change answers; it returns false
// for what it does not.
func changed(t *testing.T, defect badserver.Defect, change func(http.ResponseWriter, *http.Request, *request) bool) *target.Spec {
	t.Helper()
	inner := badserver.Handler(defect)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut is no JSON
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		var m request
		_ = json.Unmarshal(body, &m) // as above
		if !change(w, r, &m) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return &target.Spec{URL: server.URL + "/mcp"}
}

// withSchema is a server with one tool that takes what a schema says.
func withSchema(t *testing.T, schema string) *target.Spec {
	t.Helper()
	return serving(t, func(r *request) []byte {
		if r.Method != protocol.MethodListTools {
			return nil
		}
		return r.result(`{"tools":[{"name":"one","description":"Does nothing.","inputSchema":` + schema + `}],"resultType":"complete","ttlMs":0,"cacheScope":"public"}`)
	})
}

// chain is a schema in which each definition refers to the next one.
func chain(n int, last string) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"first":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"type":"object","properties":{"next":{"$ref":"#/$defs/d%d"}}},`, i, i+1)
	}
	fmt.Fprintf(&b, `"d%d":%s}}`, n, last)
	return b.String()
}

func TestALongChainOfReferencesIsFollowedInNoTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		schema string
		want   []string
	}{
		"with an end":    {chain(600, `{"type":"string"}`), nil},
		"without an end": {chain(600, `{"$ref":"#/$defs/d0"}`), []string{"tool-schema-recursive"}},
		"too long":       {chain(5000, `{"type":"string"}`), []string{"tool-schema-valid", "tools-size"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(withSchema(t, test.schema))
			o.Only = []string{"tool*"}
			if !slices.Contains(test.want, "tools-size") {
				o.Ignore = []string{"tools-size"}
			}
			expect(t, o, test.want...)
		})
	}
}

func TestReferencesThatLeadSomewhereAreNoFindings(t *testing.T) {
	for name, test := range map[string]struct {
		schema string
		want   []string
	}{
		"percent-encoded":       {`{"type":"object","properties":{"a":{"$ref":"#/$defs/Record%3Cstring%3E"}},"$defs":{"Record<string>":{"type":"object"}}}`, nil},
		"a percent sign":        {`{"type":"object","properties":{"a":{"$ref":"#/$defs/100%25"}},"$defs":{"100%":{"type":"object"}}}`, nil},
		"escaped":               {`{"type":"object","properties":{"a":{"$ref":"#/$defs/a~1b"}},"$defs":{"a/b":{"type":"object"}}}`, nil},
		"an embedded $id":       {`{"type":"object","properties":{"a":{"$ref":"item.json"}},"$defs":{"item":{"$id":"item.json","type":"object"}}}`, nil},
		"inside an embedded id": {`{"type":"object","properties":{"a":{"$ref":"https://example.com/item#/$defs/x"}},"$defs":{"item":{"$id":"https://example.com/item","type":"object","$defs":{"x":{"type":"string"}}}}}`, nil},
		"its own $id":           {`{"$id":"https://example.com/own","type":"object","properties":{"a":{"$ref":"own#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`, nil},
		"nowhere":               {`{"type":"object","properties":{"a":{"$ref":"#/$defs/Record%3Cnumber%3E"}},"$defs":{"Record<string>":{"type":"object"}}}`, []string{"tool-schema-ref"}},
		"another document":      {`{"type":"object","properties":{"a":{"$ref":"https://example.com/other"}},"$defs":{"item":{"$id":"https://example.com/item"}}}`, []string{"tool-schema-ref"}},
		"back, by an $id":       {`{"type":"object","properties":{"a":{"$ref":"item.json"}},"$defs":{"item":{"$id":"item.json","type":"object","properties":{"b":{"$ref":"#"}}}}}`, []string{"tool-schema-recursive"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(withSchema(t, test.schema))
			o.Only = []string{"tool-schema-*"}
			expect(t, o, test.want...)
		})
	}
}

// text returns what a report says of a rule.
func text(r *check.Report, rule string) (says string) {
	for _, x := range r.Results {
		if x.ID == rule {
			says = x.Reason
			for _, f := range x.Findings {
				says += f.Text + "\n"
			}
		}
	}
	return says
}

func TestAServerThatAsksAndDoesNotReadIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o := impatient(options(accepting(t, func(conn net.Conn) {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"pad":"%s"}}`+"\n", i, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	})))
	_, err := check.Run(ctx, o)
	if _, unreached := errors.AsType[*check.UnreachedError](err); !unreached || ctx.Err() != nil {
		t.Errorf("error %v", err)
	}
}

func TestArgumentsThatTheServerDoesNotReadAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o := options(badserver.Command(t, badserver.ReadsShort))
	o.Timeout, o.Grace = brief, brief
	o.Smoke, o.Call, o.Arguments = true, "echo", json.RawMessage(`{"text":"`+strings.Repeat("x", 256<<10)+`"}`)
	r, err := check.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if says := text(r, "smoke-tools-call"); !strings.Contains(says, "does not read") {
		t.Errorf("it is said: %s", says)
	}
}

func TestAFloodIsAFinding(t *testing.T) {
	t.Parallel()
	note := []byte(`{"jsonrpc":"2.0","method":"notifications/progress"}` + "\n")
	o := options(serving(t, func(got *request) []byte {
		if got.Method != protocol.MethodPing {
			return nil
		}
		return append(bytes.Repeat(note, 10_001), got.result("{}")...)
	}))
	o.Only = []string{"ping", "rpc-flood"}
	expect(t, o, "ping", "rpc-flood")
}

func TestANotificationMayBeRefusedWithAnErrorThatNamesNoRequest(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", `"id":null,`} {
		o := options(changed(t, badserver.None, func(w http.ResponseWriter, _ *http.Request, m *request) bool {
			if m.Method != "notifications/dragoman" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0",%s"error":{"code":-32601,"message":"unknown"}}`, id)
			return true
		}))
		o.Only = []string{"rpc-*"}
		expect(t, o)
	}
}

func TestOlderRevisionsMayRefuseAForeignOriginWithAnyStatus(t *testing.T) {
	for revision, want := range map[string]string{"2025-06-18": "http-origin-status", "2025-11-25": "http-origin"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			o := options(changed(t, badserver.LegacyOnly, func(w http.ResponseWriter, r *http.Request, m *request) bool {
				switch {
				case r.Header.Get("Origin") != "":
					http.Error(w, "who are you?", http.StatusBadRequest)
				case m.Method == protocol.MethodInitialize:
					w.Header().Set("Content-Type", "application/json")
					_, _ = w.Write(m.result(`{"protocolVersion":"` + revision + `","capabilities":{},"serverInfo":{"name":"old","version":"1"}}`))
				default:
					return false
				}
				return true
			}))
			o.Only = []string{"http-origin*"}
			expect(t, o, want)
		})
	}
}

func TestAnswersThatAreSwappedAreFound(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	waiting := map[string]chan string{}
	o := options(changed(t, badserver.None, func(w http.ResponseWriter, _ *http.Request, m *request) bool {
		if !strings.HasPrefix(string(m.ID), `"crowd-`) {
			return false
		}
		number := m.ID[7] - '0'
		mu.Lock()
		for _, n := range []byte{number, number ^ 1} {
			if waiting[string(n)] == nil {
				waiting[string(n)] = make(chan string, 1)
			}
		}
		mine, theirs := waiting[string(number)], waiting[string(number^1)]
		mu.Unlock()
		theirs <- string(m.ID)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, <-mine)
		return true
	}))
	o.Only = []string{"rpc-concurrent", "rpc-id"}
	expect(t, o, "rpc-concurrent", "rpc-id")
}

func TestWhatRulesPromiseIsLookedAt(t *testing.T) {
	const hello = `{"protocolVersion":"%s","capabilities":{"logging":{}},"serverInfo":{"name":"one","version":"1"}}`
	for rule, change := range map[string]func(*request) []byte{
		"ping": func(r *request) []byte {
			if r.Method == protocol.MethodPing {
				return r.result(`{"status":"ok"}`)
			}
			return nil
		},
		"init-result": func(r *request) []byte {
			if r.Method == protocol.MethodInitialize {
				return r.result(fmt.Sprintf(hello, "banana"))
			}
			return nil
		},
		"init-version": func(r *request) []byte {
			if r.Method == protocol.MethodInitialize && strings.Contains(string(r.Params), "1999-01-01") {
				return r.result(fmt.Sprintf(hello, "banana"))
			}
			return nil
		},
		"log-level": func(r *request) []byte {
			if r.Method == protocol.MethodSetLevel {
				return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no"}}`, r.ID)
			}
			return nil
		},
		"modern-result-type": func(r *request) []byte {
			if r.Method == protocol.MethodListTools {
				return r.result(`{"tools":[],"resultType":"banana","ttlMs":0,"cacheScope":"public"}`)
			}
			return nil
		},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			o := options(serving(t, change))
			o.Only = []string{rule}
			expect(t, o, rule)
		})
	}
}

func TestASessionThatWasDeletedGets404(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	deleted := map[string]bool{}
	o := options(changed(t, badserver.None, func(w http.ResponseWriter, r *http.Request, _ *request) bool {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get(protocol.HeaderSession)
		if deleted[id] {
			http.Error(w, "it is gone", http.StatusBadRequest)
			return true
		}
		deleted[id] = r.Method == http.MethodDelete
		return false
	}))
	o.Only = []string{"http-delete"}
	expect(t, o, "http-delete")
}

func TestWhyAServerIsNotReachedIsSaid(t *testing.T) {
	t.Parallel()
	for status, want := range map[int][]string{
		http.StatusInternalServerError: {"database is down"},
		http.StatusNotFound:            {"Streamable HTTP:", "404", "database is down", "HTTP+SSE:", "405"},
	} {
		_, err := check.Run(t.Context(), options(changed(t, badserver.None, func(w http.ResponseWriter, r *http.Request, _ *request) bool {
			if r.Method == http.MethodPost {
				http.Error(w, "database is down", status)
			} else {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
			return true
		})))
		if _, unreached := errors.AsType[*check.UnreachedError](err); !unreached {
			t.Fatalf("error %v", err)
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("status %d: %v, want one with %q", status, err, part)
			}
		}
		if status == http.StatusInternalServerError && strings.Contains(err.Error(), "405") {
			t.Errorf("HTTP+SSE was tried: %v", err)
		}
	}
}

func TestNoAnswerInTimeIsNotTakenForAnAnswer(t *testing.T) {
	t.Parallel()
	o := impatient(options(serving(t, func(r *request) []byte {
		if r.Method == protocol.MethodListTools || strings.Contains(string(r.Params), `"protocolVersion":"2025-06-18"`) {
			return []byte{}
		}
		return nil
	})))
	o.Only = []string{"init-old", "tool-name"}
	r := expect(t, o, "init-old")
	if says := text(r, "init-old"); !strings.Contains(says, "2025-06-18 is not known: no answer in time") || strings.Contains(says, "does not speak") {
		t.Errorf("it is said: %s", says)
	}
	if says := text(r, "tool-name"); !strings.Contains(says, "no answer in time") {
		t.Errorf("it is said: %s", says)
	}
}
