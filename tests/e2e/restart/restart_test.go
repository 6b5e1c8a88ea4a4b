package restart_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

const stateDir = "RESTART_TEST_STATE"

// TestMain is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(stateDir); dir != "" {
		fmt.Println(serve(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve serves the built-in server with its state in a directory, and says where.
func serve(dir string) error {
	kept, err := store.Open(filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	log, err := eventlog.Open(filepath.Join(dir, "events"), nil)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, &streamable.Server{
		Sessions: builtin.New(nil), Store: store.Kind(kept, "sessions"), Log: log,
	})
}

// A process is one life of the server.
type process struct {
	cmd *exec.Cmd
	url string
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), stateDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(p.kill)
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "http://") {
		t.Fatalf("the server says %q", lines.Text())
	}
	p.url = lines.Text()
	return p
}

// kill ends it as the system does, without a word.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// A client speaks to one life of the server after another.
type client struct {
	*testing.T
	url, session string
	lines        map[*http.Response]*bufio.Scanner // of its streams
}

// do sends a request; the body is closed with the test.
func (c *client) do(method, body string, headers ...string) *http.Response {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	if c.session != "" {
		req.Header.Set(protocol.HeaderSession, c.session)
		req.Header.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { resp.Body.Close() })
	return resp
}

// hello opens a session.
func (c *client) hello() {
	c.Helper()
	resp := c.do(http.MethodPost, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+protocol.LatestLegacy.String()+
		`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if c.session = resp.Header.Get(protocol.HeaderSession); c.session == "" {
		c.Fatalf("initialize is answered with %d", resp.StatusCode)
	}
	c.do(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// An event is one that has data.
type event struct{ id, data string }

// events reads up to so many events, or to the end.
func (c *client) events(resp *http.Response, most int) (list []event) {
	c.Helper()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		c.Fatalf("answered with %d %v", resp.StatusCode, resp.Header)
	}
	lines := c.lines[resp]
	if lines == nil {
		lines = bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		if c.lines == nil {
			c.lines = make(map[*http.Response]*bufio.Scanner)
		}
		c.lines[resp] = lines
	}
	var e event
	for len(list) < most && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "id":
			e.id = value
		case name == "data":
			e.data = value
		case lines.Text() == "":
			if e.data != "" {
				list = append(list, e)
			}
			e.data = ""
		}
	}
	return list
}

const slow = `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"slow","arguments":{"ms":20000,"steps":1000},"_meta":{"progressToken":"p"}}}`

// position is where in its stream an event is.
func position(t *testing.T, e event) int64 {
	t.Helper()
	_, n, _ := strings.Cut(e.id, "_")
	at, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		t.Fatalf("the id of an event is %q", e.id)
	}
	return at
}

func TestS49_StreamAndSessionOutliveAKill(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir)
	c := &client{T: t, url: first.url}
	c.hello()
	seen := c.events(c.do(http.MethodPost, slow), 5)
	last := seen[1] // the rest is lost on the way
	first.kill()

	second := start(t, dir)
	c.url = second.url
	rest := c.events(c.do(http.MethodGet, "", protocol.HeaderLastEventID, last.id), 1<<20)
	if len(rest) < 4 || !slices.Equal(rest[:3], seen[2:]) {
		t.Fatalf("the stream goes on with %+v, want %+v and an end", rest, seen[2:])
	}
	for i, e := range rest {
		if at, want := position(t, e), position(t, last)+int64(i)+1; at != want {
			t.Fatalf("event %d is at %d, want %d", i, at, want)
		}
	}
	for _, e := range rest[:len(rest)-1] {
		if !strings.Contains(e.data, protocol.NoteProgress) {
			t.Errorf("before the end comes %s", e.data)
		}
	}
	end := rest[len(rest)-1].data
	if !strings.Contains(end, `"id":"call"`) || !strings.Contains(end, fmt.Sprint(protocol.CodeLost)) || !strings.Contains(end, `"unknown"`) {
		t.Errorf("the call ends with %s", end)
	}
	if resp := c.do(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); resp.StatusCode != http.StatusOK {
		t.Errorf("the session: %d", resp.StatusCode)
	}
	second.kill()

	// The end that was told is told again, and not another one.
	c.url = start(t, dir).url
	again := c.events(c.do(http.MethodGet, "", protocol.HeaderLastEventID, last.id), 1<<20)
	if len(again) != len(rest) || again[len(again)-1] != rest[len(rest)-1] {
		t.Errorf("after another kill %d events come, %+v; want %d, %+v", len(again), again[len(again)-1], len(rest), rest[len(rest)-1])
	}
	if resp := c.do(http.MethodDelete, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %d", resp.StatusCode)
	}
	if resp := c.do(http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); resp.StatusCode != http.StatusNotFound {
		t.Errorf("then: %d", resp.StatusCode)
	}
}
