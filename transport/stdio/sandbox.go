package stdio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A Sandbox is what a server can reach, by Landlock, on Linux only. Beside what is
// listed here that is its own executable and Command.Dir, to read, and what programs in
// general need: the libraries and programs of the system, a few files of /etc, /proc,
// and devices such as /dev/null. Nothing else can be opened, executed, created or
// removed, nor can privileges be gained. Everything that the server starts is in the
// same sandbox. docs/processes.md says what a sandbox does not keep out.
//
// A server with a sandbox is started by way of our own executable, so Guard must have
// been called.
type Sandbox struct {
	// Read are files, and directories with all that is in them, that the server
	// may read and execute, and Write those that it may change as well.
	Read, Write []string

	// NoNetwork keeps the server from making sockets, of any kind. Programs for
	// another architecture than the kernel's do not run then.
	NoNetwork bool

	// Optional starts the server although the kernel cannot do all of this, with
	// as much as it can and a warning. Otherwise it is not started.
	Optional bool
}

// check returns an error for paths that a sandbox cannot have.
func (s *Sandbox) check() error {
	switch {
	case s == nil:
		return nil
	case !haveSandbox:
		return errors.New("sandboxes are available on Linux only")
	case !guarded():
		return errors.New("a sandbox needs a call of stdio.Guard in main")
	}
	for _, path := range slices.Concat(s.Read, s.Write) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("%q is not an absolute path", path)
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	return nil
}
