//go:build unix

package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

// replaced is the server that is another one after each reload.
const replaced = "stdio5"

// mishaps are accidents, one after the other, several in a second.
func (w *rig) mishaps(stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(100+rand.IntN(400)) * time.Millisecond):
		}
		w.measureMemory()
		switch n % 6 {
		case 0, 2, 4:
			w.kill()
		case 1, 3:
			i := rand.IntN(len(w.links))
			w.accident(fmt.Sprint("remote", i))
			w.links[i].Cut()
		case 5:
			w.mu.Lock()
			w.generation++
			config := w.config()
			w.mu.Unlock()
			w.gateway.Write(config)
			w.accident(replaced)
			w.gateway.Signal(syscall.SIGHUP)
		}
	}
}

// kill kills one of the servers, whose keepers are children of the gateway.
func (w *rig) kill() {
	var servers []int
	keepers, _ := gatewaytest.Children(w.gateway.PID())
	for _, keeper := range keepers {
		children, _ := gatewaytest.Children(keeper)
		servers = append(servers, children...)
	}
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	for _, pid := range servers {
		if name := serverOf(pid); name != "" {
			w.accident(name)
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone already
			return
		}
	}
}

// serverOf returns the name of the server that a process is, which is its first
// argument, or "".
func serverOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if words := strings.Split(string(text), "\x00"); err == nil && len(words) > 1 && slices.Contains(names, words[1]) {
		return words[1]
	}
	return ""
}

// accident notes that one happens to a server now.
func (w *rig) accident(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accidents[server] = time.Now()
}

// notice is how long it may take until everybody knows of an accident: a call that
// begins meanwhile is sent to a server that is gone already.
const notice = 500 * time.Millisecond

// hit reports whether an accident has hit a call that is over now: one that happened
// to its server while it was in progress, or shortly before. A conversation with a
// server that is replaced ends with it, whenever the next call is. What is asked of
// all servers at once is answered without those that are away. It also returns when
// the last accident was. w.mu is locked.
func (w *rig) hit(e *event) (bool, time.Time) {
	last := w.accidents[e.server]
	since := e.began.Add(-notice)
	if e.server == replaced && !e.all {
		since = e.opened.Add(-notice)
	}
	return last.After(since), last
}
