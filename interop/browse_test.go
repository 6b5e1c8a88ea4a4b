//go:build npm || browser || conformance

package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// browseProgram is the browser of tests without a person.
var browseProgram = program{dir: ".", path: "./browse"}

// A headless is how processes of a test open pages: by browse.
type headless struct {
	t         *testing.T
	log, hold string
	mayFail   bool // a page that is an error fails no test
}

// newHeadless has pages opened at once, unless they are held. Then they are
// opened when release is called.
func newHeadless(t *testing.T, held bool) *headless {
	t.Helper()
	h := &headless{t: t, log: filepath.Join(t.TempDir(), "pages")}
	if held {
		h.hold = filepath.Join(t.TempDir(), "go")
	}
	return h
}

// env is the environment in which pages are opened so.
func (h *headless) env() []string {
	h.t.Helper()
	return []string{"BROWSER=" + browseProgram.in(h.t), "BROWSE_LOG=" + h.log, "BROWSE_HOLD=" + h.hold}
}

// command is the browser for a page.
func (h *headless) command(page string) *exec.Cmd {
	h.t.Helper()
	cmd := exec.Command(browseProgram.in(h.t), page)
	cmd.Env = append(os.Environ(), h.env()...)
	return cmd
}

// open opens a page. The browser is gone when the test ends, which it fails if the page
// cannot be shown.
func (h *headless) open(page string) {
	h.t.Helper()
	cmd := h.command(page)
	out := &strings.Builder{}
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		h.t.Error(err)
		return
	}
	h.t.Cleanup(func() {
		if err := cmd.Wait(); err != nil && !h.mayFail {
			h.t.Errorf("the browser: %v: %s", err, out)
		}
	})
}

// release opens the pages that are held.
func (h *headless) release() {
	h.t.Helper()
	if err := os.WriteFile(h.hold, nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// pages are the URLs of the pages so far, those included that are held.
func (h *headless) pages() []string {
	h.t.Helper()
	text, err := os.ReadFile(h.log)
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return strings.Fields(string(text))
}
