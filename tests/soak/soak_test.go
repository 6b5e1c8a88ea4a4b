//go:build unix

package soak

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

type object = gatewaytest.Object

var duration = flag.Duration("soak", 0, "how long the soak takes")

func TestMain(m *testing.M) {
	stdio.Guard()
	fault.Main()
	flag.Parse()
	status := m.Run()
	gatewaytest.Clean()
	os.Exit(status)
}

// What is allowed to be more at rest, after the soak than before it: one in twenty,
// and as few as these. The memory is what the system counts, of which the runtime
// gives back some later.
const (
	moreFiles      = 2
	moreProcesses  = 1
	moreGoroutines = 3
	moreMemory     = 64 << 20
)

// grew reports whether there is more than is allowed.
func grew[N int | int64](before, after, more N) bool { return after > before+before/20+more }

// enough is the share of the calls that no accident hit that must succeed.
const enough = 0.99

// clients is how many there are at a time.
const clients = 100

// idle is how long sessions and servers may be unused before they end. It is short,
// so that a rest need not be long.
const idle = "5s"

// TestS42_Soak has a hundred clients of both eras use ten servers by every way, while
// accidents happen. Every call must come to a stated end, none may be carried out
// twice, and nothing may grow.
func TestS42_Soak(t *testing.T) {
	if *duration == 0 {
		t.Skip("it takes a while: give -soak 1m")
	}
	w := newWorld(t)
	w.run("warm", *duration/5) // what is used for the first time is not growth
	before := rest(t, w.gateway)[0]
	w.samples = nil
	w.run("soak", *duration*4/5)
	// A gateway that has seen nothing of all this is the measure of goroutines.
	fresh := gatewaytest.Serve(t, &gatewaytest.Options{Config: w.config(), Flags: []string{"--no-watch"}, Probe: "stdio0"})
	after := rest(t, w.gateway, fresh)[0]
	t.Logf("before: %v", before)
	t.Logf("after:  %v", after)
	t.Log(w.tally())
	w.checkMemory(t)
	if grew(before.files, after.files, moreFiles) {
		t.Errorf("open files grew from %d to %d", before.files, after.files)
	}
	if grew(before.processes, after.processes, moreProcesses) {
		t.Errorf("processes grew from %d to %d", before.processes, after.processes)
	}
	if grew(before.memory, after.memory, moreMemory) {
		t.Errorf("memory grew from %d MiB to %d MiB", before.memory>>20, after.memory>>20)
	}
	if twice := w.journal.Duplicates(); len(twice) > 0 {
		t.Errorf("%d calls were carried out more than once: %.5q", len(twice), twice)
	}
	for _, p := range w.problems {
		t.Error(p)
	}
	if ran := w.ranUnsent(); len(ran) > 0 {
		t.Errorf("%d calls were carried out that were said not to have been sent: %.5q", len(ran), ran)
	}
	if spared, ok := w.spared(); float64(ok) < enough*float64(spared) {
		t.Errorf("only %d of the %d calls that no accident hit succeeded", ok, spared)
	}
	w.gateway.Well()
	fresh.Well() // which leaves as much behind there
	few, many := goroutines(fresh), goroutines(w.gateway)
	if t.Logf("goroutines: %d, and %d after the soak", few, many); grew(few, many, moreGoroutines) {
		t.Errorf("%d goroutines are left, where %d are at rest:\n%s", many, few, tail(w.gateway.Stderr()))
	}
}

// A rig is a gateway and all that it serves.
type rig struct {
	t       *testing.T
	gateway *gatewaytest.Gateway
	journal fault.Journal
	links   []*gatewaytest.Proxy
	remotes []string // URLs of servers, by way of the links
	self    string
	samples []memorySample // owned by mishaps while it runs

	mu         sync.Mutex
	generation int                  // of the server that is replaced
	accidents  map[string]time.Time // the last, by server
	ends       map[string]*end      // what calls came to
	unsent     []string             // keys of calls of which it was said that no server saw them
	problems   []string             // what must not be
	odd        []string             // ends of calls that are worth a look
}

func newWorld(t *testing.T) *rig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &rig{t: t, self: self, journal: fault.Journal(filepath.Join(t.TempDir(), "journal"))}
	w.accidents, w.ends = map[string]time.Time{}, map[string]*end{}
	for i, mode := range []string{fault.Legacy, fault.Modern, fault.Legacy, fault.Legacy} {
		link := gatewaytest.NewProxy(t, listen(t, mode, w.journal))
		w.links = append(w.links, link)
		scheme, path := "http", []string{"/mcp", "/mcp", "/sse", "/ws"}[i]
		if path == "/ws" {
			scheme = "ws"
		}
		w.remotes = append(w.remotes, scheme+"://"+link.Address()+path)
	}
	w.gateway = gatewaytest.Serve(t, &gatewaytest.Options{Config: w.config(), Flags: []string{"--no-watch"}, Probe: "stdio0"})
	w.gateway.Leave() // its goroutines are counted in the end, which ends it
	return w
}

// config returns the configuration of ten servers, of which one is another each time.
func (w *rig) config() object {
	retry := object{"min": "50ms", "max": "1s", "attempts": 5}
	restart := object{"max": 1000, "window": "60s"} // most of the crashes are our own work
	servers := object{}
	for i := range 6 {
		mode := []string{fault.Legacy, fault.Modern}[i%2]
		name := fmt.Sprint("stdio", i)
		args := []string{name} // by which kill knows it
		if name == replaced {
			args = append(args, fmt.Sprint("generation ", w.generation))
		}
		servers[name] = object{
			"command": w.self, "args": args, "env": fault.Env(mode, w.journal),
			"retry": retry, "restart": restart, "timeout": "20s", "idleStop": idle,
		}
	}
	for i, url := range w.remotes {
		servers[fmt.Sprint("remote", i)] = object{"url": url, "retry": retry, "timeout": "20s", "idleStop": idle}
	}
	return object{"servers": servers, "limits": object{"idleSession": idle}, "log": "warn"}
}

// names are those of the servers; "" is all of them as one.
var names = []string{
	"stdio0", "stdio1", "stdio2", "stdio3", "stdio4", "stdio5", "remote0", "remote1", "remote2", "remote3", "", "",
}

// run lets clients call and accidents happen, for so long.
func (w *rig) run(phase string, d time.Duration) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { w.client(phase, i, stop) }) // ends with stop
	}
	all.Go(func() { w.mishaps(stop) }) // ends with stop
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	close(stop)
	all.Wait()
}

// A measure is what the gateway uses at rest.
type measure struct {
	files, processes int
	memory           int64
}

func (m measure) String() string {
	return fmt.Sprintf("%d files, %d processes, %d MiB", m.files, m.processes, m.memory>>20)
}

// rest waits until gateways have nothing to do, and measures them. They are at rest when
// what they use gets no less any more.
func rest(t *testing.T, gateways ...*gatewaytest.Gateway) []measure {
	t.Helper()
	least := make([]measure, len(gateways))
	for i, g := range gateways {
		if err := gatewaytest.Until(2*gatewaytest.Patience, func() error { return ready(g) }); err != nil {
			t.Fatal(err)
		}
		least[i] = measure{1 << 30, 1 << 30, 1 << 50}
	}
	// Sessions that nobody closed end after a while, and so do pools.
	for unchanged := 0; unchanged < 15; unchanged++ {
		time.Sleep(2 * time.Second) // it is time that has to pass
		for i, g := range gateways {
			all, dead := gatewaytest.Children(g.PID())
			m := measure{gatewaytest.Files(g.PID()), len(all), gatewaytest.Resident(g.PID())}
			if len(dead) > 0 || m.files < least[i].files || m.processes < least[i].processes {
				unchanged = 0
			}
			least[i] = measure{min(m.files, least[i].files), min(m.processes, least[i].processes), min(m.memory, least[i].memory)}
		}
	}
	return least
}

func ready(g *gatewaytest.Gateway) error {
	for name, s := range g.Status() {
		if s.State != "ready" && s.State != "idle" {
			return fmt.Errorf("%s is %s: %s", name, s.State, s.LastError)
		}
	}
	return nil
}

// goroutines ends a gateway and returns how many it had: it says so when it is ended
// by SIGQUIT.
func goroutines(g *gatewaytest.Gateway) int {
	g.Leave()
	g.Signal(syscall.SIGQUIT)
	g.Wait(gatewaytest.Patience)
	n := 0
	for line := range strings.Lines(g.Stderr()) {
		if strings.HasPrefix(line, "goroutine ") && strings.Contains(line, "[") {
			n++
		}
	}
	return n
}

func tail(text string) string { return text[max(0, len(text)-20_000):] }
