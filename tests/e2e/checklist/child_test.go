package checklist

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

const (
	// roleVariable makes this test binary a program of its own.
	roleVariable = "CHECKLIST_ROLE"

	// ourVariable is in the environment of the tests, and is not one that
	// children inherit by themselves.
	ourVariable = "CHECKLIST_OURS"
)

// roles are the programs that this test binary can be.
var roles = map[string]func(){
	"everything": playEverything,
	"mirror":     playMirror,
	"script":     playScript,
	"caller":     playCaller,
}

// TestMain runs the tests, or a role; never both, or a child would start children.
func TestMain(m *testing.M) {
	stdio.Guard()
	if name, ok := os.LookupEnv(roleVariable); ok {
		play := roles[name]
		if play == nil {
			fatal(fmt.Errorf("there is no role %q", name))
		}
		play()
		os.Exit(0)
	}
	if err := os.Setenv(ourVariable, "inherited"); err != nil {
		fatal(err)
	}
	os.Exit(m.Run())
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

// playEverything is the built-in server, which logs every step to stderr.
func playEverything() {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: jsonrpc.LevelSteps}))
	if err := stdio.Serve(context.Background(), builtin.New(nil), &stdio.Options{Logger: log}); err != nil {
		fatal(err)
	}
}

// A reflection is what a mirror says about itself.
type reflection struct{ Args, Env []string }

// playMirror answers each line that is JSON by the line itself, with its newline,
// and says what it was started with. At the end of its input it says so on stderr.
func playMirror() {
	in := bufio.NewReader(os.Stdin)
	for {
		text, err := in.ReadString('\n')
		var req struct{ ID json.RawMessage }
		switch {
		case err == io.EOF && text == "":
			fmt.Fprintln(os.Stderr, "end of input")
			return
		case err != nil:
			fatal(fmt.Errorf("a line without its end: %.100q: %w", text, err))
		}
		if err := json.Unmarshal([]byte(text), &req); err != nil {
			fatal(fmt.Errorf("a line that is not JSON: %.100q: %w", text, err))
		}
		about, _ := json.Marshal(reflection{os.Args[1:], os.Environ()}) // strings always encode
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"structuredContent":%s}}`+"\n", req.ID, quote(text), about)
	}
}

// playScript does what its arguments say, then waits for the end of its input:
//
//	read        a line from stdin
//	out TEXT    to stdout; {id} is the id in the last line
//	err TEXT    to stderr
//	close NAME  stdin or stdout
//	stay        and look at nothing
//	exit STATUS
func playScript() {
	in := bufio.NewReader(os.Stdin)
	var req struct{ ID json.RawMessage }
	for _, step := range os.Args[1:] {
		verb, what, _ := strings.Cut(step, " ")
		switch what = strings.ReplaceAll(what, "{id}", string(req.ID)); verb + " " + what {
		case "read ":
			text, err := in.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(text, &req)
			}
			if err != nil {
				fatal(err)
			}
		case "close stdin":
			_ = os.Stdin.Close()
		case "close stdout":
			_ = os.Stdout.Close()
		case "stay ":
			time.Sleep(patience) // until it is told to end
		case "out " + what:
			fmt.Print(what)
		case "err " + what:
			fmt.Fprintln(os.Stderr, what)
		case "exit " + what:
			status, _ := strconv.Atoi(what)
			os.Exit(status)
		default:
			fatal(fmt.Errorf("there is no step %q", step))
		}
	}
	_, _ = io.Copy(io.Discard, in)
}

// playCaller calls the tool echo at the URL that its argument is, and writes the
// answer.
func playCaller() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := (&toolhttp.Client{URL: os.Args[1]}).Dial(ctx, nil)
	if err != nil {
		fatal(err)
	}
	defer conn.Close()
	req, err := dragoman.NewRequest(dragoman.IntID(1), "tools/call", json.RawMessage(`{"name":"echo","arguments":{"text":"x"}}`))
	if err != nil {
		fatal(err)
	}
	resp, err := conn.Call(ctx, req, nil)
	if err != nil {
		fatal(err)
	}
	fmt.Println(resp)
}

// roleEnvironment is what a child needs to be one. The race detector would hold up
// each exit by a second.
func roleEnvironment(role string) []string {
	return []string{roleVariable + "=" + role, "GORACE=atexit_sleep_ms=0"}
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// command is a role as a server to be started by our client.
func command(t *testing.T, role string, args ...string) *stdio.Command {
	t.Helper()
	return &stdio.Command{Path: executable(t), Args: args, Env: roleEnvironment(role)}
}

// start starts a server by our client.
func start(t *testing.T, c *stdio.Command) *stdio.Conn {
	t.Helper()
	return dial(t, c).(*stdio.Conn)
}

// A process is a role whose streams the test holds itself.
type process struct {
	t           *testing.T
	cmd         *exec.Cmd
	in          io.WriteCloser
	out         *bufio.Reader
	diagnostics journal // its stderr
}

// launch starts a role without our client. Whatever becomes of the test, it is
// killed at the end, and before that if it takes too long.
func launch(t *testing.T, role string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(executable(t), args...)}
	p.cmd.Env = roleEnvironment(role)
	p.cmd.Stderr = &p.diagnostics
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	limit := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // a second one returns at once
	})
	return p
}

func (p *process) write(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, text); err != nil {
		p.t.Fatalf("writing to the server: %v; it says %s", err, p.diagnostics.String())
	}
}

// line reads one line of stdout, without its end.
func (p *process) line() string {
	p.t.Helper()
	text, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("reading a line: %v after %.300q; the server says %s", err, text, p.diagnostics.String())
	}
	return strings.TrimSuffix(text, "\n")
}

// end closes stdin, and returns the rest of stdout and how the process ended.
func (p *process) end() (rest string, err error) {
	p.t.Helper()
	_ = p.in.Close()
	text, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text), p.cmd.Wait()
}
