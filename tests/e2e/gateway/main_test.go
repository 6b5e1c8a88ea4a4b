//go:build unix

package gateway

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

type object = gatewaytest.Object

func TestMain(m *testing.M) {
	stdio.Guard()
	// Most of those that are parallel wait, and need no processor for that. Those of the last file
	// happen to begin first, so the ones that wait longest stand in wait_test.go and vanish_test.go.
	_ = flag.Set("test.parallel", "10")
	status := m.Run()
	gatewaytest.Clean()
	os.Exit(status)
}

// forever is how long a tool takes that is not meant to end by itself, in
// milliseconds.
const forever = 3_600_000

// child returns the configuration of a fault server that is a child.
func child(t *testing.T, mode string, j fault.Journal, more ...string) object {
	t.Helper()
	return object{"command": gatewaytest.FaultServer(t), "env": fault.Env(mode, j, more...)}
}

// newJournal returns the journal of a test, at whose end no process may be left
// that has written in it, and no call may have been carried out twice.
func newJournal(t *testing.T) fault.Journal {
	t.Helper()
	j := fault.Journal(filepath.Join(t.TempDir(), "journal"))
	t.Cleanup(func() {
		if err := gatewaytest.Until(gatewaytest.Patience, func() error { return gatewaytest.Gone(processes(j)...) }); err != nil {
			t.Error(err)
		}
		if twice := j.Duplicates(); len(twice) > 0 {
			t.Errorf("carried out more than once: %q", twice)
		}
	})
	return j
}

// processes returns all that have written in a journal or have been written of,
// except ourselves.
func processes(j fault.Journal) (pids []int) {
	for _, pid := range j.PIDs() {
		if pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	for _, e := range j.Of(fault.Descended, "") {
		if pid, err := strconv.Atoi(e.Key); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A fixture is one client of one era before a gateway with one server of one era.
type fixture struct {
	*testing.T
	*gatewaytest.Gateway
	server  string // its name in URLs; "" for all servers as one
	mode    string // era of the server
	era     protocol.Era
	journal fault.Journal
	ctx     context.Context
}

// server is the name of a server.
const server = "fault"

// The ways in which a server is served: by "dragoman run", by "dragoman serve" under
// its own name, and there as one of all.
var fronts = []string{"run", "serve", "all"}

// fixtures runs a test for each era of the client and of the server, and for each
// front, except that "dragoman run", which is a gateway with one server, is shown with
// a legacy one alone. more is added to the configuration of the server.
func fixtures(t *testing.T, more object, test func(s *fixture)) {
	t.Helper()
	for _, front := range fronts {
		for _, mode := range []string{fault.Legacy, fault.Modern} {
			if front == "run" && mode == fault.Modern {
				continue
			}
			t.Run(fmt.Sprintf("%s, %s server", front, mode), func(t *testing.T) {
				t.Parallel() // with a gateway of its own
				j, name := newJournal(t), server
				if front == "all" {
					name = ""
				}
				g := start(t, front, with(child(t, mode, j), more))
				if front != "run" { // who comes before the server is told that its tools are not there yet
					gatewaytest.Eventually(t, func() error { return settled(g) })
				}
				for _, era := range gatewaytest.Eras {
					t.Run(era.String()+" client", func(t *testing.T) {
						ctx, cancel := context.WithTimeout(t.Context(), 2*gatewaytest.Patience)
						defer cancel()
						test(&fixture{t, g, name, mode, era, j, ctx})
					})
				}
			})
		}
	}
}

// with returns an object with more members.
func with(o, more object) object {
	all := object{}
	for _, part := range []object{o, more} {
		for k, v := range part {
			all[k] = v
		}
	}
	return all
}

// start starts a gateway for one server.
func start(t *testing.T, front string, config object) *gatewaytest.Gateway {
	t.Helper()
	switch front {
	case "run":
		return gatewaytest.Run(t, runArguments(t, config)...)
	case "all": // its tools keep their names
		config = with(config, object{"tools": object{"prefix": ""}})
	}
	return gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: config}}})
}

// runArguments returns the arguments of "dragoman run" for a server.
func runArguments(t *testing.T, config object) (args []string) {
	t.Helper()
	keys := make([]string, 0, len(config))
	for k := range config {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var command []string
	for _, k := range keys {
		switch v := config[k].(type) {
		case map[string]string:
			for name, value := range v {
				args = append(args, "-e", name+"="+value)
			}
		case []string:
			command = append(command, v...)
		case string:
			switch k {
			case "command":
				command = append([]string{"--", v}, command...)
			case "url":
				command = []string{v}
			default:
				args = append(args, "--"+k, v)
			}
		default:
			t.Fatalf("%s cannot be given to dragoman run", k)
		}
	}
	// "args" sorts before "command".
	if i := slices.Index(command, "--"); i > 0 {
		command = append(command[i:], command[:i]...)
	}
	return append(args, command...)
}

// enter opens the conversation of a client of the fixture, which leaves at its end.
func (s *fixture) enter(way string) *gatewaytest.Client {
	s.Helper()
	return enter(s.ctx, s.T, s.Gateway, s.server, way, s.era)
}

func enter(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, name, way string, era protocol.Era) *gatewaytest.Client {
	t.Helper()
	c, err := gatewaytest.Dial(ctx, g.Dialer(name, way), "guest", era)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Conn.Close() })
	return c
}

// key returns a key of the journal that no other fixture has.
func (s *fixture) key(word string) string { return s.Name() + " " + word }
