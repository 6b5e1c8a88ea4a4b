package checklist

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// answer is an answer that a script writes, without its newline.
const answer = `{"jsonrpc":"2.0","id":{id},"result":{"content":[{"type":"text","text":"from stdout"}]}}`

// reflected asks a mirror what it was started with.
func reflected(t *testing.T, c *stdio.Command) (r reflection) {
	t.Helper()
	resp := ask(t, start(t, c), request(t, `1`, "t", `{}`))
	if err := json.Unmarshal(resp.Get("structuredContent"), &r); err != nil {
		t.Fatalf("%v: %s", err, resp)
	}
	return r
}

func serverIsStarted(t *testing.T) {
	args := []string{"plain", "two words", "", `quo"te's`, "$HOME `id` ;|&<>*", "é\t\n", "--flag=x"}
	if r := reflected(t, command(t, "mirror", args...)); !slices.Equal(r.Args, args) {
		t.Errorf("the server has the arguments %q, want %q", r.Args, args)
	}
	if r := reflected(t, command(t, "mirror")); len(r.Args) > 0 {
		t.Errorf("the server has the arguments %q, want none", r.Args)
	}
	_, err := (&stdio.Command{Path: "no-such-server-anywhere"}).Dial(t.Context(), nil)
	if _, ok := errors.AsType[*stdio.StartError](err); !ok || !strings.Contains(err.Error(), "no-such-server-anywhere") {
		t.Errorf("a command that does not exist: %v", err)
	}
}

func variablesReachTheChild(t *testing.T) {
	c := command(t, "mirror")
	c.Env = append(c.Env, "CHECKLIST_KEY=a=b c é", "CHECKLIST_EMPTY=", "HOME=/elsewhere")
	env := reflected(t, c).Env
	for _, want := range []string{"CHECKLIST_KEY=a=b c é", "CHECKLIST_EMPTY=", "HOME=/elsewhere", "PATH=" + os.Getenv("PATH")} {
		if !slices.Contains(env, want) {
			t.Errorf("%q is not in the environment of the server: %q", want, env)
		}
	}
	homes := slices.DeleteFunc(slices.Clone(env), func(s string) bool { return !strings.HasPrefix(s, "HOME=") })
	if len(homes) != 1 {
		t.Errorf("a configured variable does not replace ours: %q", homes)
	}
	// What else is ours comes along if it is asked for, and only then.
	ours := ourVariable + "=" + os.Getenv(ourVariable)
	if slices.Contains(env, ours) {
		t.Errorf("the server has a variable that nobody gave it: %s", ours)
	}
	c.InheritEnv = []string{ourVariable}
	if env = reflected(t, c).Env; !slices.Contains(env, ours) {
		t.Errorf("%s is not in the environment of the server: %q", ours, env)
	}
}

func framesAreLines(t *testing.T) {
	// The caller's message has line ends of its own between the tokens.
	req := parse(t, "{\n \"jsonrpc\": \"2.0\",\r\n \"id\": \"x\",\n \"method\": \"tools/call\",\n"+
		" \"params\": {\"name\": \"t\", \"arguments\": {\"text\": \"é 日本 😀 \u2028 \\n\"}}\n}")
	conn := start(t, command(t, "mirror"))
	for range 2 {
		text := said(t, ask(t, conn, req))
		if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "}\n") || strings.Contains(text, "\r") || !utf8.ValidString(text) {
			t.Fatalf("the server read %q, want one object, on one line", text)
		}
		got, want := parse(t, strings.TrimSpace(text)), string(req.Get("arguments"))
		if protocol.CheckToolRequest(got) != nil || string(got.Get("arguments")) != want {
			t.Errorf("the server read %q, want the arguments %s", text, want)
		}
	}
	server := launch(t, "everything")
	for _, text := range []string{"é 日本 😀 \u2028", "a\nb\r\nc"} {
		server.write(request(t, `1`, "echo", `{"text":`+quote(text)+`}`).String() + "\n")
		wantText(t, parse(t, server.line()), `1`, text)
	}
	if rest, err := server.end(); rest != "" || err != nil {
		t.Errorf("the server wrote more than the answers: %q (%v)", rest, err)
	}
}

func stderrIsApart(t *testing.T) {
	// The server writes to stderr what would be the answer on stdout.
	c := command(t, "script", "read", "err starting", "err "+strings.Replace(answer, "stdout", "stderr", 1), "out "+answer+"\n")
	lines := make(chan string, 8)
	c.OnStderr = func(line string) { lines <- line }
	conn := start(t, c)
	wantText(t, ask(t, conn, request(t, `1`, "t", `{}`)), `1`, "from stdout")
	if got := wait(t, lines, "the first diagnostic"); got != "starting" {
		t.Errorf("the first line of stderr is %q", got)
	}
	if got := wait(t, lines, "the second diagnostic"); !strings.Contains(got, "from stderr") {
		t.Errorf("the second line of stderr is %q", got)
	}
	_ = conn.Close()
	if got := string(conn.Stderr()); !strings.HasPrefix(got, "starting\n{") {
		t.Errorf("stderr was kept as %q", got)
	}

	// Our own server logs every step, and nothing of that reaches stdout.
	server := launch(t, "everything")
	for i := range 3 {
		server.write(request(t, fmt.Sprint(i), "echo", `{"text":"x"}`).String() + "\n")
		wantText(t, parse(t, server.line()), fmt.Sprint(i), "x")
	}
	rest, err := server.end()
	if said := server.diagnostics.String(); rest != "" || err != nil || !strings.Contains(said, "msg=recv") {
		t.Errorf("stdout has %q besides the answers, stderr %q (%v)", rest, said, err)
	}
	for said := range strings.Lines(server.diagnostics.String()) {
		if _, err := dragoman.Parse([]byte(said)); err == nil {
			t.Errorf("a frame on stderr: %s", said)
		}
	}
}

// wantExit fails the test unless err tells how the server ended. On a busy machine
// the exit may come too late after the end of its output to be known.
func wantExit(t *testing.T, err error, status int, last string) {
	t.Helper()
	exit, ok := errors.AsType[*stdio.ExitError](err)
	if ok && (exit.Status != status || exit.Signal != "" || exit.Stderr != last) ||
		!ok && !strings.Contains(err.Error(), "closed its standard output but goes on running") {
		t.Errorf("the end of the server is told as %v", err)
	}
}

func streamsEndCleanly(t *testing.T) {
	// The host closes: the server sees the end of its input, and no signal.
	c := command(t, "mirror")
	c.Grace = patience
	conn := start(t, c)
	ask(t, conn, request(t, `1`, "t", `{}`))
	began := time.Now()
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(began); took > patience/2 || !strings.Contains(string(conn.Stderr()), "end of input") {
		t.Errorf("after %v the server has said %q", took, conn.Stderr())
	}
	wantClosed(t, "after Close", conn.Err())

	// The server exits, or closes its stdout alone.
	for _, last := range []string{"exit 0", "close stdout"} {
		conn = start(t, command(t, "script", "read", "out "+answer+"\n", last))
		wantText(t, ask(t, conn, request(t, `1`, "t", `{}`)), `1`, "from stdout")
		wait(t, conn.Done(), "the end of the conversation after "+last)
		wantClosed(t, last, conn.Err())
		if last == "exit 0" {
			wantExit(t, conn.Err(), 0, "")
		}
	}

	// Our own server answers what it has been asked, and ends in good order.
	server := launch(t, "everything")
	server.write(request(t, `1`, "slow", `{"ms":50}`).String() + "\n")
	rest, err := server.end()
	if err != nil {
		t.Errorf("the server ended with %v: %s", err, server.diagnostics.String())
	}
	wantText(t, parse(t, strings.TrimSpace(rest)), `1`, "Took 50 ms in 1 steps.")
}

func framesAreWhole(t *testing.T) {
	const calls, size = 16, 80 << 10 // more than a pipe holds
	conn := start(t, command(t, "mirror"))
	var replies []<-chan reply
	for i := range calls {
		replies = append(replies, begin(t, conn, request(t, fmt.Sprint(i), "t", `{"text":"`+strings.Repeat(string(rune('a'+i)), size)+`"}`), nil))
	}
	for i := range calls {
		// The mirror ends if it reads a line that is no JSON.
		r := wait(t, replies[i], "an answer of the mirror")
		if r.err != nil {
			t.Fatal(r.err)
		}
		got := parse(t, strings.TrimSpace(said(t, r.resp)))
		if want := `{"text":"` + strings.Repeat(string(rune('a'+i)), size) + `"}`; string(got.Get("arguments")) != want {
			t.Fatalf("call %d reached the server as %.100s…", i, got)
		}
	}

	server := launch(t, "everything")
	for i := range calls {
		server.write(request(t, fmt.Sprint(i), "large", fmt.Sprintf(`{"bytes":%d}`, size+i)).String() + "\n")
	}
	seen := make(map[string]bool)
	for range calls {
		m := parse(t, server.line())
		id, _ := m.ID().Int()
		if text := said(t, m); len(text) != size+int(id) || strings.Trim(text, "x") != "" || seen[m.ID().String()] {
			t.Fatalf("the answer to %s has %d bytes", m.ID(), len(text))
		}
		seen[m.ID().String()] = true
	}
}

func blanksDoNotMatter(t *testing.T) {
	for _, text := range []string{"\n\n \t\n" + answer + "\n", answer + " \t \r\n\r\n", "\r\n" + answer + "  \n  \n"} {
		var log journal
		c := command(t, "script", "read", "out "+text)
		c.Logger = log.logger()
		wantText(t, ask(t, start(t, c), request(t, `1`, "t", `{}`)), `1`, "from stdout")
		if strings.Contains(log.String(), "not a message") {
			t.Errorf("%q: white space was taken for a message: %s", text, log.String())
		}
	}
	server := launch(t, "everything")
	server.write("\n \t \n\r\n" + request(t, `1`, "echo", `{"text":"x"}`).String() + " \t \r\n\n\n")
	server.write("   " + request(t, `2`, "echo", `{"text":"y"}`).String() + "\n \n")
	// They are served side by side.
	texts := map[string]string{`1`: "x", `2`: "y"}
	for range 2 {
		m := parse(t, server.line())
		wantText(t, m, m.ID().String(), texts[m.ID().String()])
	}
	if rest, err := server.end(); rest != "" || err != nil {
		t.Errorf("blank lines were answered: %q (%v)", rest, err)
	}
}

func parseFailuresAreAnswered(t *testing.T) {
	server := launch(t, "everything")
	for _, bad := range []string{`{"jsonrpc":"2.0","id":1,"method":`, `offending payload`, `{"jsonrpc":"2.0"} {}`, "\xff\xfe"} {
		server.write(bad + "\n")
		m := parse(t, server.line())
		if wantError(t, m, protocol.CodeParse, "Parse error", "byte"); !m.ID().IsNull() {
			t.Errorf("%q is answered under the id %s", bad, m.ID())
		}
		server.write(request(t, `2`, "echo", `{"text":"still here"}`).String() + "\n")
		wantText(t, parse(t, server.line()), `2`, "still here")
	}
	if _, err := server.end(); err != nil {
		t.Error(err)
	}
	if said := server.diagnostics.String(); !strings.Contains(said, `offending payload`) {
		t.Errorf("what could not be read is not in the log: %s", said)
	}

	// The host logs what is no message and goes on; a call whose answer cannot be
	// read gets an error in its place.
	var log journal
	c := command(t, "script", "read", "out offending payload\n", "out "+answer+"\n",
		"read", "out "+strings.Replace(answer, "2.0", "1.0", 1)+"\n", "read", "out "+answer+"\n")
	c.Logger = log.logger()
	conn := start(t, c)
	wantText(t, ask(t, conn, request(t, `1`, "t", `{}`)), `1`, "from stdout")
	req := request(t, `2`, "t", `{}`)
	r := wait(t, begin(t, conn, req, nil), "the end of the call whose answer cannot be read")
	if _, ok := errors.AsType[*dragoman.ParseError](r.err); !ok {
		t.Fatalf("an answer that cannot be read is %v, %v", r.resp, r.err)
	}
	wantError(t, protocol.Failure(req, r.err), protocol.CodeInternal, "jsonrpc")
	wantText(t, ask(t, conn, request(t, `3`, "t", `{}`)), `3`, "from stdout")
	if !strings.Contains(log.String(), "offending payload") {
		t.Errorf("what could not be read is not in the log: %s", log.String())
	}
}

func brokenPipeIsFinal(t *testing.T) {
	const calls = 3
	for name, steps := range map[string][]string{
		"exit":         {"read", "read", "read", "err out of memory", "exit 3"},
		"end of file":  {"read", "read", "read", "close stdout"},
		"partial line": {"read", "read", "read", `out {"jsonrpc":"2.0","id":{id},"resu`, "exit 3"},
		"broken pipe":  {"close stdin", "err ready", "stay"},
	} {
		c := command(t, "script", steps...)
		c.Grace = -1
		ready := make(chan string, 4)
		c.OnStderr = func(line string) { ready <- line }
		conn := start(t, c)
		if name == "broken pipe" {
			wait(t, ready, "the end of the server's stdin")
		}
		var replies []<-chan reply
		for i := range calls {
			replies = append(replies, begin(t, conn, request(t, fmt.Sprint(i), "t", `{}`), nil))
		}
		for _, r := range replies {
			wantClosed(t, name+": a call under way", wait(t, r, "the end of a call").err)
		}
		wait(t, conn.Done(), "the end of the conversation")
		wantClosed(t, name, conn.Err())
		if name == "exit" {
			wantExit(t, conn.Err(), 3, "out of memory")
		}
		_, err := conn.Call(t.Context(), request(t, `9`, "t", `{}`), nil)
		wantClosed(t, name+": a call afterwards", err)
		note := parse(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		wantClosed(t, name+": a notification afterwards", conn.Notify(t.Context(), note))
		wantError(t, protocol.Failure(request(t, `9`, "t", `{}`), err), protocol.CodeLost, "closed")
	}
}
