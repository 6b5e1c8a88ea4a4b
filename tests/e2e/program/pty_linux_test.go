package program

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// A pty is a terminal of so many columns that a program writes to.
type pty struct {
	t    *testing.T
	file *os.File // for the program

	mu   sync.Mutex
	text bytes.Buffer
}

func openPty(t *testing.T, columns uint16) *pty {
	t.Helper()
	const master = "/dev/ptmx"
	m, err := os.OpenFile(master, os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	control := func(request uintptr, value unsafe.Pointer) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, m.Fd(), request, uintptr(value)); errno != 0 {
			t.Skipf("no terminal: %v", errno)
		}
	}
	var unlocked, number int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	size := struct{ rows, columns, x, y uint16 }{24, columns, 0, 0}
	control(syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	v := &pty{t: t}
	if v.file, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	var reading sync.WaitGroup
	// Ends when the terminal is closed on the other side.
	reading.Go(func() { _, _ = io.Copy(v, m) })
	t.Cleanup(func() {
		_ = v.file.Close()
		reading.Wait()
		_ = m.Close()
	})
	return v
}

func (v *pty) Write(text []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.Write(text)
}

// await waits until a part has been written, and returns everything.
func (v *pty) await(part string) string {
	v.t.Helper()
	for limit := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		v.mu.Lock()
		text := v.text.String()
		v.mu.Unlock()
		if strings.Contains(text, part) {
			return strings.ReplaceAll(text, "\r\n", "\n")
		}
		if time.Now().After(limit) {
			v.t.Fatalf("no %q on the terminal:\n%q", part, text)
		}
	}
}

// run starts the command with its standard error, or its output, on the terminal.
func (v *pty) run(output bool, env []string, args ...string) {
	v.t.Helper()
	self, err := os.Executable()
	if err != nil {
		v.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(environ(v.t, mainVariable+"=1", term.DebugVariable+"=", "NO_COLOR=", "TERM=xterm"), env...)
	cmd.Stderr = v.file
	if output {
		cmd.Stdout = v.file
	}
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		watch := time.AfterFunc(soon, func() { _ = cmd.Process.Kill() })
		defer watch.Stop()
		_ = cmd.Wait()
	})
}

func TestATerminalGetsShortLinesInColours(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		env     []string
		colours bool
	}{
		{"colours", nil, true},
		{"NO_COLOR", []string{"NO_COLOR=1"}, false},
		{"dumb", []string{"TERM=dumb"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			const columns = 70
			v := openPty(t, columns)
			v.run(false, test.env, "run", "--listen", "127.0.0.1:0")
			text := v.await("for the configuration of a client")
			if strings.Contains(text, "level=") || strings.Contains(text, "\x1b") != test.colours {
				t.Errorf("it says %q", text)
			}
			_, base, _ := strings.Cut(text, "ready: ")
			base, _, _ = strings.Cut(base, "/mcp")
			resp, err := http.Post(base+gateway.CallPath+"/echo", "application/json", strings.NewReader(`{"text":"hi"}`)) //nolint:noctx // it ends with the process
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			for line := range strings.Lines(v.await("tools/call echo")) {
				if strings.Contains(line, "tools/") {
					if !test.colours && len([]rune(line)) > columns+1 {
						t.Errorf("a line of %d characters: %q", len([]rune(line)), line)
					}
					if !strings.Contains(line, "everything") {
						t.Errorf("no server in %q", line)
					}
				}
			}
		})
	}
}

func TestStatusIsDrawnAgainOnATerminal(t *testing.T) {
	t.Parallel()
	f := newFile(t, "servers: {one: "+child(t, "modern")+"}")
	p := startMain(t, "serve", f.path, "--listen", "127.0.0.1:0")
	p.place("http://")
	v := openPty(t, 200)
	v.run(true, nil, "status", "-w", "--interval", "10ms", f.path)
	v.await("\x1b[H\x1b[2J")
	for limit := time.Now().Add(soon); strings.Count(v.await("NAME"), "\x1b[H\x1b[2J") < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it is not drawn again")
		}
	}
}

func TestABarFitsTheTerminalAndGivesWay(t *testing.T) {
	const columns = 40
	v := openPty(t, columns)
	on := &term.Screen{File: v.file}
	t.Setenv("TERM", "xterm")
	p := term.NewProgress(on, strings.Repeat("long", 20))
	p.Show(client.Progress{Progress: 1, Total: 1, Message: "done"})
	drawn := v.await("…")
	if _, bar, _ := strings.Cut(drawn, "\x1b[K"); len([]rune(bar)) >= columns {
		t.Errorf("a bar of %d characters: %q", len([]rune(bar)), bar)
	}
	fmt.Fprintln(on, "a line")
	v.await("…\r\x1b[Ka line\r\n")
	release := on.Hold()
	p.Show(client.Progress{Progress: 1, Total: 1, Message: "done"})
	release()
	fmt.Fprintln(on, "an answer")
	v.await("a line\r\nan answer\r\n")
}

func TestLogLinesOfAServerStandInPlaceOfTheBar(t *testing.T) {
	v := openPty(t, 100)
	v.run(false, nil, "call", "--era", "legacy", "give", "--", "sh", "-c", `while read -r line; do
	id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
	case $line in
	*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"give","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*)
		token=$(printf '%s\n' "$line" | sed -n 's/.*"progressToken":\("[^"]*"\|[0-9]*\).*/\1/p')
		printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'"$token"',"progress":1,"total":2}}'
		printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"by the way"}}'
		result='{"content":[]}' ;;
	*) result='{}' ;;
	esac
	if [ -n "$id" ]; then printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'; fi
done`)
	text := v.await("by the way")
	if !strings.Contains(text, "░") || !strings.Contains(text, "\r\x1b[K[info] by the way\n") {
		t.Errorf("it shows %q", text)
	}
}
