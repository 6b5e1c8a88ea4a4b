// Package examples has complete small programs that use the library.
package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// waitLimit is how long a program may take.
const waitLimit = 60 * time.Second

// build builds a program.
func build(t *testing.T, name string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", at, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return at
}

// run runs a program to its end, and returns what it prints.
func run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", args, err, out)
	}
	return string(out)
}

// start starts a program that continues until the test ends, or end is called, which returns
// all that it has logged. word is the first of its log that begins with a prefix.
func start(t *testing.T, prefix string, args ...string) (word string, end func() string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder // of the goroutine, until read is closed
	found, read := make(chan string, 1), make(chan struct{})
	go func() { // ends with the program
		defer close(read)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(&log, lines.Text())
			for _, word := range strings.Fields(lines.Text()) {
				if prefix != "" && strings.HasPrefix(word, prefix) {
					select {
					case found <- word:
					default:
					}
				}
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	end = sync.OnceValue(func() string {
		_ = in.Close()
		_ = cmd.Process.Kill() // or it has ended
		<-read
		_ = cmd.Wait()
		return log.String()
	})
	t.Cleanup(func() { end() })
	if prefix == "" {
		return "", end
	}
	select {
	case word = <-found:
	case <-time.After(waitLimit):
		t.Fatalf("%s does not say where it is", args)
	}
	return word, end
}

func TestTheServerIsOnThreeTransports(t *testing.T) {
	server, client := build(t, "server"), build(t, "client")
	url, _ := start(t, "http://", server, "127.0.0.1:0")
	for _, where := range []string{server + " 127.0.0.1:0", url, "ws" + strings.TrimSuffix(strings.TrimPrefix(url, "http"), "mcp") + "ws"} {
		out := run(t, client, where, "roll", `{"dice": 3, "sides": 1}`)
		for _, want := range []string{"dice speaks MCP 2026-07-28\n", "- roll: Rolls dice.\n", "1 of 3\n2 of 3\n3 of 3\n", "\n3\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing:\n%s", where, want, out)
			}
		}
	}
}

func TestTheHookOfTheBridgeSeesEveryMessage(t *testing.T) {
	bridge, server, client := build(t, "bridge"), build(t, "server"), build(t, "client")
	url, end := start(t, "http://", bridge, "127.0.0.1:0", server, "127.0.0.1:0")
	if out := run(t, client, url, "roll", `{"dice": 2, "sides": 1}`); !strings.Contains(out, "1 of 2\n2 of 2\n2\n") {
		t.Errorf("it says\n%s", out)
	}
	text := end()
	for _, want := range []string{`client asks {"jsonrpc":"2.0"`, `"method":"tools/call"`, "meanwhile the other tells", `"method":"notifications/progress"`, "client is answered"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not seen:\n%s", want, text)
		}
	}
}

func TestATransportOfItsOwnTakesLessThan100Lines(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("transport", "main.go"))
	if err != nil || strings.Count(string(source), "\n") >= 100 {
		t.Errorf("it has %d lines, %v", strings.Count(string(source), "\n"), err)
	}
	program, dir := build(t, "transport"), t.TempDir()
	start(t, "", program, "serve", dir)
	if out := run(t, program, "call", dir, "hello"); out != "HELLO\n" {
		t.Errorf("it says %q", out)
	}
}
