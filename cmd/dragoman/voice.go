package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/redact"
)

// A voice is what we tell the user on standard error, which carries no messages.
type voice struct {
	out io.Writer // gets whole lines
	log *slog.Logger
}

// newVoice returns the voice of that level: debug, info or none.
func newVoice(level string) *voice {
	if level == "none" {
		return &voice{out: io.Discard, log: slog.New(slog.DiscardHandler)}
	}
	return &voice{out: os.Stderr, log: logger(level == "debug")}
}

// say writes a line.
func (v *voice) say(format string, args ...any) {
	_, _ = io.WriteString(v.out, "dragoman: "+fmt.Sprintf(format, args...)+"\n") // there is nowhere else to say it
}

// sequence finds what moves the cursor or changes colours on a terminal.
var sequence = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?`)

// repeat writes a line of a server's standard error to ours, without secrets and
// without what could play tricks on a terminal.
func (v *voice) repeat(server, line string) {
	line = redact.Text(sequence.ReplaceAllString(strings.ToValidUTF8(line, ""), ""))
	line = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
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
