package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestMain(m *testing.M) {
	stdio.Guard()
	fault.Main()
	os.Exit(m.Run())
}

type object = map[string]any

const waitLimit = 30 * time.Second

// A client uses a fault server without anything between.
type client struct {
	t      *testing.T
	ctx    context.Context
	conn   dragoman.Conn
	modern bool
}

// child starts a fault server.
func child(t *testing.T, mode string, j fault.Journal, more ...string) *stdio.Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &stdio.Command{Path: self, Grace: 500 * time.Millisecond}
	for name, value := range fault.Env(mode, j, more...) {
		c.Env = append(c.Env, name+"="+value)
	}
	return c
}

func open(t *testing.T, d dragoman.Dialer, modern bool) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	t.Cleanup(cancel)
	conn, err := d.Dial(ctx, dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(object{"roots": []object{{"uri": "file:///ours"}}})
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &client{t, ctx, conn, modern}
	if !modern {
		c.ask(protocol.MethodInitialize, object{
			"protocolVersion": protocol.LatestLegacy.String(), "capabilities": object{"roots": object{}},
			"clientInfo": object{"name": "test", "version": "1"},
		})
	}
	return c
}

func (c *client) ask(method string, params object) (*dragoman.Message, error) {
	c.t.Helper()
	if c.modern {
		params["_meta"] = object{
			protocol.MetaProtocolVersion: protocol.Latest.String(), protocol.MetaClientCapabilities: object{"roots": object{}},
			protocol.MetaClientInfo: object{"name": "test", "version": "1"},
		}
	}
	req, err := dragoman.NewRequest(dragoman.IntID(7), method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.conn.Call(c.ctx, req, dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Reply(object{"roots": []object{{"uri": "file:///ours"}}})
	}})
}

func (c *client) text(tool string, arguments object) string {
	c.t.Helper()
	resp, err := c.ask(protocol.MethodCallTool, object{"name": tool, "arguments": arguments})
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	var blocks []struct{ Text string }
	if err := json.Unmarshal(resp.Get("content"), &blocks); err != nil || len(blocks) != 1 {
		c.t.Fatalf("%s: %.300s", tool, resp.Bytes())
	}
	return blocks[0].Text
}

func eras(t *testing.T, test func(t *testing.T, mode string)) {
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode, func(t *testing.T) { test(t, mode) })
	}
}

func TestEveryFaultIsWhatItSays(t *testing.T) {
	eras(t, func(t *testing.T, mode string) {
		peertest.NoLeak(t)
		j := fault.Journal(filepath.Join(t.TempDir(), "journal"))
		c := open(t, child(t, mode, j), mode == fault.Modern)
		for tool, want := range map[string]string{
			"echo": "hi", "garbage": "after the garbage", "dupresp": "first", "wrongid": "the right one", "count": "k of count",
			"u2028": fault.Separators, "notify": "3", "stderrflood": "flooded", "sleep": "hi", "freeze": "thawed",
			"badutf8": fault.Replaced, "big": strings.Repeat("x", 1000),
		} {
			got := c.text(tool, object{"text": "hi", "key": "k of " + tool, "n": 3, "bytes": 1000, "lines": 5, "ms": 1})
			if got != want {
				t.Errorf("%s says %q, want %q", tool, got, want)
			}
		}
		if got := j.Of(fault.Ran, "k of count"); len(got) != 1 {
			t.Errorf("the journal has %v", got)
		}
		var who fault.Process
		if err := json.Unmarshal([]byte(c.text("whoami", nil)), &who); err != nil || who.PID == os.Getpid() || who.PPID == 0 {
			t.Errorf("it is %+v, error %v", who, err)
		}
	})
}

func TestServerRequestReachesTheClient(t *testing.T) {
	eras(t, func(t *testing.T, mode string) {
		c := open(t, child(t, mode, ""), mode == fault.Modern)
		params := object{"name": "serverreq"}
		resp, err := c.ask(protocol.MethodCallTool, params)
		if err == nil && mode == fault.Modern {
			params["requestState"] = resp.Get("requestState")
			params["inputResponses"] = object{"roots": object{"roots": []object{{"uri": "file:///ours"}}}}
			resp, err = c.ask(protocol.MethodCallTool, params)
		}
		if err != nil || !strings.Contains(string(resp.Get("content")), "file:///ours") {
			t.Errorf("got %v, error %v", resp, err)
		}
	})
}

func TestCrashEndsTheProcess(t *testing.T) {
	c := open(t, child(t, fault.Legacy, ""), false)
	_, err := c.ask(protocol.MethodCallTool, object{"name": "crash"})
	exit, ok := errors.AsType[*stdio.ExitError](err)
	if !ok || exit.Status != 3 || exit.Stderr != fault.Crashing {
		t.Errorf("got %v", err)
	}
}

func TestOursAreListedBesideTheOthers(t *testing.T) {
	eras(t, func(t *testing.T, mode string) {
		web := httptest.NewServer(nil)
		defer web.Close()
		s := fault.New(&fault.Options{Revisions: fault.Revisions(mode)})
		h := s.Handler()
		web.Config.Handler = h
		defer func() { _ = h.Shutdown(t.Context()) }()
		c := open(t, &streamable.Client{URL: web.URL + "/mcp"}, mode == fault.Modern)
		resp, err := c.ask(protocol.MethodListTools, object{})
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Tools []struct{ Name string } }
		if err := resp.Decode(&list); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"echo", "count", "noanswer"} {
			if !slices.ContainsFunc(list.Tools, func(t struct{ Name string }) bool { return t.Name == want }) {
				t.Errorf("%s is not listed", want)
			}
		}
		if got := c.text("sleep", object{"text": "over HTTP"}); got != "over HTTP" {
			t.Errorf("sleep says %q", got)
		}
		_ = c.conn.Close()
	})
}

func TestJournalFindsDuplicates(t *testing.T) {
	j := fault.Journal(filepath.Join(t.TempDir(), "journal"))
	for _, key := range []string{"a", "b", "a", "c", "a", "c"} {
		j.Write(fault.Ran, key)
	}
	if got := j.Duplicates(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("duplicates are %q", got)
	}
	j.Write(fault.Ended, "a")
	j.Write(fault.Ended, "b")
	j.Write(fault.Ran, "d")
	if got := j.MaxCount(""); got != 3 {
		t.Errorf("%d ran at once, want 3", got)
	}
}
