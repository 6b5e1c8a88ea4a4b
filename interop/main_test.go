package interop_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// patience is how long a test waits for what should come at once. The peers
// share the machine with the race detector and a compiler.
const patience = 20 * time.Second

// quickExit keeps programs with a race detector from sleeping a second at their
// end. It is a setting in the variable GORACE.
const quickExit = "atexit_sleep_ms=0"

// binaries is the folder of the programs that the tests start.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "dragoman-interop-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	os.Setenv("GORACE", quickExit)
	before := runtime.NumGoroutine()
	code := m.Run()
	if code == 0 {
		code = nothingLeft(before)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// nothingLeft fails the run if goroutines or processes are left.
func nothingLeft(before int) int {
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before || len(running()) > 0 {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "processes left: %q\ngoroutines:\n%s\n", running(), stacks[:runtime.Stack(stacks, true)])
			return 1
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0
}

// running returns the processes whose program is one of this module, where the system
// can tell.
func running() []string {
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if program, err := os.Readlink(link); err == nil && strings.HasPrefix(program, binaries) {
			found = append(found, program)
		}
	}
	return found
}

// A program is built when a test first needs it.
type program struct {
	dir, path string // the module's folder and the package in it
	build     sync.Once
	file      string
	err       error
}

var (
	dragomanProgram = program{dir: "..", path: "./cmd/dragoman"}
	goSDKProgram    = program{dir: ".", path: "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"}
	mcpGoProgram    = program{dir: ".", path: "./mcpgoserver"}
)

// in returns the file of the program.
func (p *program) in(t *testing.T) string {
	t.Helper()
	p.build.Do(func() {
		p.file = filepath.Join(binaries, filepath.Base(p.path))
		if runtime.GOOS == "windows" {
			p.file += ".exe"
		}
		args := slices.Concat([]string{"build", "-C", p.dir, "-buildvcs=false", "-pgo=off", "-ldflags=-w", "-o", p.file}, buildFlags, []string{p.path})
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			p.err = fmt.Errorf("go build %s: %w\n%s", p.path, err, out)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.file
}

// command starts the program as a server for our client.
func (p *program) command(t *testing.T) *stdio.Command {
	t.Helper()
	return &stdio.Command{Path: p.in(t), InheritEnv: []string{"GORACE"}}
}

// serve starts a server and returns what of its output matches ready. The server
// ends on an interrupt.
func serve(t *testing.T, cmd *exec.Cmd, ready string) string {
	t.Helper()
	said, _ := serveUntil(t, cmd, ready)
	return said
}

// serveUntil starts a server as serve does. stop ends it before the test does.
func serveUntil(t *testing.T, cmd *exec.Cmd, ready string) (said string, stop func()) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = cmd.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	matched, gone := make(chan string, 1), make(chan struct{})
	go func() { // ends with the process
		defer close(gone)
		pattern := regexp.MustCompile(ready)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if s := pattern.FindString(lines.Text()); s != "" && len(matched) == 0 {
				matched <- s
				continue
			}
			t.Log(lines.Text())
		}
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(patience, func() {
			t.Errorf("%s does not end", cmd.Path)
			cmd.Process.Kill()
		})
		defer kill.Stop()
		<-gone
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
	})
	t.Cleanup(stop)
	select {
	case s := <-matched:
		return s, stop
	case <-gone:
		t.Fatalf("%s has gone", cmd.Path)
	case <-time.After(3 * patience): // interpreters start slowly on a busy machine
		t.Fatalf("%s does not say that it is ready", cmd.Path)
	}
	return "", nil
}
