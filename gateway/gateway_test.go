package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// write writes a configuration and returns its path.
func write(t *testing.T, file, text string) string {
	t.Helper()
	if file == "" {
		file = filepath.Join(t.TempDir(), "dragoman.yaml")
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// upstream serves the built-in server, and returns its URL.
func upstream(t *testing.T) string {
	t.Helper()
	server := builtin.New(nil)
	endpoint := &streamable.Server{Sessions: server, Requests: server.Requests()}
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		_ = server.Close()
		_ = endpoint.Shutdown(context.Background())
		web.Close()
	})
	return web.URL
}

func TestConfigurationsThatCannotBeUsedAreRefused(t *testing.T) {
	empty := t.TempDir()
	t.Chdir(empty)
	for _, test := range []struct {
		name  string
		files []string
		want  string
	}{
		{"nothing here", nil, "there is no configuration in this directory"},
		{"no such file", []string{filepath.Join(empty, "x.yaml")}, "x.yaml"},
		{"no server", []string{write(t, "", "log: {level: info}")}, "there is no server in"},
		{"unknown key", []string{write(t, "", "severs: {}")}, "severs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := gateway.Load(test.files...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	c, err := gateway.Load(write(t, "", "servers: {a: {command: x}, b: {url: 7}}"))
	if err != nil || !strings.Contains(c.Problems(), "dragoman.yaml:1:") {
		t.Errorf("one bad server: %v", err)
	}
}

func TestReloadReportsWhatHasChanged(t *testing.T) {
	peertest.NoLeak(t)
	url := upstream(t)
	file := write(t, "", "servers: {a: {url: "+url+"}, b: {url: "+url+"}}\ngroups: {g: {servers: [a]}}")
	c, err := gateway.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Shutdown(context.Background()); err != nil || !g.Status().Draining {
			t.Error(err, g.Status())
		}
	}()
	if s := g.Status(); len(s.Servers) != 2 || !reflect.DeepEqual(s.Groups, []gateway.GroupStatus{{Name: "g", Path: "/groups/g/mcp", Servers: []string{"a"}}}) {
		t.Errorf("%+v", s)
	}
	write(t, file, "servers: {a: {url: "+url+"}, c: {url: "+url+"}, d: {url: 7}}\nlimits: {calls: 7}")
	changes, err := g.Reload()
	if err != nil {
		t.Fatal(err)
	}
	if changes.Failed["d"] == "" {
		t.Errorf("%+v", changes)
	}
	changes.Failed = nil
	want := &gateway.Changes{Added: []string{"c"}, Removed: []string{"b"}, Unchanged: []string{"a"}, NeedsRestart: []string{"limits"}}
	if !reflect.DeepEqual(changes, want) {
		t.Errorf("%+v, want %+v", changes, want)
	}
	write(t, file, "severs: {}")
	if changes, err := g.Reload(); err == nil {
		t.Errorf("a file with errors changes %+v", changes)
	}
}

func TestAcceptorTakesConversationsWithAllServers(t *testing.T) {
	peertest.NoLeak(t)
	c, err := gateway.Load(write(t, "", "servers: {demo: {url: "+upstream(t)+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Shutdown(context.Background()) }()
	user, err := client.Connect(t.Context(), &client.Server{Dialer: dragoman.Local(g.Acceptor())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = user.Close() }()
	result, err := user.CallTool(t.Context(), "demo_echo", map[string]string{"text": "hello"}, nil)
	if err != nil || result.Text() != "hello" {
		t.Errorf("%v, %v", result, err)
	}
}

// journal is an observer that notes what it is called with.
type journal struct {
	gateway.NopObserver
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) Begin(_ context.Context, x *gateway.Exchange) error {
	if x.Request.Method() == "tools/call" && x.Role == gateway.AggregateEndpoint {
		j.note("begin %s", x.Request.Name())
		if x.Request.Name() == "demo_forbidden" {
			return errors.New("observers forbid it")
		}
	}
	return nil
}

func (j *journal) End(_ context.Context, x *gateway.Exchange) {
	if x.Request.Method() == "tools/call" {
		j.note("end %s of %q, answered %t", x.Request.Name(), x.Server, x.Answered())
	}
}

func (j *journal) Watches(_ context.Context, l *gateway.Link) bool {
	return l.Role == gateway.Connection
}

func (j *journal) Message(_ context.Context, p *gateway.Passing) {
	if p.Direction == gateway.ToServer && p.Message.Method() == "tools/call" {
		j.note("sent %s", p.Message.Name())
	}
}

func (j *journal) Event(_ context.Context, e *gateway.Event) { j.note("%s %s", e.Kind, e.Server) }

func TestObserversSeeRequestsMessagesAndEvents(t *testing.T) {
	peertest.NoLeak(t)
	c, err := gateway.Load(write(t, "", "servers: {demo: {url: "+upstream(t)+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	j := new(journal)
	g, err := gateway.New(c, &gateway.Options{Observers: []gateway.Observer{j}})
	if err != nil {
		t.Fatal(err)
	}
	era := protocol.Legacy
	user, err := client.Connect(t.Context(), &client.Server{Dialer: dragoman.Local(g.Acceptor())}, &client.Options{Era: &era})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := user.CallTool(t.Context(), "demo_echo", map[string]string{"text": "hello"}, nil); err != nil {
		t.Error(err)
	}
	if _, err := user.CallTool(t.Context(), "demo_forbidden", nil, nil); err == nil || !strings.Contains(err.Error(), "observers forbid it") {
		t.Errorf("a refused call: %v", err)
	}
	_ = user.Close()
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"start ", "session-opened ", "begin demo_echo", "sent echo", `end echo of "demo", answered true`, `end demo_echo of "", answered true`,
		"begin demo_forbidden", "session-closed ", "stop ",
	}
	if !slices.Equal(j.lines, want) {
		t.Errorf("observed\n%s\nwant\n%s", strings.Join(j.lines, "\n"), strings.Join(want, "\n"))
	}
}
