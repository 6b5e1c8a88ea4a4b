package fault

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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
