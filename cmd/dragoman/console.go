package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/logfmt"
	"github.com/dragoman-mcp/dragoman/internal/people"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A console is our one voice on standard error, which carries no messages. What we tell the
// user, what is logged and what servers write to their standard error are records of one
// handler: short lines on a terminal, key=value elsewhere, or JSON.
type console struct {
	log   *slog.Logger // of what is logged
	own   *slog.Logger // of what we say ourselves; the same, unless what is logged is left out
	level *logLevel
	out   *sink
	on    *screen // where that writes

	byLine bool // a text of several lines is as many records
}

// levelNone is that of nothing but why we end.
const levelNone = slog.LevelError + 96

// The formats of what is said.
const (
	formatAuto = "auto"
	formatText = "text"
	formatJSON = "json"
)

// newConsole returns a console of that level and format.
func newConsole(level *logLevel, format string) *console {
	on := &screen{file: os.Stderr}
	v := &console{level: level, out: &sink{out: on}, on: on}
	switch {
	case isNull(os.Stderr):
		v.log = slog.New(slog.DiscardHandler) // a line for each call costs something, too
	case format == formatJSON:
		v.log = slog.New(slog.NewJSONHandler(redact.JSONWriter{Writer: v.out}, &slog.HandlerOptions{Level: level, ReplaceAttr: inSeconds}))
	case format == formatText || !isTerminal(os.Stderr):
		v.log, v.byLine = slog.New(&logfmt.Handler{Out: v.out, Level: level, Duration: people.Duration}), true
	default:
		colours := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		v.log = slog.New(&lineHandler{out: v.out, level: level, colours: colours, width: func() int {
			width, _ := terminalWidth(os.Stderr)
			return width
		}})
	}
	v.own = v.log
	v.out.left = func(lines int) { v.own.Warn("lines were left out, because nobody read them in time", "lines", lines) }
	return v
}

// consoleOn returns a console that writes short lines without colours, whatever the
// environment says.
func consoleOn(w io.Writer) *console {
	v := &console{level: &logLevel{}, out: &sink{out: w}}
	v.log = slog.New(&lineHandler{out: v.out, level: v.level, width: func() int { return 0 }})
	v.own = v.log
	return v
}

// isTerminal reports whether a person reads what is written to a file, or writes to it.
func isTerminal(f *os.File) bool {
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

// printf says something that the user should know, in a line or in several. What others
// have said in it cannot play tricks on a terminal.
func (v *console) printf(format string, args ...any) { v.say(slog.LevelInfo, format, args...) }

// announce says where we are, at every level but none: whoever started us needs to know.
func (v *console) announce(format string, args ...any) {
	if v.own.Enabled(context.Background(), levelNone-1) {
		v.write(slog.LevelInfo, redact.Printable(fmt.Sprintf(format, args...), "\n"))
	}
}

// warnf says something that the user should do something about.
func (v *console) warnf(format string, args ...any) { v.say(slog.LevelWarn, format, args...) }

func (v *console) say(level slog.Level, format string, args ...any) {
	if v.own.Enabled(context.Background(), level) {
		v.write(level, redact.Printable(fmt.Sprintf(format, args...), "\n"))
	}
}

// write says a text whatever the level: in one record, or one a line where lines are read by
// a program that takes each for itself.
func (v *console) write(level slog.Level, text string) {
	lines := []string{text}
	if v.byLine {
		lines = strings.Split(text, "\n")
	}
	for _, line := range lines {
		_ = v.own.Handler().Handle(context.Background(), slog.NewRecord(time.Now(), level, line, 0)) // there is nowhere else to say it
	}
}

// problems says what is wrong with a configuration, a record for each.
func (v *console) problems(r *config.Report) {
	for _, p := range r.Errors {
		v.say(slog.LevelError, "%s", p)
	}
	for _, p := range r.Warnings {
		v.warnf("%s", p)
	}
	if r.Omitted > 0 {
		v.warnf("and %d more", r.Omitted)
	}
}

// notice says what the user should know about a server.
func (v *console) notice(server string, level slog.Level, text string) {
	v.say(level, "%s: %s", server, text)
}

// sequence finds what moves the cursor or changes colours on a terminal.
var sequence = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?`)

// stderr says a line of a server's standard error, without secrets and without what could
// play tricks on a terminal.
func (v *console) stderr(server, line string) {
	if !v.own.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	line = redact.Text(sequence.ReplaceAllString(strings.ToValidUTF8(line, ""), ""))
	line = strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
	v.own.Info(stderrRecord, "server", server, "line", line)
}

// A spokenError is the error by which a command ends that had begun to speak: it is said
// in the same voice.
type spokenError struct {
	error
	console *console
}

// Unwrap returns the error itself.
func (e *spokenError) Unwrap() error { return e.error }

// finish ends the writing in the background, and returns the error by which a command ends.
func (v *console) finish(err error) error {
	v.out.stop()
	if err == nil {
		return nil
	}
	return &spokenError{err, v}
}

// sayFailure says why a command ends, whatever the level. A command that has not begun to
// speak says it in a line, or as who called it reads it.
func sayFailure(c *cobra.Command, args []string, f *failure, err error) {
	var v *console
	asJSON := slices.Contains([]string{"json", "ndjson"}, givenValue(c, args, "output"))
	if spoken, ok := errors.AsType[*spokenError](err); ok {
		v = spoken.console
	} else if !asJSON && givenValue(c, args, "log-format") == formatJSON {
		v = newConsole(&logLevel{}, formatJSON)
	}
	if v == nil {
		f.report(os.Stderr, asJSON)
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

// addVoice adds the flags that say how we speak, which all commands have.
func addVoice(f *pflag.FlagSet) {
	f.String("log-level", "", "least important `level` of what is said on standard error: "+anyOf(logLevels)+" (default info)")
	f.String("log-format", formatAuto, "how it is said: text (key=value), json, or auto: short lines on a terminal, text elsewhere")
}

// debugUsage is what the flag --debug means.
const debugUsage = "show every message on both sides, and every step, on standard error (also: " + debugVariable + "=1)"

// debugVariable turns on debug output where no flag says otherwise.
const debugVariable = "DRAGOMAN_DEBUG"

// consoleOf returns how a command speaks: as its flags, the environment or a file say. alias
// is the level that a flag of another program asks for; the file may be nil.
func consoleOf(c *cobra.Command, alias string, file *config.File) (*console, error) {
	flag := func(name string) (string, bool) {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed {
			return "", false
		}
		return f.Value.String(), true
	}
	l := &logLevel{}
	if err := l.readEnvironment(os.Getenv(debugVariable)); err != nil {
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
			return nil, usage("unknown log level %q: use %s", named, anyOf(logLevels))
		}
		l.fixed = &level
	}
	format, given := flag("log-format")
	format = strings.ToLower(format)
	switch {
	case given && format != formatAuto && format != formatText && format != formatJSON:
		return nil, usage("unknown log format %q: use auto, text or json", format)
	case !given && file != nil:
		format = file.Log.Format
	}
	l.apply(file)
	return newConsole(l, format), nil
}

// logLevels are the names of levels that we tell of.
var logLevels = []string{"debug", "info", "warn", "error", "none"}

// parseLevel reads the name of a level.
func parseLevel(name string) (slog.Level, bool) {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError, "none": levelNone,
	}
	level, ok := levels[strings.ToLower(name)]
	return level, ok
}

// A logLevel is how much is said: what a file says, which may change, unless the command
// line or the environment says it.
type logLevel struct {
	slog.LevelVar
	fixed *slog.Level // nil if the file says it
	quiet bool        // no debug output, whatever the file says
}

func (l *logLevel) readEnvironment(text string) error {
	if text == "" {
		return nil
	}
	debug, err := strconv.ParseBool(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s is %q: use 1 or 0", debugVariable, text)
	case debug:
		l.fixed = new(slog.LevelDebug)
	default:
		l.quiet = true
	}
	return nil
}

// apply takes over what a file says, which may be nil.
func (l *logLevel) apply(file *config.File) {
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
