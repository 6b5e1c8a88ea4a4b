package stdio

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// maxExitLine is how much of a server's last line an ExitError repeats.
const maxExitLine = 1024

// An ExitError says how a server's process ended.
type ExitError struct {
	Command string // as it was given in Command.Path
	Status  int    // -1 if a signal ended it, or if it would not end
	Signal  string // the signal in words, "killed", if one ended it
	Stderr  string // its last line on stderr that was not empty, printable
}

// Error implements error.
func (e *ExitError) Error() string {
	var text string
	switch {
	case e.Signal != "":
		text = fmt.Sprintf("server %q was ended by a signal (%s)", e.Command, e.Signal)
	case e.Status < 0:
		text = fmt.Sprintf("server %q does not end although it was killed", e.Command)
	default:
		text = fmt.Sprintf("server %q exited with status %d", e.Command, e.Status)
	}
	if e.Stderr != "" {
		text += ": last stderr line: " + e.Stderr
	}
	return text
}

// newExitError describes state, which is nil for a process that is still there.
func newExitError(command string, state *os.ProcessState, tail []byte) *ExitError {
	e := &ExitError{Command: command, Status: -1, Stderr: lastLine(tail)}
	if state != nil {
		e.Status = state.ExitCode()
		e.Signal = signalOf(state)
	}
	return e
}

// lastLine returns the last line of text that is not blank, without what could
// play tricks on a terminal or in a log.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	text = bytes.TrimSpace(text)
	if len(text) > maxExitLine {
		text = text[:maxExitLine]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(text), ""))
}
