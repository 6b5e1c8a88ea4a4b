package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// The environment of a fault server.
const (
	// modeVariable says what the process is: the eras that it serves, or what it
	// does instead. Without it, Main returns.
	modeVariable = "DRAGOMAN_FAULT"

	// JournalVariable holds the path of its journal. With IgnoreTermVariable it
	// does not end by SIGTERM, with IgnoreEOFVariable not by the end of its
	// standard input.
	JournalVariable    = "JOURNAL"
	IgnoreTermVariable = "IGNORE_TERM"
	IgnoreEOFVariable  = "IGNORE_EOF"
)

// What a fault server may be.
const (
	Legacy       = "legacy"       // serves the legacy era alone
	Modern       = "modern"       // serves the modern era alone
	Both         = "both"         // serves both
	Dead         = "dead"         // ends at once, with status 1 and a last word
	Unresponsive = "unresponsive" // lives, and never answers anything

	sleeper = "sleeper"
)

// LastStderrLine is the line on stderr with which a server that is Dead ends.
const LastStderrLine = "fault: dead on arrival"

// Env returns the environment of a fault server, without what it has anyway.
func Env(mode string, j Journal, more ...string) map[string]string {
	env := map[string]string{modeVariable: mode, "GORACE": "atexit_sleep_ms=0"}
	if j != "" {
		env[JournalVariable] = string(j)
	}
	for _, name := range more {
		name, value, ok := strings.Cut(name, "=")
		if !ok {
			value = "1"
		}
		env[name] = value
	}
	return env
}

// inherited are the files that were open when the process began.
var inherited []string

// Main runs the process as a fault server, if its environment says so, and then
// does not return.
func Main() {
	mode := os.Getenv(modeVariable)
	if mode == "" {
		return
	}
	inherited = openFiles()
	if os.Getenv(IgnoreTermVariable) != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	j := Journal(os.Getenv(JournalVariable))
	j.Write(Started, mode)
	switch mode {
	case Dead:
		fmt.Fprintln(os.Stderr, LastStderrLine)
		os.Exit(1)
	case Unresponsive, sleeper:
		forever()
	}
	s := New(&Options{Name: "fault-" + mode, Revisions: Revisions(mode), Journal: j})
	s.wire = newWire(os.Stdin, os.Stdout)
	// Nothing lingers: a call that never ends does not keep the process alive.
	opts := &stdio.Options{MaxMessage: 128 << 20, Framing: stdio.Lines, Linger: -1}
	if err := stdio.ServeIO(context.Background(), s, s.wire, s.wire, opts); err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
	}
	if os.Getenv(IgnoreEOFVariable) != "" {
		forever()
	}
	os.Exit(0)
}

// forever waits until the process is killed.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// A Process is what whoami returns, as JSON in its text.
type Process struct {
	PID, PPID int
	Group     int // the process group; 0 if that is not known
	Args      []string
	Env       []string
	Dir       string
	Umask     string   // in octal; "" if that is not known
	Files     []string // open files beside standard input, output and error
}

func whoami(_ context.Context, c *call) (any, error) {
	p := Process{PID: os.Getpid(), PPID: os.Getppid(), Args: os.Args, Env: os.Environ()}
	p.Dir, _ = os.Getwd()
	// The rest is known on Linux only.
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if mask, ok := strings.CutPrefix(line, "Umask:"); ok {
				p.Umask = strings.TrimSpace(mask)
			}
		}
	}
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		// The name of the program stands in brackets and may hold anything.
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 2 {
			p.Group, _ = strconv.Atoi(fields[2])
		}
	}
	p.Files = inherited
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return c.result(string(text), false), nil
}

// openFiles returns the open files beside the three standard ones. The one that
// reads the directory is gone when it has been read.
func openFiles() (files []string) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, f := range list {
		to, err := os.Readlink("/proc/self/fd/" + f.Name())
		// What the runtime itself opens is no inheritance.
		runtime := strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/sys/fs/cgroup/")
		if n, _ := strconv.Atoi(f.Name()); n > 2 && err == nil && !runtime {
			files = append(files, f.Name()+" "+to)
		}
	}
	return files
}

func grandchild(_ context.Context, c *call) (any, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// It ends when it is killed: it is not waited for, and it holds our standard
	// output open.
	cmd := exec.CommandContext(context.WithoutCancel(context.Background()), self)
	cmd.Env = append(os.Environ(), modeVariable+"="+sleeper)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("fault: the grandchild: %w", err)
	}
	number := strconv.Itoa(cmd.Process.Pid)
	c.journal.Write(Descended, number)
	return c.result(number, false), nil
}
