package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func req(t *testing.T, id int64, method string, params any) *dragoman.Message {
	t.Helper()
	m, err := dragoman.NewRequest(dragoman.IntID(id), method, params)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask calls and wants a result.
func ask(t *testing.T, p dragoman.Peer, id int64, method string, params any) *dragoman.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	resp, err := p.Call(ctx, req(t, id, method, params), nil)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	if resp.IsError() {
		t.Fatalf("%s: %v", method, resp.RPCError())
	}
	return resp
}

// hello opens a legacy session.
func hello(t *testing.T, p dragoman.Peer, rev protocol.Revision) *dragoman.Message {
	t.Helper()
	resp := ask(t, p, 1, protocol.MethodInitialize, map[string]any{
		"protocolVersion": rev.String(), "capabilities": map[string]any{},
		"clientInfo": map[string]string{"name": "test", "version": "1"},
	})
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Notify(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	return resp
}

// meta is the envelope of a modern request.
func meta(more map[string]any) map[string]any {
	params := map[string]any{"_meta": map[string]any{
		protocol.MetaProtocolVersion:    protocol.Latest.String(),
		protocol.MetaClientCapabilities: map[string]any{},
	}}
	for k, v := range more {
		params[k] = v
	}
	return params
}

func TestE09_SmokeOfEachRevisionInEachFraming(t *testing.T) {
	for _, framing := range []Framing{Lines, ContentLength} {
		for _, rev := range protocol.Revisions() {
			t.Run(framing.String()+" "+rev.String(), func(t *testing.T) {
				c := ourselves(t, "serve")
				c.Framing = framing
				conn, err := c.Dial(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				params := func(more map[string]any) map[string]any { return more }
				if rev.HasSessions() {
					resp := hello(t, conn, rev)
					if got := string(resp.Get("protocolVersion")); got != `"`+rev.String()+`"` {
						t.Fatalf("D03: negotiated %s, want %s", got, rev)
					}
				} else {
					params = meta
					ask(t, conn, 1, protocol.MethodDiscover, meta(nil))
				}
				tools := ask(t, conn, 2, protocol.MethodListTools, params(map[string]any{}))
				if !strings.Contains(tools.String(), `"echo"`) {
					t.Errorf("no tool echo in %s", tools)
				}
				resp := ask(t, conn, 3, protocol.MethodCallTool, params(map[string]any{"name": "echo", "arguments": map[string]string{"text": "HTTP 404 の意味は？"}}))
				if err := protocol.CheckToolResponse(resp); err != nil || !strings.Contains(resp.String(), "HTTP 404 の意味は？") {
					t.Errorf("E03: echo answered %s (%v)", resp, err)
				}
			})
		}
	}
}

func TestA13_ChildThatDiesEndsCallsWithStatusAndLastLine(t *testing.T) {
	const script = `read line; echo "first" >&2; echo "cannot open the database" >&2; exit 3`
	conn, err := (&Command{Path: "/bin/sh", Args: []string{"-c", script}}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Call(t.Context(), req(t, 1, "ping", nil), nil)
	var exit *ExitError
	if !errors.Is(err, dragoman.ErrClosed) || !errors.As(err, &exit) {
		t.Fatalf("C08: Call returned %v, want ErrClosed with an ExitError", err)
	}
	if exit.Status != 3 || exit.Stderr != "cannot open the database" || !strings.Contains(err.Error(), "cannot open the database") {
		t.Errorf("C07: the error says %q: %+v", err, exit)
	}
	<-conn.Done()
	if _, err := conn.Call(t.Context(), req(t, 2, "ping", nil), nil); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("a call afterwards: %v, want ErrClosed", err)
	}
	if got := string(conn.(*Conn).Stderr()); got != "first\ncannot open the database\n" {
		t.Errorf("kept of stderr: %q", got)
	}
}

func TestA13_CallToAChildThatHasClosedItsStdinFailsForGood(t *testing.T) {
	closed := make(chan string, 1)
	c := &Command{Path: "/bin/sh", Args: []string{"-c", `exec 0<&-; echo closed >&2; exec sleep 100`}, Grace: -1, OnStderr: func(line string) { closed <- line }}
	conn, err := c.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-closed
	for id := range int64(2) {
		if _, err := conn.Call(t.Context(), req(t, id, "ping", nil), nil); !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("call %d returned %v, want ErrClosed", id, err)
		}
	}
	<-conn.Done()
}

func TestAnswerThatAChildWritesLastCountsWithoutItsNewline(t *testing.T) {
	const prepare = `read line; id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
		answer="{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"last\":true}}"; `
	for name, write := range map[string]string{
		"a line":  `printf %s "$answer"`,
		"a frame": `printf 'Content-Length: %d\r\n\r\n%s' $((${#answer} + 1)) "$answer"`,
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := (&Command{Path: "/bin/sh", Args: []string{"-c", prepare + write}}).Dial(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if resp := ask(t, conn, 1, protocol.MethodPing, nil); string(resp.Get("last")) != "true" {
				t.Errorf("the answer is %s", resp)
			}
			<-conn.Done()
			if exit, ok := errors.AsType[*ExitError](conn.Err()); !ok || exit.Status != 0 {
				t.Errorf("the conversation ended with %v", conn.Err())
			}
		})
	}
}

func TestChildWhoseGrandchildHoldsThePipesEndsCallsToo(t *testing.T) {
	conn, err := (&Command{Path: "/bin/sh", Args: []string{"-c", `sleep 1000 & read line; exit 1`}}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := conn.Call(ctx, req(t, 1, "ping", nil), nil); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("Call returned %v, want ErrClosed", err)
	}
}

// readID is the shell's way to read a request: the id is in $id.
const readID = `read -r line; id=${line#*'"id":'}; id=${id%%,*}; `

func TestS07_D11_NoiseOnStdoutIsSkipped(t *testing.T) {
	const script = `echo "Starting server…"; echo; echo '{"level":"info"}'; ` + readID + `
		echo 'debug: got a line'; echo '{"jsonrpc":"2.0","id":'$id',"result":{"ok":true}}'; read line`
	conn, err := (&Command{Path: "/bin/sh", Args: []string{"-c", script}}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp := ask(t, conn, 77, "x", nil)
	if string(resp.Get("ok")) != "true" || resp.ID().String() != "77" {
		t.Errorf("answer: %s", resp)
	}
}

func TestS09_AnswerOverTheLimitFailsItsCallAlone(t *testing.T) {
	const script = readID + `printf '{"jsonrpc":"2.0","id":'$id',"result":{"x":"%0100000d"}}\n' 0; ` +
		readID + `echo '{"jsonrpc":"2.0","id":'$id',"result":{}}'; read line`
	conn, err := (&Command{Path: "/bin/sh", Args: []string{"-c", script}, MaxMessage: 50_000}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Call(t.Context(), req(t, 1, "x", nil), nil); !errors.Is(err, dragoman.ErrTooLarge) {
		t.Errorf("Call returned %v, want ErrTooLarge", err)
	}
	ask(t, conn, 2, "y", nil)
}

// serveText gives text to the built-in server and returns what it writes until
// it ends.
func serveText(t *testing.T, text string, opts *Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := ServeIO(t.Context(), builtin.New(nil), strings.NewReader(text), &out, opts); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestA12_ParseFailureIsAnsweredAndTheStreamContinues(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	out := serveText(t, "this is no JSON\n"+`{"jsonrpc":"2.0","id":9,"method":"ping"}`+"\n", &Options{Logger: logger})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		t.Fatalf("written: %q", out)
	}
	m, err := dragoman.Parse([]byte(lines[0]))
	if err != nil || !m.IsError() || m.RPCError().Code != protocol.CodeParse || !m.ID().IsNull() {
		t.Errorf("the failure is answered by %s", lines[0])
	}
	if err := protocol.CheckToolError(m); err != nil {
		t.Errorf("A03: %v", err)
	}
	if lines[1] != `{"jsonrpc":"2.0","id":9,"result":{}}` {
		t.Errorf("then: %s", lines[1])
	}
	if !strings.Contains(log.String(), "this is no JSON") {
		t.Errorf("the bytes are not in the log:\n%s", log.String())
	}
}

func TestA09_EndOfInputIsAnEndInGoodOrder(t *testing.T) {
	init := req(t, 1, "initialize", map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "t", "version": "1"}})
	slow := req(t, 2, "tools/call", map[string]any{"name": "slow", "arguments": map[string]any{"ms": 200}})
	out := serveText(t, init.String()+"\n"+slow.String()+"\n", nil)
	if !strings.Contains(out, `"id":2,"result"`) {
		t.Errorf("the answer in flight is missing: %s", out)
	}
}

func TestE02_BothFramingsByHand(t *testing.T) {
	ping := `{"jsonrpc":"2.0","id":99,"method":"ping"}`
	pong := `{"jsonrpc":"2.0","id":99,"result":{}}`
	for _, test := range []struct{ name, in, want string }{
		{"line", ping + "\n", pong + "\n"},
		{"frame", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(ping), ping), fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(pong), pong)},
		{"frame with the length of the example", "Content-Length: 36\r\n\r\n" + ping, fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(pong), pong)},
	} {
		if got := serveText(t, test.in, nil); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestD08_CloseOfServeIOReleasesABlockedReader(t *testing.T) {
	for _, test := range []struct {
		name string
		open func(t *testing.T) (r io.Reader, release func())
	}{
		{"pipe of the system", func(t *testing.T) (io.Reader, func()) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			return r, func() { _ = w.Close(); _ = r.Close() }
		}},
		{"pipe in memory", func(*testing.T) (io.Reader, func()) {
			r, w := io.Pipe()
			return r, func() { _ = w.Close() }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, release := test.open(t)
			defer release()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- ServeIO(ctx, builtin.New(nil), r, io.Discard, nil) }()
			cancel()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("ServeIO returned %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("ServeIO still reads")
			}
		})
	}
}

func TestListenTakesTheSocketOfADeadProcessButNotOfALivingOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v (%v), want 0600", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), "unix", path); err == nil {
		t.Error("a socket in use was taken")
	}
	l.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false) // as a process that is killed
	_ = l.Close()
	l, err = Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatalf("a stale socket was not taken: %v", err)
	}
	_ = l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix", path); err == nil {
		t.Error("a file was taken for a socket")
	}
	if got, _ := os.ReadFile(path); string(got) != "precious" {
		t.Error("a file was removed")
	}
}

func TestServerHangsUpOnClientsOverTheLimit(t *testing.T) {
	l, err := Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Acceptor: builtin.New(nil), MaxConns: 1}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	a := &Address{Network: "tcp", Address: l.Addr().String()}
	first, err := a.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ask(t, first, 1, "ping", nil)
	second, err := a.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := second.Call(t.Context(), req(t, 1, "ping", nil), nil); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("second client: %v, want ErrClosed", err)
	}
	ask(t, first, 2, "ping", nil)
}

func ExampleCommand() {
	server := &Command{Path: "sh", Args: []string{"-c", readID + `echo '{"jsonrpc":"2.0","id":'$id',"result":{}}'; read line`}}
	conn, err := server.Dial(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	ping, _ := dragoman.NewRequest(dragoman.StringID("hello"), protocol.MethodPing, json.RawMessage("{}"))
	pong, err := conn.Call(context.Background(), ping, nil)
	fmt.Println(pong, err)
	// Output: {"jsonrpc":"2.0","id":"hello","result":{}} <nil>
}
