package main

import (
	"bufio"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// root is the directory of the module.
const root = "../.."

// heavyCases are the cases without which there is no release.
var heavyCases = []string{"S02", "S11", "S23", "S27", "S28", "S32", "S35", "S36", "S51", "S58"}

func TestTableHasEveryCaseOnceWithItsWeight(t *testing.T) {
	list, err := readTable(root + "/" + document)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range list {
		if seen[c.number] {
			t.Errorf("%s stands there twice", c.number)
		}
		seen[c.number] = true
		want := 1
		if slices.Contains(heavyCases, c.number) {
			want = heavy
		}
		if c.reason == "" && c.weight != want {
			t.Errorf("the weight of %s is %d, want %d", c.number, c.weight, want)
		}
		if c.reason != "" && want == heavy {
			t.Errorf("%s is not counted, and there is no release without it", c.number)
		}
	}
	for _, number := range heavyCases {
		if !seen[number] {
			t.Errorf("%s is not there", number)
		}
	}
}

// TestEveryCaseHasATestAndEveryTestACase looks at the names alone: what they come to is
// for the scorecard to say.
func TestEveryCaseHasATestAndEveryTestACase(t *testing.T) {
	list, err := readTable(root + "/" + document)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	tree := os.DirFS(root)
	packages, err := withCases(tree)
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`^func (Test\w+_S\d\d_\w*)\(`)
	for _, p := range packages {
		files, err := os.ReadDir(root + "/" + p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			text, err := os.ReadFile(root + "/" + p + "/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range caseTest.FindAllStringSubmatch(string(text), -1) {
				for _, n := range numbers(found[1]) {
					shown[n] = true
				}
			}
			for line := range strings.Lines(string(text)) {
				if m := number.FindStringSubmatch(line); len(m) > 1 && !strings.HasPrefix(m[1], "TestS") {
					t.Errorf("%s carries the number of a case behind another one, and is not run by the scorecard", m[1])
				}
			}
		}
	}
	for _, c := range list {
		if shown[c.number] == (c.reason != "") {
			t.Errorf("%s: has tests: %v, is not counted because: %q", c.number, shown[c.number], c.reason)
		}
		delete(shown, c.number)
	}
	for n := range shown {
		t.Errorf("%s has tests and no row in %s", n, document)
	}
}

func TestResultsAreReadFromTheOutputOfTests(t *testing.T) {
	out := `{"Action":"output","Package":"p","Test":"TestS01_A","Output":"=== RUN\n"}
{"Action":"pass","Package":"p","Test":"TestS01_A/part"}
{"Action":"pass","Package":"p","Test":"TestS01_A"}
{"Action":"fail","Package":"p","Test":"TestS02_S03_B/part"}
{"Action":"fail","Package":"p","Test":"TestS02_S03_B"}
{"Action":"skip","Package":"p","Test":"TestS04_C"}
{"Action":"pass","Package":"q","Test":"TestS02_S03_B"}
{"Action":"fail","Package":"q","Test":"TestS01_A"}
{"Action":"pass","Package":"q"}
`
	results := map[string]state{}
	if err := read(bufio.NewScanner(strings.NewReader(out)), results); err != nil {
		t.Fatal(err)
	}
	want := map[string]state{"TestS01_A": failed, "TestS02_S03_B": failed, "TestS04_C": missing}
	for name, result := range want {
		if results[name] != result {
			t.Errorf("%s: %s, want %s", name, results[name], result)
		}
	}
	if len(results) != len(want) {
		t.Errorf("got %v", results)
	}
}

func TestSumNeedsAllHeavyCasesAndMostOfTheRest(t *testing.T) {
	one := func(weight int, results ...state) *scored {
		c := &scored{number: "S01", weight: weight, tests: map[string]state{}}
		for i, r := range results {
			c.tests[string(rune('a'+i))] = r
		}
		return c
	}
	var nineteen []*scored
	for range 19 {
		nineteen = append(nineteen, one(1, passed, missing))
	}
	out := &scored{number: "S52", reason: "it is not built"}
	for name, row := range map[string]struct {
		list []*scored
		ok   bool
	}{
		"all":                       {append(nineteen[:19:19], one(3, passed), one(1, passed)), true},
		"95 of 100":                 {append(nineteen[:19:19], one(3, passed), one(1, failed)), true},
		"less":                      {append(nineteen[:18:18], one(1, passed, failed), one(1, missing)), false},
		"a heavy one that fails":    {append(nineteen[:19:19], one(3, passed, failed)), false},
		"a heavy one that is not":   {append(nineteen[:19:19], one(3)), false},
		"a heavy one that skips":    {append(nineteen[:19:19], one(3, missing)), false},
		"what is not counted":       {append(nineteen[:19:19], out), true},
		"one that no test has seen": {append(nineteen[:18:18], one(1)), false},
	} {
		if got := sumOf(row.list).ok(); got != row.ok {
			t.Errorf("%s: %v, want %v", name, got, row.ok)
		}
	}
}

func TestPackagesWithCasesAreFoundInThisModuleAlone(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	list, err := withCases(fstest.MapFS{
		"go.mod":               file("module m"),
		"a/a_test.go":          file("package a\n\nfunc TestS01_X(t *testing.T) {}\n"),
		"a/more_test.go":       file("package a\n\nfunc TestS02_X(t *testing.T) {}\n"),
		"b/b_test.go":          file("package b\n\nfunc TestOther(t *testing.T) {}\n"),
		"c/c.go":               file("package c\n\nfunc TestS01_X(t *testing.T) {}\n"),
		"other/go.mod":         file("module o"),
		"other/d/d_test.go":    file("package d\n\nfunc TestS01_X(t *testing.T) {}\n"),
		"a/testdata/x_test.go": file("func TestS01_X(t *testing.T) {}\n"),
	})
	if err != nil || !slices.Equal(list, []string{"a"}) {
		t.Errorf("found %q, %v", list, err)
	}
}
