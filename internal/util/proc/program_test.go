//go:build unix

package proc_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/proc"
)

// tree makes a directory with executables, each with a mode and what it has, and
// links. Where links end is another word, with @ for the directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(strings.ReplaceAll(target, "@", dir), path)
		} else {
			err = os.WriteFile(path, []byte(strings.ReplaceAll(text, "@", dir)), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// chmod changes modes whatever the umask is.
func chmod(t *testing.T, mode fs.FileMode, path ...string) {
	t.Helper()
	if err := os.Chmod(filepath.Join(path...), mode); err != nil {
		t.Fatal(err)
	}
}

func TestS36_ProgramsAreFoundWithoutSurprises(t *testing.T) {
	dir := tree(t, map[string]string{"safe/server": "", "server": "", "open/server": "", "loose/server": "", "plain/server": "", "safe/fifo/x": ""})
	t.Chdir(dir)
	chmod(t, 0o777, dir, "open")
	chmod(t, 0o777, dir, "loose/server")
	chmod(t, 0o644, dir, "plain/server")
	for _, test := range []struct {
		name, dir, path string // with @ for the directory
		want            string
		is              error
	}{
		{"", "", "@/safe", "", proc.ErrName},
		{".", "", "@/safe", "", proc.ErrName},
		{"..", "", "@/safe", "", proc.ErrName},
		{"ser\x00ver", "", "@/safe", "", proc.ErrName},
		{"server", "", "", "", exec.ErrNotFound},
		{"server", "", "/nowhere", "", exec.ErrNotFound},
		{"server", "", ".::./safe:safe:", "", exec.ErrNotFound},
		{"server", "@/safe", "/nowhere", "", exec.ErrNotFound},
		{"server", "", "@/open", "", proc.ErrExposed},
		{"server", "", "@/loose", "", proc.ErrExposed},
		{"server", "", "@/plain", "", proc.ErrNotExecutable},
		{"fifo", "", "@/safe", "", exec.ErrNotFound},
		{"server", "", ":.:@/open:@/loose:@/plain:@/safe:@", "@/safe/server", nil},
		{"./server", "", "", "@/server", nil},
		{"./server", "@/safe", "", "@/safe/server", nil},
		{"../server", "@/safe", "", "@/server", nil},
		{"@/safe/server", "/", "", "@/safe/server", nil},
		{"@/safe", "", "", "", proc.ErrDirectory},
		{"@/safe/none", "", "", "", fs.ErrNotExist},
		{"@/server/none", "", "", "", fs.ErrNotExist},
	} {
		full := func(s string) string { return strings.ReplaceAll(s, "@", dir) }
		got, err := (&proc.Search{Dir: full(test.dir), Path: full(test.path)}).Find(full(test.name))
		if got != full(test.want) || !errors.Is(err, test.is) {
			t.Errorf("%q in %q on %q is %q, %v; want %q, %v", test.name, test.dir, test.path, got, err, test.want, test.is)
		}
		if err != nil && proc.Advice(err) == "" {
			t.Errorf("no advice for %v", err)
		}
	}
}

func TestS36_ProgramsThatOthersMayReplaceAreKnown(t *testing.T) {
	const stranger = 54321
	for _, test := range []struct {
		name   string
		change func(dir string) error
		says   string // "" if nobody may
	}{
		{"as it should be", nil, ""},
		{"a file for everyone", func(d string) error { return os.Chmod(d+"/a/b/server", 0o757) }, "everyone may write to it"},
		{"a directory for everyone", func(d string) error { return os.Chmod(d+"/a/b", 0o777) }, "everyone may write to @/a/b"},
		{"a directory like /tmp", func(d string) error { return os.Chmod(d+"/a/b", 0o777|fs.ModeSticky) }, "everyone may write to @/a/b"},
		{"a directory above", func(d string) error { return os.Chmod(d+"/a", 0o777) }, "everyone may write to @/a"},
		{"a directory above, like /tmp", func(d string) error { return os.Chmod(d+"/a", 0o777|fs.ModeSticky) }, ""},
		{"where a link lies", func(d string) error { return os.Chmod(d+"/links", 0o777) }, "everyone may write to @/links"},
		{"where a directory's link lies", func(d string) error { return os.Chmod(d+"/far", 0o777) }, "everyone may write to @/far"},
		{"our own group", func(d string) error { return os.Chmod(d+"/a/b/server", 0o775) }, ""},
		{"another group", func(d string) error {
			return errors.Join(os.Chown(d+"/a/b/server", 0, stranger), os.Chmod(d+"/a/b/server", 0o775))
		}, "the group 54321 may write to it"},
		{"another group's directory", func(d string) error { return errors.Join(os.Chown(d+"/a/b", 0, stranger), os.Chmod(d+"/a/b", 0o775)) }, "the group 54321 may write to @/a/b"},
		{"a group that may only read", func(d string) error { return os.Chown(d+"/a/b/server", 0, stranger) }, ""},
		{"the owner's own group", func(d string) error {
			return errors.Join(os.Chown(d+"/a/b/server", stranger, stranger), os.Chmod(d+"/a/b/server", 0o775))
		}, ""},
		{"a stranger's directory in one like /tmp", func(d string) error {
			return errors.Join(os.Chown(d+"/a/b", stranger, stranger), os.Chmod(d+"/a", 0o777|fs.ModeSticky))
		}, "everyone may write to @/a"},
	} {
		dir := tree(t, map[string]string{"a/b/server": "", "links/server": "-> ../near/server", "near": "-> @/far/away", "far/away": "-> ../a/b"})
		if test.change != nil {
			if err := test.change(dir); errors.Is(err, syscall.EPERM) {
				continue // only root can give files away
			} else if err != nil {
				t.Fatal(err)
			}
		}
		err := proc.Exposed(dir + "/links/server")
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, proc.ErrExposed) || !strings.HasSuffix(err.Error(), strings.ReplaceAll(test.says, "@", dir))) {
			t.Errorf("%s: %v, want %q", test.name, err, test.says)
		}
	}
	dir := tree(t, map[string]string{"loop": "-> loop"})
	if err := proc.Exposed(dir + "/loop"); err == nil {
		t.Error("a link to itself has an end")
	}
}

func TestS36_ListOfProgramsLetsNothingSlipBy(t *testing.T) {
	dir := tree(t, map[string]string{
		"opt/mcp/one": "", "opt/mcp/two": "", "opt/mcp/sub/three": "",
		"opt/mcp/inward": "-> one", "opt/mcp/outward": "-> @/bin/sh",
		"bin/sh": "", "bin/multi": "", "bin/ls": "-> multi", "bin/cat": "-> multi", "bin/env": "", "bin/node": "",
		"home/sh": "-> @/bin/sh", "home/tool": "-> @/opt/mcp/one", "home/node": "", "home/env": "-> @/bin/env",
		"mcp":             "-> opt/mcp",
		"scripts/direct":  "#!/bin/sh\n",
		"scripts/found":   "#! /usr/bin/env node\n",
		"scripts/split":   "#!/usr/bin/env -S node --flag\n",
		"scripts/options": "#!/usr/bin/env -i node\n",
		"scripts/set":     "#!/usr/bin/env -S PATH=/x node\n",
		"scripts/lost":    "#!/usr/bin/env nowhere\n",
		"scripts/deep":    "#!@/scripts/found\n",
	})
	at := func(s string) string { return strings.ReplaceAll(s, "@", dir) }
	for _, test := range []struct {
		allow, file, path string // a list with spaces, "-" for an empty one
		want              bool
	}{
		{"-", "@/bin/sh", "", false},
		{"@/bin/sh", "@/bin/sh", "", true},
		{"@/bin/sh", "@/bin/node", "", false},
		{"@/bin/sh @/bin/node", "@/bin/node", "", true},
		{"@/bin/s", "@/bin/sh", "", false},
		{"@/bin", "@/bin/sh", "", false},
		{"@/bin/sh", "@/bin/../bin/sh", "", true},
		{"@/opt/mcp/*", "@/opt/mcp/one", "", true},
		{"@/opt/mcp/*", "@/opt/mcp/sub/three", "", false},
		{"@/opt/*/*", "@/opt/mcp/one", "", true},
		{"@/opt/mcp/t?o", "@/opt/mcp/two", "", true},
		{"@/opt/mcp/[a-n]*", "@/opt/mcp/two", "", false},
		{"@/opt/mcp/*", "@/opt/mcp/inward", "", true},
		{"@/opt/mcp/*", "@/opt/mcp/outward", "", false}, // a link brings nothing in
		{"@/opt/mcp/outward", "@/opt/mcp/outward", "", true},
		{"@/opt/mcp/*", "@/home/tool", "", true}, // it is the same program
		{"@/home/sh", "@/bin/sh", "", false},
		{"@/bin/ls", "@/bin/ls", "", true},
		{"@/bin/ls", "@/bin/cat", "", false}, // they are one file, which looks at its name
		{"@/mcp/*", "@/opt/mcp/one", "", true},
		{"@/opt/mcp/*", "@/mcp/one", "", true},
		{"@/mcp/one", "@/opt/mcp/one", "", true},
		{"@/*/env", "@/bin/env", "@/bin", false},
		{"@/bin/env", "@/home/env", "@/bin", false},
		{"@/scripts/direct", "@/scripts/direct", "", true},
		{"@/scripts/*", "@/scripts/found", "@/bin", false},
		{"@/scripts/* @/bin/node", "@/scripts/found", "@/bin", true},
		{"@/scripts/* @/bin/node", "@/scripts/found", "@/home:@/bin", false},
		{"@/scripts/* @/bin/node", "@/scripts/found", "home:@/bin", false}, // found in the working directory
		{"@/scripts/* @/bin/node", "@/scripts/split", "@/bin", true},
		{"@/scripts/* @/bin/node", "@/scripts/split", "@/home", false},
		{"@/scripts/* @/bin/node", "@/scripts/options", "@/bin", false},
		{"@/scripts/* @/bin/node", "@/scripts/set", "@/bin", false},
		{"@/scripts/* @/bin/node", "@/scripts/lost", "@/bin", false},
		{"@/scripts/* @/bin/node", "@/scripts/deep", "@/bin", true},
		{"@/scripts/* @/bin/node", "@/scripts/deep", "@/home", false},
	} {
		policy := &proc.Policy{Allow: []string{}}
		for _, pattern := range strings.Fields(strings.Trim(at(test.allow), "-")) {
			plain, err := proc.Pattern(pattern)
			if err != nil {
				t.Fatal(err)
			}
			policy.Allow = append(policy.Allow, plain)
		}
		err := policy.Vet(&exec.Cmd{Path: at(test.file), Env: []string{"PATH=" + at(test.path)}, Dir: dir})
		if err == nil != test.want {
			t.Errorf("%s with PATH %q on the list %q: %v", test.file, test.path, test.allow, err)
		}
		if err != nil && (!errors.Is(err, proc.ErrNotAllowed) || !strings.Contains(proc.Advice(err), "name")) {
			t.Errorf("%v; %s", err, proc.Advice(err))
		}
	}
}

func TestWritableProgramsAreAMatterOfThePolicy(t *testing.T) {
	dir := tree(t, map[string]string{"server": "", "script": "#!@/bin/interpreter\n", "bin/interpreter": ""})
	chmod(t, 0o777, dir, "server")
	chmod(t, 0o777, dir, "bin")
	for _, file := range []string{"server", "script"} {
		cmd := &exec.Cmd{Path: filepath.Join(dir, file)}
		if err := (&proc.Policy{}).Vet(cmd); !errors.Is(err, proc.ErrExposed) {
			t.Errorf("%s: %v", file, err)
		}
		if err := (&proc.Policy{Writable: true}).Vet(cmd); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := (&proc.Policy{Writable: true, Allow: []string{}}).Vet(cmd); !errors.Is(err, proc.ErrNotAllowed) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestPatternsAreAbsolutePaths(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"/usr/bin/node": true, "/opt/*/bin/?x[ab]": true, "/a/../b": true,
		"": false, "node": false, "bin/*": false, "*": false, "/opt/**": false, "/opt/[": false, "/a\x00": false,
	} {
		if _, err := proc.Pattern(pattern); err == nil != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
