package dragoman_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCoverage holds docs/coverage.md against the tests.
func TestCoverage(t *testing.T) {
	doc, err := os.ReadFile("docs/coverage.md")
	if err != nil {
		t.Fatal(err)
	}
	source, carried := readTests(t)
	rows := regexp.MustCompile(`(?m)^\| ([A-E]\d\d) \|(.*)\|(.*)\|(.*)\|$`).FindAllStringSubmatch(string(doc), -1)
	if len(rows) < 96 {
		t.Errorf("%d rows were read, want all 96", len(rows))
	}
	tests := regexp.MustCompile(`(Test|Fuzz)\w+|peertest`)
	for _, row := range rows {
		number, shown := row[1], tests.FindAllString(row[4], -1)
		if carried[number] && len(shown) == 0 {
			t.Errorf("%s: a test carries the number, but docs/coverage.md names none", number)
		}
		if !strings.Contains(row[3], "–") && len(shown) == 0 {
			t.Errorf("%s: docs/coverage.md says where it is, but not what shows it", number)
		}
		for _, name := range shown {
			if name != "peertest" && !strings.Contains(source, "func "+name+"(") {
				t.Errorf("%s: docs/coverage.md names %s, which does not exist", number, name)
			}
		}
	}
}

// readTests returns the text of all tests, and the numbers that they carry.
func readTests(t *testing.T) (source string, carried map[string]bool) {
	t.Helper()
	var all strings.Builder
	carried = make(map[string]bool)
	named := regexp.MustCompile(`func Test((?:[A-E]\d\d_)+)|"((?:[A-E]\d\d )+)[a-z]`)
	number := regexp.MustCompile(`[A-E]\d\d`)
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node" || d.Name() == "bin" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") && !(strings.HasPrefix(path, "internal/peertest/") && strings.HasSuffix(path, ".go")) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all.Write(text)
		for _, m := range named.FindAllSubmatch(text, -1) {
			for _, n := range number.FindAll(append(m[1], m[2]...), -1) {
				carried[string(n)] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String(), carried
}
