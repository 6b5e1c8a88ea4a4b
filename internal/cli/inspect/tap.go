package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/cli/use"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe/tap"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// A tapping is what is looked at, and where it is shown.
type tapping struct {
	use.Target
	filter   tap.Filter
	body     bool
	to       string
	record   string
	unmasked bool
}

// TapCommand is dragoman tap.
func TapCommand() *cobra.Command {
	t := &tapping{}
	c := &cobra.Command{
		Use:   "tap [flags] [NAME] [FILE] | URL | -- command [args...]",
		Short: "Show the messages between a host and a server, or of a running gateway",
		Long: `Show the messages that pass, a line each.

Before a command or a URL, in the file of a host, tap stands between the two: it starts the command,
or reaches the URL, and passes every message on as it is. Nothing is translated. The lines go to
standard error, or with --to to a file, as hosts keep standard error for themselves. What the
command writes to standard error goes there too, and its exit status is ours.

With a NAME, or nothing, the messages of that server of a running gateway are shown, or of all, on
standard output, until Ctrl-C. The gateway waits for nobody: what comes too fast is not shown, and
counted. If several gateways are running, name the file of one, or its socket with --socket.

Secrets are masked wherever something is shown or written.`,
		Example: `  dragoman tap --to /tmp/files.log -- npx -y some-server
  dragoman tap --record session.ndjson https://mcp.example.com/mcp
  dragoman tap files --errors
  dragoman tap files /etc/dragoman.yaml
  dragoman tap --method 'tools/*' --slow 500ms --body`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return t.run(c, args) },
	}
	t.Add(c)
	f := c.Flags()
	for _, name := range []string{"era", "timeout", "stderr"} {
		_ = f.MarkHidden(name) // they mean nothing to who changes nothing
	}
	f.Lookup("socket").Hidden = false // it tells gateways apart, as of status and logs
	first := c.ValidArgsFunction
	c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // a file
		}
		return first(c, args, typed)
	}
	f.StringArrayVar(&t.filter.Methods, "method", nil, "show messages with this `method` alone, and their answers; * and ? stand for any characters (repeatable)")
	f.BoolVar(&t.filter.Errors, "errors", false, "show errors alone")
	flags.AddDuration(f, &t.filter.Slow, "slow", "", 0, "show answers alone that took `so long`, such as 500ms")
	f.BoolVar(&t.body, "body", false, "show the messages, too, cut after 4 KiB")
	f.StringVar(&t.to, "to", "", "append the lines to a `file`")
	f.StringVar(&t.record, "record", "", "write all messages to a new `file`, for dragoman replay; what is not shown too")
	f.BoolVar(&t.unmasked, "unmasked", false, "with --record, keep the secrets in the file")
	return c
}

func (t *tapping) run(c *cobra.Command, args []string) (err error) {
	dash := c.ArgsLenAtDash()
	switch {
	case t.unmasked && t.record == "":
		return term.Usage("--unmasked is for --record; what is shown is always masked")
	case dash >= 0 && (dash > 0 || len(args) == 0):
		return term.Usage("a command alone follows --")
	case dash < 0 && len(args) > 1 && (len(args) > 2 || target.IsURL(args[0]) || !use.IsFile(args[1])):
		return term.Usage("%q follows %q and is not the file of a gateway; write -- before a command", args[len(args)-1], args[0])
	}
	if err := t.CheckFormat(); err != nil {
		return err
	}
	v, err := term.ConsoleOf(c, "", nil)
	if err != nil {
		return err
	}
	t.Speak(v)
	out := c.OutOrStdout()
	switch {
	case dash >= 0:
		t.Command = args
	case len(args) == 1 && target.IsURL(args[0]):
		t.URL = args[0]
	}
	if t.Command != nil || t.URL != "" {
		out = c.ErrOrStderr() // standard output is the host's
	}
	if err := t.Settings.Check(c); err != nil {
		return term.Usage("%w", err)
	}
	show, done, err := t.shower(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	switch {
	case dash >= 0:
		return t.between(c, args, show)
	case t.URL != "":
		return t.reach(c, show)
	}
	name, files := "", args
	if len(args) == 2 || len(args) == 1 && !use.IsFile(args[0]) {
		name, files = args[0], args[1:]
	}
	return t.gateway(c, name, files, show)
}

// shower returns what shows and records events, and what ends that.
func (t *tapping) shower(out io.Writer) (show func(tap.Event), done func() error, err error) {
	var files []*os.File
	done = func() error {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	open := func(name string, how int) (io.Writer, error) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|how, 0o600)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		return f, nil
	}
	p := &tap.Printer{W: out, Filter: t.filter, Body: t.body, JSON: !t.IsText(), Color: term.ToTerminal(out) && os.Getenv("NO_COLOR") == ""}
	if t.to != "" {
		p.Color = false
		if p.W, err = open(t.to, os.O_APPEND); err != nil {
			return nil, nil, err
		}
	}
	var r *tap.Recorder
	if t.record != "" {
		w, err := open(t.record, os.O_EXCL)
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		r = &tap.Recorder{W: w, Unmasked: t.unmasked}
		if t.unmasked {
			t.Console.Warnf("%s will have all secrets that pass; keep it to yourself", t.record)
		}
	}
	said := false
	return func(e tap.Event) {
		failed := p.Show(e)
		if r != nil {
			failed = errors.Join(failed, r.Record(e))
		}
		if failed != nil && !said {
			said = true // the messages pass all the same
			t.Console.Warnf("not all is shown or written: %v", failed)
		}
	}, done, nil
}

// between stands between a host and a command.
func (t *tapping) between(c *cobra.Command, command []string, show func(tap.Event)) error {
	env, _, err := t.Environment() // it has all of ours anyway
	if err != nil {
		return term.Usage("%w", err)
	}
	run := &tap.Command{Args: command, Dir: t.Cwd, Stderr: os.Stderr}
	for name, value := range env {
		run.Env = append(run.Env, name+"="+value)
	}
	stream := tap.NewStream(show)
	err = stream.Relay(c.Context(), os.Stdin, os.Stdout, run)
	t.finish(stream)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if c.Context().Err() != nil {
			return context.Canceled
		}
		return &term.Failure{Status: max(exit.ExitCode(), term.ExitOther), Code: term.Codes[term.ExitOther], Err: fmt.Errorf("%s has ended: %w", command[0], err)}
	}
	if err != nil {
		return &term.Failure{Status: term.ExitUnreachable, Err: err, Hint: "give the full path of the command: hosts may have another PATH"}
	}
	return nil
}

// finish waits until all has been shown.
func (t *tapping) finish(stream *tap.Stream) {
	if n := stream.Close(); n > 0 {
		t.Console.Warnf("the last %d messages are not shown: they came too fast", n)
	}
}

// reach stands between a host and a URL.
func (t *tapping) reach(c *cobra.Command, show func(tap.Event)) error {
	server, err := t.Named(c)
	if err != nil {
		return err
	}
	v := t.Console
	reached, err := t.Target.Reach(server, upstream.ReachOptions{SignIn: t.SignIn.Options(true, v), DialTimeout: cmp.Or(t.DialTimeout, use.ConnectURL)})
	if err != nil {
		return err
	}
	defer reached.Close()
	stream := tap.NewStream(show)
	defer t.finish(stream)
	out := stream.Writer(tap.Server, os.Stdout)
	defer func() { _ = out.Close() }() // it has no error
	return stdio.ServeIO(c.Context(), passing{reached}, stream.Reader(tap.Client, os.Stdin), out, &stdio.Options{MaxMessage: t.MaxMessage, Logger: v.Log})
}

// passing is an acceptor that passes each conversation on to a server as it is.
type passing struct{ dragoman.Dialer }

// Accept implements dragoman.Acceptor.
func (p passing) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	server, err := p.Dial(ctx, client)
	if err != nil {
		return nil, err
	}
	// Ends with the conversation, on either side.
	go func() {
		select {
		case <-client.Done():
		case <-server.Done():
		}
		_ = server.Close() // it is over
		_ = client.Close() // as above
	}()
	return server, nil
}

// gateway shows what passes through a running gateway: that of the files, if there are any.
func (t *tapping) gateway(c *cobra.Command, name string, files []string, show func(tap.Event)) error {
	query := url.Values{}
	if name != "" {
		query.Set("server", name)
	}
	if t.unmasked {
		query.Set("unmasked", "true")
	}
	body, err := control.RequestOf(c.Context(), name, t.Socket, files, http.MethodGet, "/tap?"+query.Encode())
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if term.ToTerminal(os.Stderr) || t.record != "" {
		t.Console.Printf("looking on; Ctrl-C ends")
	}
	for in := json.NewDecoder(body); ; {
		var e tap.Event
		switch err := in.Decode(&e); {
		case c.Context().Err() != nil:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return &term.Failure{Status: term.ExitUnreachable, Err: errors.New("the gateway has ended")}
		case err != nil:
			return err
		}
		show(e)
	}
}
