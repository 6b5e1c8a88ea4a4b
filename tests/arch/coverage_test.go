package arch

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated")

// A numberedDoc is a table whose rows have numbers that tests carry in their names.
type numberedDoc struct {
	file   string
	number string // matches the numbers of its rows
	where  bool   // its last but one column names files and directories
	rows   int    // how many there are; zero means one for each number that a test carries
}

var documents = []numberedDoc{
	{file: "docs/coverage.md", number: `[A-E]\d\d`, where: true, rows: 96},
	{file: "docs/scenarios.md", number: `Pain\d+`},
	{file: "docs/security.md", number: `S\d\d`},
}

// TestCoverage holds the numbered documents against the tests. With -update the last
// column is written again: every test that carries the number of a row, and of the others
// that are named there those that exist. Files that are gone become their directories.
func TestCoverage(t *testing.T) {
	tests := readTests(t)
	for _, d := range documents {
		t.Run(path.Base(d.file), func(t *testing.T) {
			text, err := os.ReadFile(d.file)
			if err != nil {
				t.Fatal(err)
			}
			doc := string(text)
			var rows []string
			for _, line := range strings.Split(doc, "\n") {
				if cells := d.cells(line); cells != nil {
					rows = append(rows, cells[1])
					doc = strings.Replace(doc, line, d.check(t, cells, tests), 1)
				}
			}
			d.complete(t, rows, tests)
			if *update {
				if err := os.WriteFile(d.file, []byte(doc), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// cells returns the cells of a row, the first of which is the second; nil if line is none.
func (d *numberedDoc) cells(line string) []string {
	cells := strings.Split(line, "|")
	if len(cells) < 5 || !regexp.MustCompile(`^(`+d.number+`)$`).MatchString(strings.TrimSpace(cells[1])) {
		return nil
	}
	cells[1] = strings.TrimSpace(cells[1])
	return cells
}

// check says what is wrong with a row, and returns it as it should be.
func (d *numberedDoc) check(t *testing.T, cells []string, tests *allTests) string {
	t.Helper()
	number, last := cells[1], len(cells)-2
	shown := names(cells[last])
	want := tests.of(number, shown)
	if !slices.Equal(shown, want) && !*update {
		t.Errorf("%s: %s names %v, want %v; run go test ./tests/arch -run Coverage -update", number, d.file, shown, want)
	}
	built := true
	if d.where {
		where := cells[last-1]
		built = !strings.Contains(where, "–")
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(where, -1) {
			place := existing(name[1])
			if place != name[1] && !*update {
				t.Errorf("%s: %s is not there; run go test ./tests/arch -run Coverage -update", number, name[1])
			}
			where = strings.Replace(where, name[0], "`"+place+"`", 1)
		}
		cells[last-1] = where
	}
	if built != (len(want) > 0) {
		t.Errorf("%s: %s says that it is built: %v, and it is shown by %v", number, d.file, built, want)
	}
	cells[1], cells[last] = " "+number+" ", " "+strings.Join(want, ", ")+" "
	return strings.Join(cells, "|")
}

// complete looks for rows that are missing.
func (d *numberedDoc) complete(t *testing.T, rows []string, tests *allTests) {
	t.Helper()
	for number := range tests.carried {
		if regexp.MustCompile(`^(`+d.number+`)$`).MatchString(number) && !slices.Contains(rows, number) {
			t.Errorf("%s has no row %s, and tests carry that number", d.file, number)
		}
	}
	if d.rows > 0 && len(rows) != d.rows {
		t.Errorf("%s: %d rows were read, want %d", d.file, len(rows), d.rows)
	}
}

// existing returns the nearest thing to a path that is there.
func existing(name string) string {
	for name != "." {
		if _, err := os.Stat(name); err == nil {
			return name
		}
		name = path.Dir(name)
	}
	return name
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

var (
	testBegins = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testPrefix = regexp.MustCompile(`^Test(?:Npm)?(?:Pip)?`)
	subtest    = regexp.MustCompile(`"((?:(?:[A-E]\d\d|S\d\d|Pain\d+) )+)[a-z]`)
	number     = regexp.MustCompile(`^([A-E]\d\d|S\d\d|Pain\d+)$`)
)

// read finds the tests in the text of a file, and the numbers that they or their parts
// carry.
func (a *allTests) read(text string) {
	tests := testBegins.FindAllStringSubmatchIndex(text, -1)
	for i, at := range tests {
		end := len(text)
		if i+1 < len(tests) {
			end = tests[i+1][0]
		}
		name := text[at[2]:at[3]]
		a.exist[name] = true
		parts := strings.Split(testPrefix.ReplaceAllString(name, ""), "_")
		for _, m := range subtest.FindAllStringSubmatch(text[at[0]:end], -1) {
			parts = append(parts, strings.Fields(m[1])...)
		}
		for _, n := range parts {
			if !number.MatchString(n) {
				continue
			}
			if a.carried[n] == nil {
				a.carried[n] = make(map[string]bool)
			}
			a.carried[n][name] = true
		}
	}
}

// readTests finds all tests of the project.
func readTests(t *testing.T) *allTests {
	t.Helper()
	a := &allTests{exist: make(map[string]bool), carried: make(map[string]map[string]bool)}
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node" || d.Name() == "bin" || d.Name() == ".git") {
			return fs.SkipDir
		}
		suite := strings.HasPrefix(path, "internal/testkit/peertest/") && strings.HasSuffix(path, ".go")
		if !suite && !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		a.read(string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
