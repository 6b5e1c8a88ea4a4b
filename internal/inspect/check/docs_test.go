package check_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/inspect/check"
)

var update = flag.Bool("update", false, "write the table of rules into docs/check.md")

// The table stands between these lines of docs/check.md.
const (
	page  = "../../../docs/check.md"
	begin = "<!-- rules: go test ./internal/inspect/check -run Table -update -->\n"
	end   = "<!-- end of rules -->\n"
)

func TestTheTableOfRulesIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString("| rule | level | what must hold | line |\n|---|---|---|---|\n")
	seen := map[string]bool{}
	for _, r := range check.Rules() {
		if seen[r.ID] {
			t.Errorf("two rules are called %s", r.ID)
		}
		seen[r.ID] = true
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, r.Level, r.Requirement, cmp.Or(r.Line, " "))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is not up to date: run go test ./internal/inspect/check -run Table -update", page)
	}
}
