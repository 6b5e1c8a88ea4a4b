package stdio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Guard makes sure that servers do not outlive this process, even if it is
// killed and cannot stop them. Call it first in main, and in TestMain:
//
//	func main() {
//		stdio.Guard()
//		...
//	}
//
// Each server is then started by a process of this executable, its keeper, which is its
// parent. What the server starts cannot get away from the keeper, even with a session of its
// own and without an environment. When the server ends, is stopped, or this process ends, the
// keeper kills what is left. In a keeper, Guard is where the work is done, and does not return;
// so whatever runs before Guard, runs there too.
//
// Servers with limits or a sandbox start by way of this executable once more:
// it confines itself in Guard, and then becomes the server.
//
// Guard also sees to it that files which this process inherited open are not
// inherited further.
//
// All of this is for Linux; elsewhere Guard does nothing. On Windows a
// job object does the work of the keepers, and needs no call.
func Guard() { becomeGuard() }

// ResourceLimits bounds what one process of a server may use. The zero value
// is no limit. They exist on Linux only; elsewhere a Command that has any does
// not start.
//
// Each process that the server starts has the same limits for itself: the
// memory of a whole process tree is a matter for the container or the service
// manager. If Guard was called, the limits are in force before the server's first
// instruction; otherwise they are set right after it has started, so that what it does
// in its first moments may escape them.
type ResourceLimits struct {
	// Memory is the size of the address space in bytes. Runtimes that reserve
	// much more than they use, such as Node.js, need a generous one.
	Memory int64

	// OpenFiles is the number of open files.
	OpenFiles int64

	// Processes is how many processes and threads the user of the server may have
	// when the server starts another one. All of that user count, also those that
	// are not the server's, and root is not bound by it: it is for servers with a
	// User of their own.
	Processes int64

	// CPUTime is the processor time, rounded up to seconds. A process that has
	// used it up is killed.
	CPUTime time.Duration
}

func (l ResourceLimits) check() error {
	switch {
	case l.Memory < 0 || l.OpenFiles < 0 || l.Processes < 0 || l.CPUTime < 0:
		return errors.New("a resource limit is negative")
	case l != ResourceLimits{} && !haveLimits:
		return errors.New("resource limits are available on Linux only")
	}
	return nil
}

// A Sandbox is what a server can reach, by Landlock and seccomp, on Linux (amd64 and arm64) only. Beside what is
// listed here that is its own executable and Command.Dir, to read, and what programs in
// general need: the libraries and programs of the system, a few files of /etc, /proc,
// and devices such as /dev/null. Nothing else can be opened, executed, created or
// removed, nor can privileges be gained. Everything that the server starts is in the
// same sandbox. A filter of system calls (seccomp) keeps it from acting on other processes,
// and from changing extended attributes of files, and modes, owners and times unless Write lists some.
// Programs for another architecture than the kernel's do not run in it. docs/processes.md
// lists what is refused, and what a sandbox does not keep out.
//
// A server with a sandbox is started by way of our own executable, so Guard must have
// been called.
type Sandbox struct {
	// Read are files, and directories with all that is in them, that the server
	// may read and execute, and Write those that it may change as well.
	Read, Write []string

	// NoNetwork keeps the server from making sockets, of any kind.
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
