// Command scorecard runs the tests of the security scorecard, whose cases are the tables
// of docs/security.md, and prints what they come to. Its status is 1 unless all cases of
// weight 3 and 95 % of the others pass.
//
//	go run ./tests/scorecard
//
// It is run in the root of the module, on a machine with nothing else to do: the limits of
// time of tests/e2e/gateway are kept as they are written.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// document has the cases.
const document = "docs/security.md"

// alone are the packages that need the whole machine, one after another, with arguments
// of their own. Their limits of time are as they are written.
var alone = []struct {
	dir  string
	args []string
}{
	{"release", nil},
	{"tests/e2e/gateway", nil},
	{"tests/soak", []string{"-soak", "1m"}}, // make soak takes longer
}

func main() {
	only := flag.String("run", "^TestS[0-9][0-9]", "tests to run, as a regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := score(ctx, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scorecard:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

func score(ctx context.Context, only string) (ok bool, err error) {
	list, err := readTable(document)
	if err != nil {
		return false, err
	}
	packages, err := withCases(os.DirFS("."))
	if err != nil {
		return false, err
	}
	results := map[string]state{}
	for _, a := range alone {
		packages = slices.DeleteFunc(packages, func(p string) bool { return p == a.dir })
	}
	if err := test(ctx, only, packages, nil, nil, results); err != nil {
		return false, err
	}
	for _, a := range alone {
		if err := test(ctx, only, []string{a.dir}, a.args, []string{"DRAGOMAN_STRICT=1"}, results); err != nil {
			return false, err
		}
	}
	for name, result := range results {
		for _, c := range list {
			if slices.Contains(numbers(name), c.number) {
				c.tests[name] = result
			}
		}
	}
	if err := write(os.Stdout, list); err != nil {
		return false, err
	}
	return sumOf(list).ok(), nil
}

// caseTest begins a test of a case.
var caseTest = regexp.MustCompile(`(?m)^func (TestS\d\d\w*)\(`)

// withCases returns the directories of this module that have tests of cases.
func withCases(tree fs.FS) (list []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := fs.Stat(tree, path.Join(name, "go.mod")); err == nil && name != "." || d.Name() == "testdata" {
				return fs.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") || slices.Contains(list, path.Dir(name)) {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err == nil && caseTest.Match(text) {
			list = append(list, path.Dir(name))
		}
		return err
	})
	return list, err
}

// An outcome is a line of go test -json.
type outcome struct {
	Action, Package, Test, Output string
}

// test runs the tests of packages, and adds what came of them. That one fails is no error.
func test(ctx context.Context, only string, packages, more, env []string, results map[string]state) error {
	args := []string{"test", "-json", "-vet=off", "-count=1", "-timeout=15m", "-run", only}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, more...)...) //nolint:gosec // our own packages
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = read(bufio.NewScanner(out), results)
	if wait := cmd.Wait(); err == nil && !isExit(wait) {
		err = wait
	}
	return err
}

// isExit reports whether a program has run to its end, well or not.
func isExit(err error) bool {
	_, ok := errors.AsType[*exec.ExitError](err)
	return err == nil || ok
}

// read takes the results out of the output of go test, and repeats what tests say that
// fail, and packages that do.
func read(lines *bufio.Scanner, results map[string]state) error {
	lines.Buffer(nil, 16<<20)
	said := map[string]*bytes.Buffer{} // by package and test
	for lines.Scan() {
		var o outcome
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			fmt.Fprintln(os.Stderr, lines.Text()) // of the compiler
			continue
		}
		top, _, _ := strings.Cut(o.Test, "/")
		key := o.Package + " " + top
		switch o.Action {
		case "output":
			if said[key] == nil {
				said[key] = &bytes.Buffer{}
			}
			said[key].WriteString(o.Output)
		case "build-output":
			fmt.Fprint(os.Stderr, o.Output)
		case "pass", "fail", "skip":
			if o.Test != top {
				continue
			}
			if top == "" {
				fmt.Fprintf(os.Stderr, "%-4s %s\n", o.Action, o.Package)
			} else {
				add(results, top, o.Action)
			}
			if o.Action == "fail" && said[key] != nil {
				_, _ = os.Stderr.Write(said[key].Bytes())
			}
			delete(said, key)
		}
	}
	return lines.Err()
}

// add notes a result. Of two tests with one name, in two packages, the worse one counts.
func add(results map[string]state, test, action string) {
	result := map[string]state{"pass": passed, "fail": failed, "skip": missing}[action]
	if before, twice := results[test]; twice && (before == failed || result == passed) {
		return
	}
	results[test] = result
}
