package stdio

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/program"
)

// defaultGrace is how long a server may take over each step of being stopped.
const defaultGrace = 2 * time.Second

// A Command says how to start a server. Only Path is needed. It is not changed
// by being used, so one Command may start any number of servers at once.
//
// The server is started directly, never through a shell, in a process group of
// its own and with a filtered environment. When it ends, whatever it started
// ends with it.
type Command struct {
	// Path is the executable. A bare name is looked up on the PATH of the
	// environment that the server will see; elements of PATH that are not
	// absolute are passed over, and so are executables that somebody else may
	// replace, see docs/processes.md. A relative path with a separator in it
	// starts at Dir.
	Path string

	// Args are the arguments after the name of the program. They arrive byte
	// for byte.
	Args []string

	// Env is added to the filtered environment, as "KEY=VALUE". An entry
	// replaces a variable of the same name.
	Env []string

	// InheritEnv names variables of our own environment that are passed on
	// beside the usual few (HOME, PATH, LANG and the like). "*" passes all.
	InheritEnv []string

	// Dir is the working directory; empty means our own.
	Dir string

	// User is who the server runs as: "name", "name:group", or numbers in
	// their place. Empty means as we do. Changing it needs privileges and is
	// not available on Windows.
	User string

	// Limits bounds what the server may use.
	Limits ResourceLimits

	// Sandbox is what the server can reach. If nil, it is all that its user can.
	Sandbox *Sandbox

	// Vet, if not nil, is shown what is about to be started, before every start:
	// the absolute path, arguments, variables and directory. If it returns an
	// error, that is not started.
	Vet func(*exec.Cmd) error

	// Grace is how long to wait after closing the server's stdin before it is
	// asked to end (SIGTERM), and again before it is killed. Zero means two
	// seconds, negative means not at all.
	Grace time.Duration

	// OnStderr is given the lines that the server writes to stderr, without
	// their ends, one after the other. Lines are cut at 64 KiB. If it falls
	// more than 1 MiB behind, lines are dropped and one line says how many.
	// If nil, lines go to Logger at debug level.
	OnStderr func(line string)

	// OnText is given what the server writes to stdout that is no message, one line
	// after the other: a mistake of the server, and skipped. Lines are cut at 1 KiB. It
	// must not block. If nil, the first one goes to Logger as a warning.
	OnText func(line string)

	// Framing is how messages are told apart on the stream.
	Framing Framing

	// MaxMessage is the largest message accepted, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit.
	MaxMessage int

	// Logger receives a record when the server starts and when it ends, and
	// warnings. Arguments and variables are never logged. If nil, nothing is.
	Logger *slog.Logger
}

// A StartError says why a server could not be started.
type StartError struct {
	Command string // as it was given
	Err     error  // what is wrong; exec.ErrNotFound if there is no such command
	Advice  string // what to do about it
}

// Error implements error.
func (e *StartError) Error() string {
	text := fmt.Sprintf("stdio: cannot start %q: %v", e.Command, e.Err)
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

// Unwrap returns what is wrong.
func (e *StartError) Unwrap() error { return e.Err }

func (c *Command) fail(err error, advice string) error {
	return &StartError{Command: c.Path, Err: err, Advice: advice}
}

func (c *Command) logger() *slog.Logger { return cmp.Or(c.Logger, slog.New(slog.DiscardHandler)) }

func (c *Command) grace() time.Duration {
	switch {
	case c.Grace == 0:
		return defaultGrace
	case c.Grace < 0:
		return 0
	}
	return c.Grace
}

// Check returns what keeps the server from being started, as far as that can be told
// without starting it: there is no such executable or directory, or it is refused.
func (c *Command) Check() error {
	_, err := c.prepare("")
	return err
}

// prepare checks c and returns it as the standard library wants it. tag tells
// the server's processes from all others.
func (c *Command) prepare(tag string) (*exec.Cmd, error) {
	for _, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			return nil, c.fail(fmt.Errorf("argument %q has a zero byte", arg), "no system can pass it on; remove it")
		}
	}
	if err := c.Limits.check(); err != nil {
		return nil, c.fail(err, "correct the limits or remove them")
	}
	if err := c.Sandbox.check(); err != nil {
		return nil, c.fail(fmt.Errorf("its sandbox: %w", err), "correct the sandbox or remove it")
	}
	dir, err := c.directory()
	if err != nil {
		return nil, err
	}
	attr, account, err := newProcAttr(c.User)
	if err != nil {
		return nil, c.fail(err, "correct the user, or leave it out to run the server as the one who started it")
	}
	env, err := c.environment(os.Environ(), account, tag)
	if err != nil {
		return nil, c.fail(err, "write each variable as KEY=VALUE")
	}
	file, err := c.locate(dir, env)
	if err != nil {
		return nil, err
	}
	if err := checkArgs(file, c.Args); err != nil {
		return nil, c.fail(err, "name the program that the script starts instead of the script")
	}
	cmd := &exec.Cmd{
		Path:        file,
		Args:        append([]string{c.Path}, c.Args...),
		Env:         env,
		Dir:         dir,
		SysProcAttr: attr,
	}
	if c.Vet != nil {
		if err := c.Vet(cmd); err != nil {
			return nil, c.fail(err, program.Advice(err))
		}
	}
	return cmd, nil
}

// directory returns the absolute working directory of the server, or "" for ours.
func (c *Command) directory() (string, error) {
	if c.Dir == "" {
		return "", nil
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return "", c.fail(err, "give its directory as an absolute path")
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", c.fail(fmt.Errorf("directory %s: %w", dir, fs.ErrNotExist), "create the directory or name another")
	case err != nil:
		return "", c.fail(err, "name a directory that can be entered")
	case !info.IsDir():
		return "", c.fail(fmt.Errorf("%s is not a directory", dir), "name the directory to start it in")
	}
	return dir, nil
}

// locate returns the absolute path of the executable.
func (c *Command) locate(dir string, env []string) (string, error) {
	log := c.logger()
	search := program.Search{
		Dir: dir, Path: valueOf(env, "PATH"), PathExt: valueOf(env, "PATHEXT"),
		Skip: func(file string, why error) {
			log.Warn("passed over an executable that somebody else may replace", "command", c.Path, "file", file, "reason", why)
		},
	}
	file, err := search.Find(c.Path)
	if err != nil {
		advice := program.Advice(err)
		if c.Vet == nil && errors.Is(err, program.ErrExposed) {
			advice += ", or give its absolute path to use it all the same"
		}
		return "", c.fail(err, advice)
	}
	if c.Vet == nil && filepath.Base(c.Path) != c.Path {
		if err := program.Exposed(file); errors.Is(err, program.ErrExposed) {
			log.Warn("somebody else may replace the server's executable", "command", c.Path, "file", file, "reason", err)
		}
	}
	return file, nil
}

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
