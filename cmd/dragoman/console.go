package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/redact"
)

// A console is what we tell the user on standard error, which carries no messages.
type console struct {
	out io.Writer // gets whole lines
	log *slog.Logger
}

// newConsole returns the console of that level: debug, info or none.
func newConsole(level string) *console {
	if level == "none" {
		return &console{out: io.Discard, log: slog.New(slog.DiscardHandler)}
	}
	return &console{out: os.Stderr, log: logger(level == "debug")}
}

// printf writes a line, or several. What others have said in it cannot play tricks on a terminal.
func (v *console) printf(format string, args ...any) {
	text := redact.Printable(fmt.Sprintf(format, args...), "\n")
	_, _ = io.WriteString(v.out, "dragoman: "+text+"\n") // there is nowhere else to say it
}

// sequence finds what moves the cursor or changes colours on a terminal.
var sequence = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?`)

// printStderr writes a line of a server's standard error to ours, without secrets and
// without what could play tricks on a terminal.
func (v *console) printStderr(server, line string) {
	line = redact.Text(sequence.ReplaceAllString(strings.ToValidUTF8(line, ""), ""))
	line = strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
	_, _ = io.WriteString(v.out, "["+server+"] "+line+"\n") // as above
}

// level decides how much is said: by the flags, else by the environment.
func (s *settings) level(debugGiven bool, env string) (string, error) {
	switch {
	case s.logLevel != "":
		return s.logLevel, nil
	case !debugGiven:
		debug, err := decideDebug(nil, env, nil)
		if err != nil {
			return "", err
		}
		s.debug = debug
	}
	if s.debug {
		return "debug", nil
	}
	return "info", nil
}

// debugVariable turns on debug output where no flag says otherwise.
const debugVariable = "DRAGOMAN_DEBUG"

// decideDebug decides once, at the start, whether to log every step: by the
// flag if it is given, else by the environment, else by the configuration.
func decideDebug(flag *bool, env string, config *bool) (bool, error) {
	switch {
	case flag != nil:
		return *flag, nil
	case env != "":
		on, err := strconv.ParseBool(env)
		if err != nil {
			return false, fmt.Errorf("%s is %q: use 1 or 0", debugVariable, env)
		}
		return on, nil
	case config != nil:
		return *config, nil
	}
	return false, nil
}
