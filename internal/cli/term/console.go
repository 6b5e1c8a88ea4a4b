// Package term is the user interface of the commands: lines on standard error, results on
// standard output, progress, questions at the terminal, and exit statuses.
package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Console is what writes to standard error, which carries no messages. What we tell the
// user, what is logged and what servers write to their standard error are records of one
// handler: short lines on a terminal, key=value elsewhere, or JSON.
type Console struct {
	Log   *slog.Logger // of what is logged
	own   *slog.Logger // of what we say ourselves; the same, unless what is logged is left out
	Level *LogLevel
	Out   *sink
	On    *Screen // where that writes

	byLine     bool // a text of several lines is as many records
	structured bool // records are read by programs: what is known of a problem is in attributes
	lines      bool // records are short lines on a terminal
}

// LevelNone is that of nothing but why we end.
const LevelNone = slog.LevelError + 96

// The formats of what is said.
const (
	FormatAuto = "auto"
	FormatText = "text"
	FormatJSON = "json"
)

// NewConsole returns a console of that level and format.
func NewConsole(level *LogLevel, format string) *Console {
	on := &Screen{File: os.Stderr}
	v := &Console{Level: level, Out: &sink{out: on}, On: on}
	switch {
	case isNull(os.Stderr):
		v.Log = slog.New(slog.DiscardHandler) // a line for each call costs something, too
	case format == FormatJSON:
		v.Log, v.structured = slog.New(slog.NewJSONHandler(redact.JSONWriter{Writer: v.Out}, &slog.HandlerOptions{Level: level, ReplaceAttr: inSeconds})), true
	case format == FormatText || !IsTerminal(os.Stderr):
		v.Log, v.byLine, v.structured = slog.New(&logs.Handler{Out: v.Out, Level: level, Duration: humanize.Duration}), true, true
	default:
		colours := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		v.Log = slog.New(&lineHandler{out: v.Out, level: level, colours: colours, width: func() int {
			width, _ := terminalWidth(os.Stderr)
			return width
		}})
		v.lines = true
	}
	v.own = v.Log
	v.Out.left = func(lines int) { v.own.Warn("lines were left out, because nobody read them in time", "lines", lines) }
	return v
}

// ConsoleOn returns a console that writes short lines without colours, whatever the
// environment says.
func ConsoleOn(w io.Writer) *Console {
	v := &Console{Level: &LogLevel{}, Out: &sink{out: w}}
	v.Log = slog.New(&lineHandler{out: v.Out, level: v.Level, width: func() int { return 0 }})
	v.own = v.Log
	return v
}

// IsTerminal reports whether a person reads what is written to a file, or writes to it.
func IsTerminal(f *os.File) bool {
	_, ok := terminalWidth(f)
	return ok
}

// isNull reports whether what is written to a file is gone.
func isNull(f *os.File) bool {
	this, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(this, null)
}

// inSeconds is how durations are written for programs.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Round(time.Microsecond).Seconds())
	}
	return a
}

// Printf says something that the user should know, in a line or in several. What others
// have said in it cannot play tricks on a terminal.
func (v *Console) Printf(format string, args ...any) { v.say(slog.LevelInfo, format, args...) }

// Announce says where we are, at every level but none: whoever started us needs to know.
func (v *Console) Announce(format string, args ...any) {
	if v.own.Enabled(context.Background(), LevelNone-1) {
		v.write(slog.LevelInfo, redact.Printable(fmt.Sprintf(format, args...), "\n"))
	}
}

// Warnf says something that the user should do something about.
func (v *Console) Warnf(format string, args ...any) { v.say(slog.LevelWarn, format, args...) }

func (v *Console) say(level slog.Level, format string, args ...any) {
	if v.own.Enabled(context.Background(), level) {
		v.write(level, redact.Printable(fmt.Sprintf(format, args...), "\n"))
	}
}

// write says a text whatever the level: in one record, or one a line where lines are read by
// a program that takes each for itself.
func (v *Console) write(level slog.Level, text string) {
	lines := []string{text}
	if v.byLine {
		lines = strings.Split(text, "\n")
	}
	for _, line := range lines {
		_ = v.own.Handler().Handle(context.Background(), slog.NewRecord(time.Now(), level, line, 0)) // there is nowhere else to say it
	}
}

// Problems logs the problems of a configuration, a record for each.
func (v *Console) Problems(r *config.Report) {
	log := func(level slog.Level, problems []config.Problem) {
		for i := range problems {
			if v.own.Enabled(context.Background(), level) {
				v.problem(level, &problems[i])
			}
		}
	}
	log(slog.LevelError, r.Errors)
	log(slog.LevelWarn, r.Warnings)
	if r.Omitted > 0 {
		v.Warnf("and %d more", r.Omitted)
	}
}

// problem logs a problem of a configuration, whatever the level.
func (v *Console) problem(level slog.Level, p *config.Problem) {
	if !v.structured {
		v.write(level, redact.Printable(p.String(), "\n"))
		return
	}
	message := "configuration error"
	if level < slog.LevelError {
		message = "configuration warning"
	}
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.Add("file", p.File)
	if p.Line > 0 {
		record.Add("line", p.Line, "column", p.Column)
	}
	if p.Server != "" {
		record.Add("server", p.Server)
	}
	record.Add("error", p.Message)
	if p.Hint != "" {
		record.Add("hint", p.Hint)
	}
	_ = v.own.Handler().Handle(context.Background(), record) // there is nowhere else to log it
}

// Notice says what the user should know about a server.
func (v *Console) Notice(server string, level slog.Level, text string) {
	v.say(level, "%s: %s", server, text)
}

// sequence finds what moves the cursor or changes colours on a terminal.
var sequence = lazy.Regexp(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?`)

// Stderr says a line of a server's standard error, without secrets and without what could
// play tricks on a terminal.
func (v *Console) Stderr(server, line string) {
	if !v.own.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	line = redact.Text(sequence().ReplaceAllString(strings.ToValidUTF8(line, ""), ""))
	line = strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
	v.own.Info(StderrRecord, "server", server, "line", line)
}

// A spokenError is the error of a command that had made its Console: it is written by
// that, too.
type spokenError struct {
	error
	console *Console
}

// Unwrap returns the error itself.
func (e *spokenError) Unwrap() error { return e.error }

// Finish ends the writing in the background, and returns the error by which a command ends.
func (v *Console) Finish(err error) error {
	v.Out.stop()
	if err == nil {
		return nil
	}
	return &spokenError{err, v}
}

// ReportFailure says why a command ends, whatever the level. A command that has not begun to
// speak says it in a line, or as who called it reads it.
func ReportFailure(c *cobra.Command, args []string, f *Failure, err error) {
	var v *Console
	asJSON := slices.Contains([]string{"json", "ndjson"}, givenValue(c, args, "output"))
	if spoken, ok := errors.AsType[*spokenError](err); ok {
		v = spoken.console
	} else if !asJSON && givenValue(c, args, "log-format") == FormatJSON {
		v = NewConsole(&LogLevel{}, FormatJSON)
	}
	if v == nil {
		f.report(os.Stderr, Width(os.Stderr), asJSON)
		return
	}
	if p, ok := errors.AsType[*config.Problem](err); ok {
		v.problem(slog.LevelError, p)
		return
	}
	v.write(slog.LevelError, f.text())
}

// givenValue returns the value of a flag in lower case, or "". Those behind one that is not
// understood have not been read, and none of a command that is not known.
func givenValue(c *cobra.Command, args []string, name string) string {
	f := c.Flags().Lookup(name)
	switch {
	case f != nil && f.Changed:
		return strings.ToLower(f.Value.String())
	case f == nil && c.HasParent():
		return ""
	}
	for i, arg := range args {
		if arg == "--" {
			break
		}
		for _, flag := range []string{"--" + name, "-" + name[:1]} {
			value, ok := strings.CutPrefix(arg, flag)
			if ok && value == "" && i+1 < len(args) {
				return strings.ToLower(args[i+1])
			}
			if ok && (strings.HasPrefix(value, "=") || !strings.HasPrefix(flag, "--")) {
				return strings.ToLower(strings.TrimPrefix(value, "="))
			}
		}
	}
	return ""
}

// AddConsoleFlags adds the flags of the Console, which all commands have.
func AddConsoleFlags(f *pflag.FlagSet) {
	f.String("log-level", "", "least important `level` of what is said on standard error: "+AnyOf(LogLevels)+" (default info)")
	f.String("log-format", FormatAuto, "how it is said: text (key=value), json, or auto: short lines on a terminal, text elsewhere")
}

// DebugUsage is what the flag --debug means.
const DebugUsage = "show every message on both sides, and every step, on standard error (also: " + DebugVariable + "=1)"

// DebugVariable turns on debug output where no flag says otherwise.
const DebugVariable = "DRAGOMAN_DEBUG"

// ConsoleOf returns the Console of a command, as its flags, the environment or a file say. alias
// is the level that a flag of another program asks for; the file may be nil.
func ConsoleOf(c *cobra.Command, alias string, file *config.File) (*Console, error) {
	flag := func(name string) (string, bool) {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed {
			return "", false
		}
		return f.Value.String(), true
	}
	l := &LogLevel{}
	if err := l.readEnvironment(os.Getenv(DebugVariable)); err != nil {
		return nil, err
	}
	if text, ok := flag("debug"); ok {
		if l.fixed = nil; text == "true" {
			l.fixed = new(slog.LevelDebug)
		} else {
			l.quiet = true
		}
	}
	named, _ := flag("log-level")
	if named = cmp.Or(named, alias); named != "" {
		level, ok := parseLevel(named)
		if !ok {
			return nil, Usage("unknown log level %q: use %s", named, AnyOf(LogLevels))
		}
		l.fixed = &level
	}
	format, given := flag("log-format")
	format = strings.ToLower(format)
	switch {
	case given && format != FormatAuto && format != FormatText && format != FormatJSON:
		return nil, Usage("unknown log format %q: use auto, text or json", format)
	case !given && file != nil:
		format = file.Log.Format
	}
	l.Apply(file)
	return NewConsole(l, format), nil
}

// LogLevels are the names of levels that we tell of.
var LogLevels = []string{"debug", "info", "warn", "error", "none"}

// parseLevel reads the name of a level.
func parseLevel(name string) (slog.Level, bool) {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError, "none": LevelNone,
	}
	level, ok := levels[strings.ToLower(name)]
	return level, ok
}

// A LogLevel is how much is said: what a file says, which may change, unless the command
// line or the environment says it.
type LogLevel struct {
	slog.LevelVar
	fixed *slog.Level // nil if the file says it
	quiet bool        // no debug output, whatever the file says
}

func (l *LogLevel) readEnvironment(text string) error {
	if text == "" {
		return nil
	}
	debug, err := strconv.ParseBool(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s is %q: use 1 or 0", DebugVariable, text)
	case debug:
		l.fixed = new(slog.LevelDebug)
	default:
		l.quiet = true
	}
	return nil
}

// Apply takes over what a file says, which may be nil.
func (l *LogLevel) Apply(file *config.File) {
	level := slog.LevelInfo
	if file != nil {
		if said, ok := parseLevel(file.Log.Level); ok {
			level = said
		}
	}
	if l.quiet {
		level = max(level, slog.LevelInfo)
	}
	if l.fixed != nil {
		level = *l.fixed
	}
	l.Set(level)
}
