package dragoman_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated")

const coverageFile = "docs/coverage.md"

// TestCoverage holds docs/coverage.md against the tests. With -update the last
// column is written anew: every test that carries the number of a row, and of
// the others that are named there those that exist.
func TestCoverage(t *testing.T) {
	text, err := os.ReadFile(coverageFile)
	if err != nil {
		t.Fatal(err)
	}
	tests := readTests(t)
	rows, doc := 0, string(text)
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-E]\d\d) \|(.*)\|(.*)\|(.*)\|$`).FindAllStringSubmatch(doc, -1) {
		rows++
		number, where, shown := row[1], row[3], names(row[4])
		want := tests.of(number, shown)
		if *update {
			doc = strings.Replace(doc, row[0], "| "+number+" |"+row[2]+"|"+where+"| "+strings.Join(want, ", ")+" |", 1)
			shown = want
		}
		if !slices.Equal(shown, want) {
			t.Errorf("%s: docs/coverage.md names %v, want %v; run go test . -run Coverage -update", number, shown, want)
		}
		if built := !strings.Contains(where, "–"); built != (len(shown) > 0) {
			t.Errorf("%s: docs/coverage.md says that it is at%s, and is shown by %v", number, where, shown)
		}
	}
	if rows != 96 {
		t.Errorf("%d rows were read, want all 96", rows)
	}
	if *update {
		if err := os.WriteFile(coverageFile, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// names returns the tests that a cell names.
func names(cell string) []string {
	return regexp.MustCompile(`(?:Test|Fuzz)\w+|peertest`).FindAllString(cell, -1)
}

// allTests are the tests of the project.
type allTests struct {
	exist   map[string]bool
	carried map[string]map[string]bool // by number: the tests with it in their name
}

// of returns the tests that show what has a number: those that carry it, and of
// those that were named before the others that exist.
func (a *allTests) of(number string, before []string) []string {
	var list []string
	for _, name := range before {
		if (a.exist[name] || name == "peertest") && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.carried[number])) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// readTests finds all tests, and the numbers that they or their parts carry.
func readTests(t *testing.T) *allTests {
	t.Helper()
	a := &allTests{exist: make(map[string]bool), carried: make(map[string]map[string]bool)}
	begins := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	numbered := regexp.MustCompile(`func Test((?:[A-E]\d\d_)+)|"((?:[A-E]\d\d )+)[a-z]`)
	number := regexp.MustCompile(`[A-E]\d\d`)
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node" || d.Name() == "bin" || d.Name() == ".git") {
			return fs.SkipDir
		}
		suite := strings.HasPrefix(path, "internal/peertest/") && strings.HasSuffix(path, ".go")
		if !suite && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		tests := begins.FindAllSubmatchIndex(text, -1)
		for i, at := range tests {
			end := len(text)
			if i+1 < len(tests) {
				end = tests[i+1][0]
			}
			name := string(text[at[2]:at[3]])
			a.exist[name] = true
			for _, m := range numbered.FindAllSubmatch(text[at[0]:end], -1) {
				for _, n := range number.FindAll(append(m[1], m[2]...), -1) {
					if a.carried[string(n)] == nil {
						a.carried[string(n)] = make(map[string]bool)
					}
					a.carried[string(n)][name] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
