package probe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

const (
	maxNoise  = 5 // lines that are shown
	maxStderr = 5
	maxNames  = 12
)

// command looks at a server that is started.
func (p *prober) command(ctx context.Context) {
	t, err := target.New(p.Spec)
	if err != nil {
		p.Verdict = Unreachable
		p.problem("start", "", "%v", err)
		return
	}
	cmd := *t.Dialer.(*stdio.Command) // that is what the target of a command is
	cmd.Grace = p.grace
	pool := rawclient.NewPool(&cmd)
	defer pool.Close()
	p.stage("how it starts")
	w, err := pool.Open(ctx)
	if err != nil {
		p.Verdict = Unreachable
		reason, advice, _ := diagnose.Explain(err)
		p.problem("start", advice, "%s", reason)
		return
	}
	conn := w.(*rawclient.PoolConn) // that is what a Pool opens
	first := conn.Process           // which may get a successor
	answered, alive := p.greet(ctx, conn)
	if !answered {
		pool.Close()
		p.showEnd(first, alive)
		answered = p.tryOther(ctx, &cmd)
	}
	if answered {
		pool.Allow(p.nextGrace())
		p.Began(first.First.Sub(first.Began))
		p.expect = pool.Expect
		p.survey(ctx, pool.Open)
		if p.first != nil {
			p.stage("how it ends")
			pool.Settle()                  // it ends alone, and not beside others
			alive = alive && !first.Died() // or something that was asked has ended it, which is told
			conn.Close()
			pool.Settle()
			p.showEnd(first, alive)
		}
	} else {
		p.Verdict = Unreachable
	}
	p.showStreams(first)
	p.showEnvironment(first, answered)
}

// tryOther reports whether a server that does not answer initialize in lines answers something else.
func (p *prober) tryOther(ctx context.Context, cmd *stdio.Command) bool {
	if cmd.Framing != stdio.ContentLength {
		p.stage("whether it wants frames")
		framed := *cmd
		framed.Framing = stdio.ContentLength
		if x := p.try(ctx, framed, protocol.LatestLegacy); x.Answer != nil && !x.Misnamed { // and not the error of one who reads lines
			p.problem("framing", "write one message a line, or use it with --framing content-length", "it understands frames with a Content-Length header and no lines, which most clients write")
			cmd.Framing = stdio.ContentLength
			return true
		}
	}
	if ctx.Err() != nil {
		return false
	}
	p.stage("whether it speaks the modern era alone")
	return p.try(ctx, *cmd, protocol.Latest).Answer != nil
}

// nextGrace is how long those processes may take to end which are not judged.
func (p *prober) nextGrace() time.Duration { return p.grace / 4 }

// greet makes the first handshake, and reports whether there was an answer, and whether the
// process continues. A conversation that has begun is kept.
func (p *prober) greet(ctx context.Context, conn *rawclient.PoolConn) (answered, alive bool) {
	first := conn.Process
	p.ok("start", "found %s", first.File())
	c := p.client(conn)
	c.Timeout = p.Start
	first.OnNoise = func(text string) { // which is in the report, but that may be a minute away
		p.stage("no answer yet, and text on standard output that is no message: %q", redact.Clip(clean([]string{text})[0]))
	}
	x := c.Begin(ctx)
	if !first.First.IsZero() {
		p.ok("start", "its first output came after %v", humanize.Duration(first.First.Sub(first.Began)))
	}
	if x.Answer == nil {
		_, exited := errors.AsType[*stdio.ExitError](x.Err)
		p.sayNoAnswer(x)
		return false, !exited
	}
	if x.Result() != nil { // something to do, so that what it writes at work is seen, too
		c.Timeout = p.Began(first.First.Sub(first.Began))
		p.examine(c.Ask(ctx, protocol.MethodPing, nil), first)
		p.first = conn
		p.conversations[protocol.LatestLegacy] = &conversation{Client: c, hello: x}
	}
	if len(first.Noise) > 0 {
		p.showNoise(first) // which is told at once
	}
	switch first.Lines.Framing() {
	case stdio.ContentLength:
		p.note("framing", "it answers in frames with a Content-Length header; most clients want lines")
	default:
		p.ok("framing", "lines")
	}
	return true, true
}

// sayNoAnswer says why a server that was started does not answer.
func (p *prober) sayNoAnswer(x *rawclient.Exchange) {
	exit, exited := errors.AsType[*stdio.ExitError](x.Err)
	switch {
	case exited && exit.Signal != "":
		p.problem("start", "run the command by hand and look at what it says", "it was ended by a signal (%s) before it answered", exit.Signal)
	case exited:
		advice := strings.TrimPrefix(diagnose.Subject{CommandLine: true}.Withheld(exit), "; ")
		if advice == "" {
			advice = "run the command by hand; it may want an argument, or a variable that is withheld (-e NAME passes one on)"
		}
		p.problem("start", advice, "it ended with status %d before it answered", exit.Status)
	case errors.Is(x.Err, rawclient.ErrSilent):
		p.problem("start", "it may wait for something else than MCP on its standard input, or still be installing itself", "it runs, and does not answer initialize within %v", p.Start)
	default:
		p.problem("start", "run the command by hand and look at what it says", "it does not answer: %v", x.Err)
	}
}

// showStreams shows what the server wrote besides messages.
func (p *prober) showStreams(first *rawclient.Process) {
	if len(first.Noise) > 0 {
		p.showNoise(first)
	} else if !first.First.IsZero() {
		p.ok("stdout", "messages alone")
	}
	lines := strings.Split(strings.TrimSpace(string(first.Stderr())), "\n")
	if lines[0] == "" && len(lines) == 1 {
		return
	}
	p.note("stderr", "%s; the last:", humanize.Count(len(lines), "line"))
	p.Lines[len(p.Lines)-1].More = clean(lines[max(0, len(lines)-maxStderr):])
}

// showNoise shows the text that the server has written where messages belong by now.
func (p *prober) showNoise(first *rawclient.Process) {
	n := len(first.Noise)
	text := humanize.Count(n, "line") + " of text that is no message"
	i := slices.IndexFunc(p.Lines, func(l Line) bool { return l.Topic == "stdout" })
	if i < 0 {
		i = len(p.Lines)
		p.problem("stdout", "write logs to standard error: standard output is for messages alone, and strict clients end there", "%s", text)
	}
	p.Lines[i].Text, p.Lines[i].More = text, clean(first.Noise[:min(n, maxNoise)])
}

// clean returns lines of a server for a terminal.
func clean(lines []string) (list []string) {
	for _, line := range lines {
		list = append(list, redact.Printable(redact.Text(strings.TrimRight(line, "\r")), ""))
	}
	return list
}

// showEnd ends the first process and shows how it takes that, if it has not ended before.
func (p *prober) showEnd(first *rawclient.Process, alive bool) {
	exit, took, byItself := first.Stop()
	switch {
	case !alive:
	case exit.Signal == "" && byItself && exit.Status == 0:
		p.ok("end", "%v after its standard input is closed", humanize.Duration(took))
	case exit.Signal == "" && byItself:
		p.note("end", "with status %d, %v after its standard input is closed", exit.Status, humanize.Duration(took))
	case byItself:
		p.problem("end", "look at what it does when standard input ends: it must not crash then", "it dies of a signal (%s), %v after its standard input is closed", exit.Signal, humanize.Duration(took))
	default:
		p.problem("end", "end when standard input ends: clients close it to end a server, and who waits for a signal is left behind", "it does not end within %v after its standard input is closed", p.grace)
	}
}

// try starts a process and returns what came of its first request, in a revision.
func (p *prober) try(ctx context.Context, cmd stdio.Command, rev protocol.Revision) *rawclient.Exchange {
	cmd.Grace = p.nextGrace()
	w, err := rawclient.Start(&cmd)
	if err != nil {
		return &rawclient.Exchange{Err: err}
	}
	defer w.Close()
	c := p.client(w)
	c.Revision = rev
	return c.Greet(ctx)
}

// madeByShells are variables that say nothing to a server.
var madeByShells = []string{"SHLVL", "PWD", "OLDPWD", "_"}

// showEnvironment shows which variables the server does not see: first those that it names on its
// standard error, then those that look like secrets.
func (p *prober) showEnvironment(first *rawclient.Process, answered bool) {
	p.Withheld = slices.DeleteFunc(first.Withheld(), func(name string) bool { return slices.Contains(madeByShells, name) })
	const unlikely = 2
	stderr := string(first.Stderr())
	likely := func(name string) int {
		switch {
		case strings.Contains(name, "_") && strings.Contains(stderr, name):
			return 0
		case redact.MayBeSecret(name, ""):
			return 1
		}
		return unlikely
	}
	slices.SortStableFunc(p.Withheld, func(a, b string) int { return likely(a) - likely(b) })
	n := len(p.Withheld)
	if n == 0 {
		return
	}
	names := strings.Join(p.Withheld[:min(n, maxNames)], ", ")
	if n > maxNames {
		names += ", …"
	}
	p.note("environment", "%s withheld: %s", humanize.Count(n, "variable")+map[bool]string{true: " is", false: " are"}[n == 1], names)
	if !answered {
		name := "NAME"
		if likely(p.Withheld[0]) < unlikely {
			name = p.Withheld[0]
		}
		p.Lines[len(p.Lines)-1].Advice = "if it needs one, pass it on with -e " + name
	}
}

// socket looks at a server that is reached by lines over TCP or a Unix socket.
func (p *prober) socket(ctx context.Context) {
	t, err := target.New(p.Spec)
	if err != nil {
		p.Verdict = Unreachable
		p.problem("connect", "", "%v", err)
		return
	}
	at := t.Dialer.(*stdio.Address) // that is what the target of a socket is
	open := func(ctx context.Context) (rawclient.Wire, error) {
		ctx, cancel := context.WithTimeout(ctx, p.Timeout)
		defer cancel()
		return rawclient.DialSocket(ctx, at, p.Spec.Framing)
	}
	began := time.Now()
	w, err := open(ctx)
	if err != nil {
		p.Verdict = Unreachable
		p.problem("connect", "start the server, or correct the address", "%v", err)
		return
	}
	p.ok("connect", "%s %s, %v", at.Network, at.Address, humanize.Duration(time.Since(began)))
	c := p.client(w)
	x := c.Begin(ctx)
	noise := w.(*rawclient.LinkWire).Noise
	w.Close()
	if len(noise) > 0 {
		p.problem("stream", "write nothing but messages to the socket", "%s of text that is no message", humanize.Count(len(noise), "line"))
		p.Lines[len(p.Lines)-1].More = clean(noise[:min(len(noise), maxNoise)])
	}
	if x.Answer == nil {
		p.Verdict = Unreachable
		p.problem("connect", "see that an MCP server listens there, and how it frames messages (--framing)", "initialize is not answered: %s", x.Summary())
		return
	}
	p.survey(ctx, open)
}
