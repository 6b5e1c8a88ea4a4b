//go:build unix

package stdio

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// script returns a command that runs a shell script.
func script(text string, args ...string) *Command {
	return &Command{Path: "sh", Args: append([]string{"-c", text, "sh"}, args...)}
}

// launch starts c and stops it when the test ends.
func launch(t testing.TB, c *Command) *child {
	t.Helper()
	p, err := c.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

// output runs c to its end and returns what it wrote to stdout.
func output(t testing.TB, c *Command) string {
	t.Helper()
	p := launch(t, c)
	text, err := io.ReadAll(p.out())
	if err != nil {
		t.Fatal(err)
	}
	await(t, p)
	if e := p.exit(); e.Status != 0 {
		t.Fatal(e)
	}
	return string(text)
}

// await waits for the end of p.
func await(t testing.TB, p *child) {
	t.Helper()
	select {
	case <-p.done():
	case <-time.After(10 * time.Second):
		t.Fatal("the child is not done after 10 s")
	}
}

// readLine reads one line of what p writes.
func readLine(t testing.TB, p *child) string {
	t.Helper()
	line, err := bufio.NewReaderSize(p.out(), 16).ReadString('\n')
	if err != nil {
		t.Fatalf("reading a line: %v after %q; stderr: %s", err, line, p.stderrTail())
	}
	return strings.TrimSpace(line)
}

// eventually waits until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(peertest.Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

func TestA09_ServerEndsWhenItsStdinCloses(t *testing.T) {
	c := script(`while read line; do echo "got $line"; done; echo bye`)
	c.Grace = 10 * time.Second // a signal would come too late
	p := launch(t, c)
	fmt.Fprintln(p.in(), "one")
	if got := readLine(t, p); got != "got one" {
		t.Fatalf("the server wrote %q", got)
	}
	rest := make(chan string)
	go func() {
		text, _ := io.ReadAll(p.out())
		rest <- string(text)
	}()
	p.stop()
	if got := <-rest; got != "bye\n" {
		t.Errorf("after its stdin closed the server wrote %q, want %q", got, "bye\n")
	}
	if e := p.exit(); e.Status != 0 || e.Signal != "" {
		t.Errorf("the server ended so: %v", e)
	}
}

func TestA09_ServerThatExitsEndsTheStreams(t *testing.T) {
	p := launch(t, script(`echo last; exit 0`))
	text, err := io.ReadAll(p.out())
	if err != nil || string(text) != "last\n" {
		t.Errorf("read %q, %v", text, err)
	}
	await(t, p)
	if _, err := p.in().Write([]byte("x")); err == nil {
		t.Error("a write to the stdin of a server that has ended succeeds")
	}
}

func TestC07_ExitIsDescribed(t *testing.T) {
	for _, test := range []struct {
		script string
		want   ExitError
		text   string
	}{
		{`exit 0`, ExitError{Command: "sh"}, `server "sh" exited with status 0`},
		{`echo "no such key" >&2; echo >&2; exit 3`, ExitError{Command: "sh", Status: 3, Stderr: "no such key"},
			`server "sh" exited with status 3: stderr: no such key`},
		{`kill -9 $$`, ExitError{Command: "sh", Status: -1, Signal: "killed"}, `server "sh" was ended by a signal (killed)`},
		{`printf 'a\nred \033[31malert\r\n' >&2; exit 1`, ExitError{Command: "sh", Status: 1, Stderr: "red [31malert"},
			`server "sh" exited with status 1: stderr: red [31malert`},
	} {
		p := launch(t, script(test.script))
		await(t, p)
		if got := p.exit(); !reflect.DeepEqual(*got, test.want) || got.Error() != test.text {
			t.Errorf("%s: %#v %q\nwant %#v %q", test.script, *got, got, test.want, test.text)
		}
	}
}

func TestS35_StopLadder(t *testing.T) {
	for _, test := range []struct {
		name, script string
		grace        time.Duration
		atLeast      time.Duration
		signal       string
		status       int
	}{
		{"a server that ends with its stdin is not signalled", `echo ready; read x; exit 4`, 10 * time.Second, 0, "", 4},
		{"a server that ignores its stdin is asked", `echo ready; exec sleep 1000`, time.Second, time.Second, "terminated", -1},
		{"a server may clean up when asked", `trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done`, 2 * time.Second, 2 * time.Second, "", 5},
		{"a server that ignores that too is killed", `trap '' TERM; echo ready; while :; do sleep 1000; done`, 50 * time.Millisecond, 100 * time.Millisecond, "killed", -1},
		{"without grace it is killed at once", `trap '' TERM; echo ready; while :; do sleep 1000; done`, -1, 0, "killed", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := script(test.script)
			c.Grace = test.grace
			p := launch(t, c)
			readLine(t, p)
			start := time.Now()
			p.stop()
			if took := time.Since(start); took < test.atLeast {
				t.Errorf("stop took %v, want at least %v", took, test.atLeast)
			}
			if e := p.exit(); e.Signal != test.signal || e.Status != test.status {
				t.Errorf("it ended so: %v", e)
			}
		})
	}
}

// A launcher such as npx may end at once when asked, while the server that it
// started still has to clean up.
func TestStopWaitsForTheWholeGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cleaned")
	c := script(`
		sh -c 'trap "sleep 0.1; echo yes >$1; exit" TERM; echo ready; while :; do sleep 0.01; done' sh "$1" &
		trap 'exit 0' TERM
		while :; do wait; done`, file)
	c.Grace = 2 * time.Second // on a busy machine it may take its time
	p := launch(t, c)
	readLine(t, p)
	p.stop()
	if text, err := os.ReadFile(file); err != nil || string(text) != "yes\n" {
		t.Errorf("the server behind the launcher was not given time: %q, %v", text, err)
	}
}

func TestStopIsForEverybody(t *testing.T) {
	c := script(`echo ready; exec sleep 1000`)
	c.Grace = 10 * time.Millisecond
	p := launch(t, c)
	readLine(t, p)
	var all sync.WaitGroup
	for range 8 {
		all.Go(p.stop)
	}
	all.Wait()
	p.stop()
	select {
	case <-p.done():
	default:
		t.Error("stop returned before done")
	}
}

func TestStopUnblocksReadAndWrite(t *testing.T) {
	c := script(`exec sleep 1000`)
	c.Grace = time.Millisecond
	p := launch(t, c)
	written, read := make(chan error), make(chan error)
	go func() {
		_, err := p.in().Write(make([]byte, 1<<20)) // more than a pipe holds
		written <- err
	}()
	go func() {
		_, err := p.out().Read(make([]byte, 1))
		read <- err
	}()
	p.stop()
	for name, result := range map[string]chan error{"write": written, "read": read} {
		select {
		case err := <-result:
			if err == nil {
				t.Errorf("%s succeeds", name)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s still waits", name)
		}
	}
}

func TestChildSeesBlockingStreams(t *testing.T) {
	// Programs do not expect that a read from stdin fails with EAGAIN.
	p := launch(t, script(`echo ready; cat`))
	readLine(t, p)
	fmt.Fprintln(p.in(), "hello")
	if got := readLine(t, p); got != "hello" {
		t.Errorf("read %q", got)
	}
}

func TestA08_StderrIsApart(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	c := script(`echo out1; echo '{"jsonrpc":"2.0"}' >&2; printf 'err2\r\n' >&2; printf err3 >&2; echo out2`)
	c.OnStderr = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	if got := output(t, c); got != "out1\nout2\n" {
		t.Errorf("stdout is %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(lines, "|"); got != `{"jsonrpc":"2.0"}|err2|err3` {
		t.Errorf("the lines on stderr are %s", got)
	}
}

func TestS07_StderrFloodDoesNotBlockTheServer(t *testing.T) {
	// More than a thousand times what a pipe holds, and a callback that is stuck.
	stuck := make(chan struct{})
	c := script(`head -c 20000000 /dev/zero | tr '\0' x | fold -w 99 >&2; echo; echo the end >&2; echo done`)
	c.OnStderr = func(string) { <-stuck }
	p := launch(t, c)
	if text, err := io.ReadAll(p.out()); err != nil || string(text) != "\ndone\n" {
		t.Errorf("stdout is %q, %v", text, err)
	}
	await(t, p) // although the callback is stuck
	tail := p.stderrTail()
	if len(tail) != 64<<10 || !bytes.HasSuffix(tail, []byte("x\nthe end\n")) && !bytes.HasSuffix(tail, []byte("xthe end\n")) {
		t.Errorf("the tail has %d bytes and ends in %q", len(tail), tail[len(tail)-20:])
	}
	if p.exit().Stderr == "" {
		t.Error("the exit has no last line")
	}
	close(stuck)
	<-p.stderr.ended
}

func TestStderrLines(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"empty lines", "\n\na\n", []string{"", "", "a"}},
		{"no end", "a\nb", []string{"a", "b"}},
		{"a long line is cut", "a\n" + long + "\nb\n", []string{"a", long[:64<<10], "b"}},
		{"so is the last", long, []string{long[:64<<10]}},
		{"just as long as allowed", long[:64<<10] + "\nb", []string{long[:64<<10], "b"}},
	} {
		for _, step := range []int{1 << 20, 4096, 7} {
			var got []string
			r, w := io.Pipe()
			s := newStderrSink(r, func(line string) { got = append(got, line) })
			for text := test.text; text != ""; {
				n := min(step, len(text))
				_, _ = io.WriteString(w, text[:n])
				text = text[n:]
			}
			w.Close()
			<-s.ended
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
				t.Errorf("%s, written %d bytes at a time: %d lines, want %d", test.name, step, len(got), len(test.want))
			}
		}
	}
}

func TestStderrDropsAreCounted(t *testing.T) {
	r, w := io.Pipe()
	first, proceed := make(chan struct{}), make(chan struct{})
	var got []string
	s := newStderrSink(r, func(line string) {
		if len(got) == 0 {
			close(first)
			<-proceed
		}
		got = append(got, line)
	})
	_, _ = io.WriteString(w, "first\n")
	<-first
	line := strings.Repeat("x", 60_000) + "\n"
	for range 30 {
		_, _ = io.WriteString(w, line)
	}
	w.Close()
	eventually(t, "everything is read", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.over
	})
	close(proceed)
	<-s.ended
	if lines := 1<<20/60_001 + 1; len(got) != lines+1 || !strings.Contains(got[lines], fmt.Sprint(31-lines)) {
		t.Errorf("the callback got %d lines, the last is %.80q", len(got), got[len(got)-1])
	}
}

func TestC07_StartExitAndStderrAreLogged(t *testing.T) {
	var log lockedBuffer
	c := script(`echo complaint >&2; exit 7`, "an argument with a secret")
	c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := launch(t, c)
	await(t, p)
	for _, want := range []string{`msg="process started"`, "file=/", "line=complaint", `msg="process ended"`, "status=7"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log has the arguments:\n%s", log.String())
	}
	if (&Command{}).logger().Enabled(context.Background(), slog.LevelError) {
		t.Error("without a logger something is logged")
	}
}

func TestA32_WhatIsNoMessageIsLoggedWithoutSecrets(t *testing.T) {
	var log lockedBuffer
	c := script(`for key in "$MY_API_KEY" "$LONG_TOKEN" "$INHERITED_SECRET"; do
			echo "starting with $key, mode $AUTH_MODE, x${key}x"; echo "complaint about $key" >&2
		done
		echo 'DB_PASSWORD=pw7 token: t9 max_tokens=10'; printf '%0250d%s\n' 0 "$LONG_TOKEN"; exec cat >/dev/null`)
	t.Setenv("INHERITED_SECRET", "zyxwvu")
	c.Env, c.InheritEnv = []string{"MY_API_KEY=k3y", "LONG_TOKEN=abcdefghijkl", "AUTH_MODE=oauth"}, []string{"INHERITED_SECRET"}
	c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	conn, err := c.Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all of it is logged", func() bool {
		return strings.Count(log.String(), `msg="not a message"`) == 5 && strings.Count(log.String(), `line="complaint`) == 3
	})
	_ = conn.Close()
	text := log.String()
	for _, want := range []string{`msg="server wrote text to stdout`, `text="starting with [redacted], mode oauth, xk3yx"`, `text="starting with [redacted], mode oauth, x[redacted]x"`, `line="complaint about [redacted]"`, `DB_PASSWORD=[redacted] token: [redacted] max_tokens=10`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, secret := range []string{"k3y,", "about k3y", "abcd", "zyxwvu", "pw7", "t9"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in\n%s", secret, text)
		}
	}
}

// A lockedBuffer may be written by one goroutine while another reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
