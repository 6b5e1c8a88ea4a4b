package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A Policy says which programs may be started. The zero value allows all that nobody
// else may replace.
type Policy struct {
	// Allow are the programs, as Pattern has them. Nil allows all, and an empty
	// list none.
	Allow []string

	// Writable allows programs that somebody else may replace.
	Writable bool
}

// errEnv is why env is refused: it starts whatever its arguments say.
var errEnv = fmt.Errorf("%w: env starts another program", ErrNotAllowed)

// maxScripts is how many scripts may be each other's interpreters.
const maxScripts = 4

// Vet returns an error if a command must not be started. What /usr/bin/env finds for the
// first line of a script counts as the command does; an interpreter that the script names
// itself is only checked for who may replace it.
func (p *Policy) Vet(cmd *exec.Cmd) error {
	if p.Allow != nil && isEnv(cmd.Path) {
		return fmt.Errorf("%s: %w", cmd.Path, errEnv)
	}
	file, listed := cmd.Path, true
	for range maxScripts {
		if listed && p.Allow != nil && !p.allows(file) {
			return fmt.Errorf("%s: %w", file, ErrNotAllowed)
		}
		if err := Exposed(file); err != nil && (!p.Writable || !errors.Is(err, ErrExposed)) {
			return err
		}
		line := firstLine(file)
		interpreter, rest, _ := strings.Cut(line, " ")
		if line == "" || !filepath.IsAbs(interpreter) {
			return nil
		}
		script := file
		file, listed = interpreter, false
		if !isEnv(interpreter) {
			continue
		}
		name, err := envProgram(rest)
		if err == nil {
			file, err = envLookup(name, cmd)
		}
		if err != nil {
			if p.Allow == nil {
				return nil // env says so itself
			}
			return fmt.Errorf("%s: %w: its first line %w", script, ErrNotAllowed, err)
		}
		listed = true
	}
	return fmt.Errorf("%s: its interpreters are scripts themselves", cmd.Path)
}

// firstLine returns the interpreter that a script names, and its argument.
func firstLine(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return "" // it is no script, or cannot be started
	}
	defer f.Close()
	const longest = 4096 // the kernel reads less
	line, _ := bufio.NewReaderSize(io.LimitReader(f, longest), longest).ReadString('\n')
	line, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return ""
	}
	line = strings.TrimSpace(strings.ReplaceAll(line, "\t", " "))
	word, rest, _ := strings.Cut(line, " ")
	return word + " " + strings.TrimSpace(rest)
}

func isEnv(file string) bool {
	if filepath.Base(file) == "env" {
		return true
	}
	real, err := filepath.EvalSymlinks(file)
	return err == nil && filepath.Base(real) == "env"
}

// envProgram returns the program in the argument of env in a first line.
func envProgram(arg string) (string, error) {
	arg = strings.TrimSpace(strings.TrimPrefix(arg, "-S"))
	name, _, _ := strings.Cut(arg, " ")
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, "=\\'\"$") {
		return "", errors.New("has options of env that are not understood here")
	}
	return name, nil
}

// envLookup finds what env finds: also in elements of PATH that are not absolute.
func envLookup(name string, cmd *exec.Cmd) (string, error) {
	var path string
	for _, v := range cmd.Env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	dirs := filepath.SplitList(path)
	if strings.Contains(name, "/") {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(file) {
			file = filepath.Join(cmd.Dir, file)
		}
		file, err := filepath.Abs(file)
		if err != nil {
			continue
		}
		if file, err = executable(file, ""); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("names %s, which is not on PATH", name)
}

// Pattern checks an entry of a list of programs, and returns it in its plain form: an
// absolute path in which *, ? and [] stand for characters of one part.
func Pattern(pattern string) (string, error) {
	switch _, err := filepath.Match(pattern, ""); {
	case err != nil:
		return "", errors.New("is malformed: a [ needs its ]")
	case !filepath.IsAbs(pattern):
		return "", errors.New("is not an absolute path")
	case strings.Contains(pattern, "**"):
		return "", errors.New("has **, and * does not go beyond a /")
	case strings.ContainsRune(pattern, 0):
		return "", errors.New("has a zero byte")
	}
	return filepath.Clean(pattern), nil
}

const wildcards = "*?["

// allows reports whether a file is on the list. An entry without wildcards stands for
// the file of that name, also if that is a link, and for links to it. One with
// wildcards is compared with where links end, so that a link in an allowed directory
// brings nothing in. Links among the directories are followed on both sides.
func (p *Policy) allows(file string) bool {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	named := resolveDir(file)
	for _, pattern := range p.Allow {
		if !strings.ContainsAny(pattern, wildcards) {
			if entry := resolveDir(pattern); same(entry, named) || same(entry, real) {
				return true
			}
			continue
		}
		if matches(pattern, real) {
			return true
		}
	}
	return false
}

// resolveDir returns a path with the links among its directories followed.
func resolveDir(file string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return filepath.Clean(file)
	}
	return filepath.Join(dir, filepath.Base(file))
}

// matches compares a file with a pattern that has wildcards.
func matches(pattern, file string) bool {
	at := strings.LastIndexByte(filepath.ToSlash(pattern[:strings.IndexAny(pattern, wildcards)]), '/') + 1
	dir, err := filepath.EvalSymlinks(pattern[:at])
	if err != nil {
		return false // nothing is there
	}
	if !strings.HasSuffix(dir, string(filepath.Separator)) {
		dir += string(filepath.Separator)
	}
	if len(file) <= len(dir) || !same(file[:len(dir)], dir) {
		return false
	}
	ok, err := filepath.Match(fold(pattern[at:]), fold(file[len(dir):]))
	return ok && err == nil
}

func same(a, b string) bool { return fold(a) == fold(b) }

// fold returns a path in the form in which it is compared.
func fold(path string) string {
	if runtime.GOOS == "windows" {
		return strings.ToLower(path)
	}
	return path
}
