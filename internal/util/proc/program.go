package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

// What is wrong with an executable. One that is not there is fs.ErrNotExist, or
// exec.ErrNotFound if it was looked for on a PATH.
var (
	ErrName          = errors.New("this is no program")
	ErrDirectory     = errors.New("it is a directory")
	ErrNotExecutable = fmt.Errorf("it is not executable: %w", fs.ErrPermission)
	ErrExposed       = errors.New("somebody else may replace it")
	ErrNotAllowed    = errors.New("it is not on the list of commands that are allowed")
)

// A Search is where executables are looked for.
type Search struct {
	// Dir is where a relative path with a separator in it starts. If empty, it is
	// our working directory.
	Dir string

	// Path is a PATH, on which bare names are looked up. Elements that are not
	// absolute are passed over, and so are executables that somebody else may replace,
	// unless Writable is set.
	Path string

	// PathExt is a PATHEXT, for Windows. If empty, it is the usual one.
	PathExt string

	// Writable has executables found that somebody else may replace.
	Writable bool

	// Skip, if not nil, is told of the executables that were passed over.
	Skip func(file string, why error)
}

// Find returns the absolute path of an executable. Links are not followed.
func (s *Search) Find(name string) (string, error) {
	switch {
	case name == "":
		return "", fmt.Errorf("%w: the command is empty", ErrName)
	case name == "." || name == "..":
		return "", fmt.Errorf("%w: this is a directory", ErrName)
	case strings.ContainsRune(name, 0):
		return "", fmt.Errorf("%w: the command has a zero byte", ErrName)
	case filepath.Base(name) == name:
		return s.lookup(name)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.Dir, name)
	}
	file, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return executable(file, s.PathExt)
}

// lookup finds a bare name.
func (s *Search) lookup(name string) (string, error) {
	var found error
	for _, dir := range filepath.SplitList(s.Path) {
		if !filepath.IsAbs(dir) {
			continue // it would mean wherever we happen to be
		}
		file, err := executable(filepath.Join(dir, name), s.PathExt)
		if err == nil {
			if err = Exposed(file); err == nil || s.Writable && errors.Is(err, ErrExposed) {
				return file, nil
			}
			if s.Skip != nil {
				s.Skip(file, err)
			}
		}
		if found == nil && (errors.Is(err, ErrNotExecutable) || errors.Is(err, ErrExposed)) {
			found = err
		}
	}
	switch {
	case found != nil:
		return "", found
	case s.Path == "":
		return "", fmt.Errorf("%w: PATH is empty", exec.ErrNotFound)
	}
	where := s.Path
	if n := len(filepath.SplitList(s.Path)); n > maxListed {
		where = fmt.Sprintf("the %d directories of PATH", n)
	}
	return "", fmt.Errorf("%w (searched %s)", exec.ErrNotFound, where)
}

// maxListed is how many directories are named in an error.
const maxListed = 3

// Advice says what to do about an error of this package.
func Advice(err error) string {
	switch {
	case errors.Is(err, ErrName), errors.Is(err, ErrDirectory):
		return "name the executable of the server"
	case errors.Is(err, ErrExposed):
		return "take write permission from others, or move it to a directory that only its owner may change"
	case errors.Is(err, errEnv):
		return "name the program that env starts as the command, and its variables as such"
	case errors.Is(err, ErrNotAllowed):
		return "add its path to the list, or name a program that is on it"
	case errors.Is(err, ErrNotExecutable):
		return "set its executable bit, or name its interpreter as the command and the file as an argument"
	case errors.Is(err, exec.ErrNotFound):
		return "install it, extend PATH, or give the absolute path of the executable"
	case errors.Is(err, fs.ErrNotExist):
		return "check the path"
	}
	return "check who may enter its directory"
}
