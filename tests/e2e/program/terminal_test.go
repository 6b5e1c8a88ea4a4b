package program

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A terminal is a real one, that of tmux, with the command in its PATH.
type terminal struct {
	t      *testing.T
	socket string
}

// newTerminal opens a terminal that is closed when the test ends.
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	dir := programDirectory(t)
	term := &terminal{t, filepath.Join(dir, "tmux")}
	term.tmux("-f", os.DevNull, "new-session", "-d", "-x", "120", "-y", "40", "env", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "PS1=$ ", "sh")
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() }) // it may have ended
	return term
}

func (m *terminal) tmux(args ...string) string {
	m.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", m.socket}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// types writes a line as a user does.
func (m *terminal) types(line string) {
	m.t.Helper()
	m.tmux("send-keys", "-l", line)
	m.tmux("send-keys", "Enter")
}

// shows waits until the terminal shows a text, and returns all that it shows.
func (m *terminal) shows(text string) string {
	m.t.Helper()
	var screen string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if screen = m.tmux("capture-pane", "-p"); strings.Contains(screen, text) {
			return screen
		}
	}
	m.t.Fatalf("%q is not shown:\n%s", text, screen)
	return ""
}

func TestQuestionsOfAServerAreAskedAtTheTerminal(t *testing.T) {
	t.Parallel()
	m := newTerminal(t)
	m.types("dragoman call test_elicitation message=Who -- dragoman everything; echo status $?")
	m.shows("the server asks: Who")
	m.shows("email")
	m.types("ada@example.com")
	m.shows("username")
	m.types("ada")
	if screen := m.shows("status 0"); !strings.Contains(screen, "ada@example.com") || !strings.Contains(screen, "✓") {
		t.Errorf("it shows\n%s", screen)
	}
	m.types("clear; dragoman call test_sampling prompt=Capital -- dragoman everything; echo status $?")
	m.shows("the server asks for the answer of a model")
	m.types("Paris")
	if screen := m.shows("status 0"); !strings.Contains(screen, "Paris") {
		t.Errorf("it shows\n%s", screen)
	}
}

func TestProgressIsABarAtTheTerminal(t *testing.T) {
	t.Parallel()
	m := newTerminal(t)
	m.types("dragoman call slow ms=3000 steps=30 -- dragoman everything; echo status $?")
	m.shows("█")
	if screen := m.shows("status 0"); strings.Contains(screen, "░") {
		t.Errorf("the bar is left behind:\n%s", screen)
	}
}

func TestCtrlCCancelsACallAtTheServer(t *testing.T) {
	t.Parallel()
	m := newTerminal(t)
	record := filepath.Join(t.TempDir(), "stdin")
	m.types(fmt.Sprintf("dragoman call wait --era legacy -- sh -c 'tee %s | dragoman everything'; echo status $?", record))
	for end := time.Now().Add(30 * time.Second); ; <-time.After(20 * time.Millisecond) {
		text, _ := os.ReadFile(record) // it is there when the server is
		if bytes.Contains(text, []byte("tools/call")) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the tool is not called")
		}
	}
	m.tmux("send-keys", "C-c")
	m.shows("status 130")
	if text, err := os.ReadFile(record); err != nil || !bytes.Contains(text, []byte("notifications/cancelled")) {
		t.Errorf("the server was not told: %v %s", err, text)
	}
}
