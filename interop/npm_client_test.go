//go:build npm

package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// driven is a client of an SDK in another language, in a process that is
// driven by lines of JSON; see ts/drive.mjs.
type driven struct {
	t     *testing.T
	stdin io.WriteCloser
	notes *notifications
	gone  chan struct{} // closed when the process writes no more
	rev   protocol.Revision

	mu      sync.Mutex
	last    int                     // guarded by mu
	waiting map[int]chan drivenLine // calls in flight; guarded by mu
}

// drivenLine is a line that the process writes.
type drivenLine struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *dragoman.Error `json:"error"`
	Ask    int             `json:"ask"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// drive makes a client of a command, which to follows: the URL or the command of the server. The
// revision is auto if the client finds out.
func drive(cannot map[string]string, command func(t *testing.T, rev string, to []string) []string) connector {
	return func(t *testing.T, to []string, rev protocol.Revision) *session {
		t.Helper()
		name := rev.String()
		if rev == protocol.Unknown {
			name = "auto"
		}
		s := launch(t, command(t, name, to)...)
		if s.rev == protocol.Unknown { // on stdio, where the client does not know it
			s.rev = rev
		}
		s.sdkClient.(*driven).rev, s.cannot = s.rev, cannot
		return s
	}
}

var (
	connectTypeScript1 = drive(nil, func(t *testing.T, rev string, to []string) []string {
		if isURL(to) {
			to = []string{to[0], rev}
		}
		return append([]string{node22(t), filepath.Join("ts", "client.mjs"), filepath.Join(npmFolder(t), "sdk")}, to...)
	})
	connectTypeScript2 = drive(map[string]string{"code of a missing resource": "the SDK reports the modern code in the legacy era too"}, func(t *testing.T, rev string, to []string) []string {
		return append([]string{node22(t), filepath.Join("ts", "client2.mjs"), filepath.Join(npmFolder(t), "client"), rev}, to...)
	})
	connectPython = drive(map[string]string{"completion of a template": "py/client.py completes prompts alone"}, func(t *testing.T, rev string, to []string) []string {
		if isURL(to) {
			return []string{python(t), filepath.Join("py", "client.py"), to[0], rev}
		}
		return append([]string{python(t), filepath.Join("py", "cross_client.py"), rev}, to...)
	})
)

// launch starts a client and waits until it is connected.
func launch(t *testing.T, command ...string) *session {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hello := make(chan drivenLine, 1)
	c := &driven{t: t, stdin: stdin, notes: newNotifications(), gone: make(chan struct{}), waiting: map[int]chan drivenLine{0: hello}}
	go func() { // ends with the process
		defer close(c.gone)
		c.read(stdout)
	}()
	t.Cleanup(func() {
		stdin.Close()
		kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer kill.Stop()
		<-c.gone
		if err := cmd.Wait(); err != nil {
			t.Errorf("the client did not end in good order: %v", err)
		}
	})
	select {
	case line := <-hello:
		got := decode[struct {
			Server   struct{ Name string }
			Revision string
		}](t, line.Result)
		return &session{sdkClient: c, server: got.Server.Name, rev: protocol.ParseRevision(got.Revision), notes: c.notes}
	case <-c.gone:
		t.Fatal("the client has gone")
	case <-time.After(3 * patience): // interpreters start slowly on a busy machine
		t.Fatal("the client does not connect")
	}
	return nil
}

// read takes what the process writes.
func (c *driven) read(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var line drivenLine
		if err := json.Unmarshal(text, &line); err != nil {
			c.t.Errorf("the client wrote %q", text)
			continue
		}
		switch {
		case line.ID != nil:
			c.mu.Lock()
			done := c.waiting[*line.ID]
			delete(c.waiting, *line.ID)
			c.mu.Unlock()
			if done != nil {
				done <- line
			}
		case line.Ask != 0:
			result, err := answerAs[object](line.Method, line.Params)
			if err != nil {
				c.t.Error(err)
			}
			c.write(object{"answer": line.Ask, "result": result})
		default:
			c.notes.add(line.Method, line.Params)
		}
	}
}

func (c *driven) write(line object) {
	text, err := json.Marshal(line)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, err = c.stdin.Write(append(text, '\n'))
	}
	if err != nil {
		c.t.Error(err)
	}
}

// do calls a method of the client.
func (c *driven) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	done := make(chan drivenLine, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = done
	c.mu.Unlock()
	c.write(object{"id": id, "method": method, "params": params})
	select {
	case line := <-done:
		if line.Error != nil {
			return nil, line.Error
		}
		return line.Result, nil
	case <-c.gone:
		return nil, fmt.Errorf("%s: the client has gone", method)
	case <-ctx.Done():
		c.write(object{"cancel": id})
		return nil, ctx.Err()
	}
}

func (c *driven) tools(ctx context.Context) ([]string, error) {
	result, err := c.do(ctx, "listTools", object{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range decode[struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}](c.t, result).Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c *driven) call(ctx context.Context, name string, args object, token string) (any, error) {
	params := object{"name": name}
	if args != nil {
		params["arguments"] = args
	}
	meta := object{}
	if token != "" {
		meta[protocol.MetaProgressToken] = token
	}
	if c.rev == protocol.V20260728 {
		meta[protocol.MetaLogLevel] = "debug"
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	return c.do(ctx, "callTool", params)
}

// npmWays are the ways of clients from npm and PyPI.
var npmWays = []way{
	{"TypeScript 1", connectTypeScript1, "stdio", []protocol.Revision{protocol.LatestLegacy}},
	{"TypeScript 1", connectTypeScript1, "http", npmRevisions},
	{"TypeScript 1", connectTypeScript1, "sse", oldestAndNewest},
	{"TypeScript 1", connectTypeScript1, "ws", oldestAndNewest},
	{"TypeScript 2", connectTypeScript2, "http", bothEras},
	{"Python", connectPython, "http", []protocol.Revision{protocol.V20260728, protocol.V20251125, protocol.V20250326}},
	{"Python", connectPython, "sse", oldestAndNewest},
}

var (
	// bothEras are the newest revisions of either era.
	bothEras = []protocol.Revision{protocol.Latest, protocol.LatestLegacy}

	// oldestAndNewest are the newest and the oldest revision with sessions.
	oldestAndNewest = []protocol.Revision{protocol.V20251125, protocol.V20241105}
)

func TestNpmPipE03_E06_E09_B14_ClientsUseTheBuiltInServer(t *testing.T) {
	t.Parallel()
	useBuiltinBy(t, npmWays, programAt)
}

// programAt starts `dragoman run` for a transport.
func programAt(t *testing.T, transport string) []string {
	t.Helper()
	if transport != "http" && transport != "sse" {
		return builtinAt(t, transport)
	}
	url := serve(t, exec.Command(dragomanProgram.in(t), "run", "--listen", "127.0.0.1:0"), `http://\S+/mcp`)
	return []string{strings.TrimSuffix(url, "/mcp") + map[string]string{"http": "/mcp", "sse": "/sse"}[transport]}
}

// In its mode auto the client asks for server/discover, and falls back to
// initialize.
func TestNpmV2ClientFindsOutWhatOurServerSpeaks(t *testing.T) {
	t.Parallel()
	t.Run("both eras", func(t *testing.T) {
		t.Parallel()
		negotiates(t, connectTypeScript2, serveHTTP(t), protocol.Unknown, protocol.V20260728)
	})
	findsOut(t, connectTypeScript2)
}

// Both clients ask for server/discover first, which is not served over HTTP+SSE, and fall back
// to the handshake.
func TestNpmPipClientsThatNegotiateFallBackOverHTTPAndSSE(t *testing.T) {
	t.Parallel()
	t.Run("TypeScript 2", func(t *testing.T) {
		t.Parallel()
		negotiates(t, connectTypeScript2, programAt(t, "sse")[0], protocol.Unknown, protocol.V20251125)
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		negotiates(t, connectPython, programAt(t, "sse")[0], protocol.V20260728, protocol.V20251125)
	})
}

// negotiates uses the built-in server by a client that asks for a revision, and gets one.
func negotiates(t *testing.T, connect connector, url string, asks, gets protocol.Revision) {
	t.Helper()
	s := connect(t, []string{url}, asks)
	if s.rev != gets {
		t.Fatalf("connected in %s, want %s", s.rev, gets)
	}
	useBuiltin(t, s)
}
