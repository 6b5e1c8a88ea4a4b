package use

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/signature"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

// callTimeout is how long a tool may take without progress: who calls one by hand can end it.
const callTimeout = 10 * time.Minute

// CallCommand is dragoman call.
func CallCommand() *cobra.Command {
	u, ask := &Target{Wants: Wanted{Least: 1, What: "the tool", Form: "TOOL …"}}, &term.Asking{}
	var args, save string
	var roots []string
	c := &cobra.Command{
		Use:   "call TARGET TOOL [key=value | key:=json ...] | TOOL [...] -- command [args...]",
		Short: "Call a tool",
		Long: `Call a tool and print its result. key=value is of the type that the tool's schema says, so
zip=10001 stays a text where that wants one; key:=json is JSON as it is; a key that comes
again adds to a list. --args has all arguments as JSON; words go over them.

Progress and what the server tells are on standard error. Ctrl-C cancels the call at the
server. What the server asks is asked at the terminal, or answered by --answer; where there
is neither it is refused. The exit status is 5 if the tool fails.

` + TargetHelp,
		Example: `  dragoman call https://mcp.example.com/mcp search query=weather limit=3
  dragoman call echo message=hello -- npx -y @modelcontextprotocol/server-everything
  dragoman call .mcp.json#files read_file --args '{"path": "notes.txt"}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, words []string) error {
			base, err := ReadArguments(args, c.InOrStdin())
			if err != nil {
				return term.Usage("--args: %w", err)
			}
			server, rest, err := u.Take(c, words)
			if err != nil {
				return err
			}
			if err := signature.CheckWords(rest[1:]); err != nil {
				return term.Usage("%w", err)
			}
			ask.In, ask.Out = c.InOrStdin(), u.Console.On
			opts := &client.Options{OnNotification: func(note *dragoman.Message) { showLogMessage(u.Console.On, note) }}
			ask.Handle(opts)
			if len(roots) > 0 {
				opts.Roots = rootsOf(roots)
			}
			s, err := u.Open(c.Context(), server, opts)
			if err != nil {
				return err
			}
			defer s.End()
			return s.call(c.Context(), c, rest, base, save)
		},
	}
	u.Add(c)
	timeout := c.Flags().Lookup("timeout")
	timeout.DefValue, u.Timeout = callTimeout.String(), callTimeout
	c.Flags().StringVar(&args, "args", "", "`JSON` object of all arguments, @FILE, or - for standard input")
	c.Flags().StringVar(&save, "save", "", "`directory` to save images, audio and files in")
	c.Flags().StringArrayVar(&ask.Answers, "answer", nil, "`key=value` that answers what the server asks (repeatable)")
	c.Flags().StringArrayVar(&roots, "root", nil, "`directory` that the server is told of as one of ours (repeatable)")
	return c
}

// maxArguments is how much is read as the arguments of a call.
const maxArguments = dragoman.DefaultMaxMessage

// ReadArguments returns JSON that is given as such, in a file, or on standard input.
func ReadArguments(text string, stdin io.Reader) (json.RawMessage, error) {
	name, isFile := strings.CutPrefix(text, "@")
	switch {
	case text == "":
		return nil, nil
	case text == "-":
		all, err := io.ReadAll(io.LimitReader(stdin, maxArguments+1))
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(all)) == 0 {
			return nil, errors.New("standard input is empty")
		}
		if len(all) > maxArguments {
			return nil, fmt.Errorf("standard input has more than %d MiB", maxArguments>>20)
		}
		text = string(all)
	case isFile:
		all, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		text = string(all)
	}
	if !json.Valid([]byte(text)) {
		return nil, errors.New("that is not JSON")
	}
	return json.RawMessage(text), nil
}

// call calls the tool that the words name.
func (s *Session) call(ctx context.Context, c *cobra.Command, words []string, base json.RawMessage, save string) error {
	name, words := words[0], words[1:]
	arguments := base
	if tool, err := s.toolNamed(ctx, name); err == nil {
		name = tool.Name
		sig := signature.New(name, tool.InputSchema)
		if len(words) > 0 || base == nil {
			if arguments, err = sig.Arguments(base, words); err != nil {
				return term.Usage("%w", err)
			}
		}
		if strange := sig.Unknown(words); len(strange) > 0 {
			s.Use.Console.Warnf("there is no argument %s, which the server may ignore: %s", strings.Join(strange, ", "), sig)
		}
	} else if base == nil || len(words) > 0 {
		return err // without the schema we do not know what is meant
	}
	bar := term.NewProgress(s.Use.Console.On, name)
	waiting := term.NewWaiting(s.Use.Console, name)
	began := time.Now()
	result, err := s.CallTool(ctx, name, arguments, &client.CallOptions{OnProgress: func(at client.Progress) {
		waiting.End() // the bar shows more
		bar.Show(at)
	}})
	took := time.Since(began)
	waiting.End()
	bar.Clear()
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	if result.IsError && s.Use.IsText() {
		out = c.ErrOrStderr()
	}
	if err := s.showResult(out, result, save); err != nil {
		return err
	}
	if result.IsError {
		return &term.Failure{Status: term.ExitError, Err: fmt.Errorf("the tool %s has failed", name)}
	}
	if s.Use.IsText() && term.ToTerminal(c.ErrOrStderr()) {
		fmt.Fprintf(c.ErrOrStderr(), "✓ %s · %s (%s)\n", humanize.Duration(took), redact.Printable(s.Name(), ""), s.How)
	}
	return nil
}

// showResult writes the result of a tool.
func (s *Session) showResult(w io.Writer, r *client.ToolResult, save string) error {
	if !s.Use.IsText() {
		return s.Use.Value(w, r.Raw)
	}
	for i := range r.Content {
		if err := showContent(w, &r.Content[i], save); err != nil {
			return err
		}
	}
	if len(r.Content) == 0 && r.StructuredContent != nil {
		return s.Use.Value(w, r.StructuredContent)
	}
	return nil
}

// showContent writes a part of a result: text as it is, the rest as a line, or to a file.
func showContent(w io.Writer, c *client.Content, save string) (err error) {
	switch {
	case c.Resource != nil:
		return showContents(w, c.Resource, save)
	case c.Data != nil:
		return showData(w, c.Type, c.MIMEType, "", c.Data, save)
	case c.Type == "text":
		return showText(w, c.Text)
	case c.URI != "":
		_, err = fmt.Fprintf(w, "[%s %s]\n", redact.Printable(c.Type, ""), redact.Printable(c.URI, ""))
	default:
		_, err = fmt.Fprintf(w, "[%s] %s\n", redact.Printable(c.Type, ""), redact.Printable(redact.Cut(string(c.Raw), maxRaw), ""))
	}
	return err
}

// maxRaw is how much is shown of a part that we cannot make anything of.
const maxRaw = 1000

// showContents writes what a resource holds.
func showContents(w io.Writer, r *client.ResourceContents, save string) error {
	if r.Blob != nil {
		return showData(w, "resource", r.MIMEType, r.URI, r.Blob, save)
	}
	return showText(w, r.Text)
}

// showText writes a text with a line end. A terminal is protected from what could play tricks
// on it.
func showText(w io.Writer, text string) error {
	if term.ToTerminal(w) {
		text = redact.Printable(text, "\n\t")
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// extensions are those of kinds of data that tools give.
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
	"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac",
	"application/pdf": ".pdf", "application/json": ".json", "application/zip": ".zip", "text/plain": ".txt", "text/html": ".html",
}

// showData says what there is that is no text, or saves it under a name that is free.
func showData(w io.Writer, what, kind, uri string, data []byte, save string) error {
	line := strings.Join(strings.Fields(what+" "+kind+" "+uri), " ")
	if save == "" {
		_, err := fmt.Fprintf(w, "[%s, %s; --save DIR keeps it]\n", redact.Printable(line, ""), humanize.Bytes(int64(len(data))))
		return err
	}
	name, err := saveData(save, what, kind, data)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "[%s, %s: %s]\n", redact.Printable(line, ""), humanize.Bytes(int64(len(data))), filepath.Join(save, name))
	return err
}

// saveData writes data to a new file in a directory, and returns its name. What it is and its
// kind are the server's words: they choose among names of ours.
func saveData(dir, what, kind string, data []byte) (string, error) {
	if !slices.Contains([]string{"image", "audio", "resource"}, what) {
		what = "data"
	}
	kind, _, _ = strings.Cut(kind, ";")
	ending := cmp.Or(extensions[kind], ".bin")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as the user's umask has it
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s-%d%s", what, i, ending)
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) // as above
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(data)
		return name, errors.Join(err, f.Close())
	}
}

// rootsOf answers which directories are ours.
func rootsOf(dirs []string) client.Handler {
	return func(context.Context, json.RawMessage) (any, error) {
		type root struct {
			URI  string `json:"uri"`
			Name string `json:"name"`
		}
		list := make([]root, 0, len(dirs))
		for _, dir := range dirs {
			path, err := filepath.Abs(dir)
			if err != nil {
				return nil, err
			}
			list = append(list, root{fileURL(path), filepath.Base(path)})
		}
		return map[string]any{"roots": list}, nil
	}
}

// showLogMessage tells what a server tells by the way.
func showLogMessage(w io.Writer, note *dragoman.Message) {
	if note.Method() != protocol.NoteMessage {
		return
	}
	var m struct {
		Level, Logger string
		Data          json.RawMessage
	}
	if note.Decode(&m) != nil {
		return
	}
	var text string
	if json.Unmarshal(m.Data, &text) != nil {
		text = string(m.Data)
	}
	fmt.Fprintf(w, "[%s] %s\n", redact.Printable(strings.TrimSpace(m.Level+" "+m.Logger), ""), redact.Printable(redact.Text(text), ""))
}

// fileURL returns the URL of a file.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
