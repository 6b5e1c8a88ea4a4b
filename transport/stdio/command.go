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
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/proc"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
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
			return nil, c.fail(err, proc.Advice(err))
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
	search := proc.Search{
		Dir: dir, Path: valueOf(env, "PATH"), PathExt: valueOf(env, "PATHEXT"),
		Skip: func(file string, why error) {
			log.Warn("passed over an executable that somebody else may replace", "command", c.Path, "file", file, "reason", why)
		},
	}
	file, err := search.Find(c.Path)
	if err != nil {
		advice := proc.Advice(err)
		if c.Vet == nil && errors.Is(err, proc.ErrExposed) {
			advice += ", or give its absolute path to use it all the same"
		}
		return "", c.fail(err, advice)
	}
	if c.Vet == nil && filepath.Base(c.Path) != c.Path {
		if err := proc.Exposed(file); errors.Is(err, proc.ErrExposed) {
			log.Warn("somebody else may replace the server's executable", "command", c.Path, "file", file, "reason", err)
		}
	}
	return file, nil
}

// tagVar holds, in the environment of every process that a server starts, the
// tag by which those are found again that left the server's process group. A
// server that is started by another one carries both tags.
const tagVar = "DRAGOMAN_CHILD"

// environment returns what the server sees of ours, less what looks like a
// shell function, plus account, c.Env and the tag.
func (c *Command) environment(ours, account []string, tag string) ([]string, error) {
	all := slices.Contains(c.InheritEnv, "*")
	var env []string
	for _, entry := range ours {
		name, value, ok := cutVariable(entry)
		if !ok || strings.HasPrefix(value, "()") {
			continue
		}
		if all || hasName(c.InheritEnv, name) || isPassedOn(name, value, account == nil) {
			env = setVariable(env, name, value)
		}
	}
	for _, entry := range account {
		name, value, _ := cutVariable(entry)
		env = setVariable(env, name, value)
	}
	for i, entry := range c.Env {
		name, value, ok := cutVariable(entry)
		if !ok || strings.ContainsRune(entry, 0) {
			// It is not shown: it may be a secret without its name.
			return nil, fmt.Errorf("entry %d of its environment is malformed", i+1)
		}
		env = setVariable(env, name, value)
	}
	if outer := valueOf(ours, tagVar); isTag(outer) {
		tag = outer + "," + tag
	}
	return setVariable(env, tagVar, tag), nil
}

// proxyVars say through which proxy the network is reached. They are passed on with the
// password that may be in them: without it there is no network.
var proxyVars = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy", "NPM_CONFIG_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_NOPROXY", "PIP_PROXY",
}

// networkVars say whose certificates are trusted and how names and texts are
// understood.
var networkVars = []string{
	"NODE_EXTRA_CA_CERTS", "NODE_USE_ENV_PROXY", "NODE_USE_SYSTEM_CA", "SSL_CERT_DIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"AWS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "HTTPLIB2_CA_CERTS", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO", "DENO_CERT", "DENO_TLS_CA_STORE", "NIX_SSL_CERT_FILE", "LANGUAGE",
}

// accountVars say where a user keeps things: caches, versions of interpreters, the
// daemon of containers. They are nothing for a server that runs as another user.
var accountVars = []string{
	"PYENV_ROOT", "PYENV_VERSION", "NVM_DIR", "VOLTA_HOME", "ASDF_DIR", "ASDF_DATA_DIR", "FNM_DIR", "BUN_INSTALL", "DENO_DIR", "PNPM_HOME", "COREPACK_HOME",
	"GOPATH", "GOMODCACHE", "GOCACHE", "GOPROXY", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "DOTNET_ROOT",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
}

// accountFamilies are the beginnings of names of such variables, in any case, and
// networkFamilies of the others.
var (
	accountFamilies = []string{"XDG_", "NPM_CONFIG_", "UV_", "PIP_", "PIPX_"}
	networkFamilies = []string{"LC_"}
)

// isPassedOn reports whether a server gets a variable of ours without asking for it: one
// that programs, their installers and networks do not work without, unless it looks like a
// secret. own says that the server runs as we do.
func isPassedOn(name, value string, own bool) bool {
	switch {
	case hasName(usualVars, name), hasName(proxyVars, name):
		return true
	case !hasName(networkVars, name) && !inFamily(networkFamilies, name) && (!own || !hasName(accountVars, name) && !inFamily(accountFamilies, name)):
		return false
	}
	return !redact.MayBeSecret(name, value)
}

func inFamily(families []string, name string) bool {
	return slices.ContainsFunc(families, func(f string) bool {
		return len(name) > len(f) && strings.EqualFold(name[:len(f)], f)
	})
}

// maxWithheld is how many names of variables an ExitError repeats.
const maxWithheld = 5

// withheld is the names of our variables that a server did not get.
type withheld struct{ named, family []string }

// withheldFrom returns the names of ours that are not in theirs.
func withheldFrom(ours, theirs []string) withheld {
	var w withheld
	for _, entry := range ours {
		name, value, ok := cutVariable(entry)
		if !ok || len(name) < 4 || strings.HasPrefix(value, "()") || slices.ContainsFunc(theirs, func(t string) bool {
			n, _, _ := cutVariable(t)
			return sameName(n, name)
		}) {
			continue
		}
		if inFamily(accountFamilies, name) {
			w.family = append(w.family, name)
		} else {
			w.named = append(w.named, name)
		}
	}
	return w
}

// neededBy returns those that a server may have needed, by what it wrote to stderr.
func (w withheld) neededBy(stderr []byte) []string {
	var names []string
	text := string(stderr)
	for _, name := range w.named {
		if strings.Contains(name, "_") && containsWord(text, name) {
			names = append(names, name)
		}
	}
	names = append(names, w.family...)
	slices.Sort(names)
	return names[:min(len(names), maxWithheld)]
}

// containsWord reports whether a name stands in text by itself.
func containsWord(text, name string) bool {
	isName := func(i int) bool {
		return i >= 0 && i < len(text) && (text[i] == '_' || text[i] >= '0' && text[i] <= '9' || text[i] >= 'A' && text[i] <= 'Z' || text[i] >= 'a' && text[i] <= 'z')
	}
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		at += i + len(name)
		if !isName(at) && !isName(at-len(name)-1) {
			return true
		}
	}
}

// cutVariable splits KEY=VALUE. On Windows there are variables such as "=C:",
// whose names begin with the sign.
func cutVariable(entry string) (name, value string, ok bool) {
	if entry == "" {
		return "", "", false
	}
	i := strings.IndexByte(entry[1:], '=') + 1
	if i == 0 {
		return "", "", false
	}
	if entry[0] == '=' && !foldNames {
		return "", "", false
	}
	return entry[:i], entry[i+1:], true
}

func setVariable(env []string, name, value string) []string {
	entry := name + "=" + value
	for i := range env {
		if n, _, _ := cutVariable(env[i]); sameName(n, name) {
			env[i] = entry
			return env
		}
	}
	return append(env, entry)
}

func valueOf(env []string, name string) string {
	for _, entry := range env {
		if n, value, ok := cutVariable(entry); ok && sameName(n, name) {
			return value
		}
	}
	return ""
}

func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return sameName(n, name) })
}

func sameName(a, b string) bool {
	return a == b || foldNames && strings.EqualFold(a, b)
}

// isTag reports whether s is one of our tags or several, so that no text of
// unknown origin is passed on.
func isTag(s string) bool {
	return s != "" && len(s) <= 1024 && strings.Trim(s, "0123456789abcdef,") == ""
}
