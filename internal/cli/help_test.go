package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// every calls f for all commands that users see.
func every(c *cobra.Command, f func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		every(sub, f)
	}
}

func TestEveryHelpBeginsWithExamples(t *testing.T) {
	every(Root(), func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q is not indented", c.CommandPath(), line)
			}
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example", c.CommandPath())
		}
		out := &strings.Builder{}
		c.SetOut(out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		example, use := strings.Index(out.String(), c.Example), strings.Index(out.String(), "Usage:")
		if example < 0 || use < example && c.Runnable() {
			t.Errorf("%s: examples do not come first:\n%s", c.CommandPath(), out)
		}
	})
}

func TestTheManualHasAPageForEveryCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeManual(Root(), dir); err != nil {
		t.Fatal(err)
	}
	every(Root(), func(c *cobra.Command) {
		page := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		text, err := os.ReadFile(page)
		if err != nil || !strings.HasPrefix(string(text), ".TH DRAGOMAN") {
			t.Errorf("%s: %v, %.40s", c.CommandPath(), err, text)
		}
		if _, err := exec.LookPath("groff"); err == nil {
			out, err := exec.Command("groff", "-man", "-ww", "-Tutf8", "-z", page).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("%s: %v\n%s", page, err, out)
			}
		}
	})
}
