package matrix

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	all    = flag.Bool("all", false, "run every cell, not only a covering subset")
	update = flag.Bool("update", false, "write the table to docs/matrix.md; needs -all")
)

// A outcome is what became of one cell: what failed, and what the revisions do
// not have.
type outcome struct {
	failed, lacking []string
}

// TestEveryClientWorksWithEveryServer runs one script of all features in each
// cell of the matrix.
func TestEveryClientWorksWithEveryServer(t *testing.T) {
	table := &table{cells: make(map[[2]side]outcome)}
	t.Run("cells", func(t *testing.T) {
		for i, client := range sides() {
			for j, server := range sides() {
				if !*all && !covering(i, j) {
					continue
				}
				t.Run(fmt.Sprintf("%s client, %s server", client, server), func(t *testing.T) {
					t.Parallel()
					table.note(client, server, show(t, client, server))
				})
			}
		}
	})
	switch {
	case !*all:
	case t.Failed():
		t.Log(table)
	case *update:
		if err := os.WriteFile("../../docs/matrix.md", []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// covering picks cells such that each side meets a few others, and every pair of
// transports and every pair of revisions is met.
func covering(client, server int) bool { return (client+server*5)%9 == 0 }

// show runs the script in one cell.
func show(t *testing.T, client, server side) (v outcome) {
	g := newGuest(t, client, server)
	for _, f := range features() {
		if f.lacks != nil {
			if reason := f.lacks(client.revision, server.revision); reason != "" {
				v.lacking = append(v.lacking, f.name)
				continue
			}
		}
		if err := f.run(g, server.revision); err != nil {
			t.Errorf("%s: %v", f.name, err)
			v.failed = append(v.failed, f.name)
		}
	}
	return v
}

// A table collects the verdicts.
type table struct {
	mu    sync.Mutex
	cells map[[2]side]outcome
}

func (t *table) note(client, server side, v outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[[2]side{client, server}] = v
}

// String is the table as it stands in the documentation.
func (t *table) String() string {
	var b strings.Builder
	b.WriteString(`# The matrix

Every client through one bridge to every server. Each cell runs one script of all features; ` + "`make matrix`" + ` runs them
all and writes this page. **yes** means that everything works; a number means that everything works which
both revisions have, and names a line of the list below.

`)
	all := sides()
	b.WriteString("| client \\ server |")
	for _, server := range all {
		fmt.Fprintf(&b, " %s<br>%s |", server.revision, server.transport)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	var reasons []string
	for _, client := range all {
		fmt.Fprintf(&b, "| %s |", client)
		for _, server := range all {
			fmt.Fprintf(&b, " %s |", t.cells[[2]side{client, server}].mark(&reasons))
		}
		b.WriteString("\n")
	}
	b.WriteString("\nWhat one of the two revisions does not have, and so cannot cross:\n\n")
	for i, r := range reasons {
		fmt.Fprintf(&b, "%d. %s\n", i+1, r)
	}
	b.WriteString("\nWhat every cell does:\n\n")
	for _, f := range features() {
		fmt.Fprintf(&b, "- %s\n", f.name)
	}
	return b.String()
}

// mark is what the table shows of a cell.
func (v outcome) mark(reasons *[]string) string {
	if len(v.failed) > 0 {
		return "**fails**"
	}
	if len(v.lacking) == 0 {
		return "yes"
	}
	reason := strings.Join(v.lacking, ", ")
	if !slices.Contains(*reasons, reason) {
		*reasons = append(*reasons, reason)
	}
	return fmt.Sprint(slices.Index(*reasons, reason) + 1)
}
