// Package flags describes a server, and how it is served, by command-line flags: ours, and the
// flags of other programs that mean the same. It reports mistakes in plain words, and makes
// the configuration of run and connect.
package flags

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Settings are what the command line of run or connect says, in our flags or in
// those of other programs.
type Settings struct {
	// The server: a URL, or a command, or neither for the built-in one.
	URL     string
	Command []string

	Headers     []string // "Name: value", for URLs
	env         []string // "NAME=value" or "NAME", for commands
	allEnv      bool
	Cwd         string
	Framing     string
	Era         string
	revisions   []string // for the built-in server
	isolation   string
	pool        int
	Timeout     time.Duration
	DialTimeout time.Duration // zero means era's default
	MaxMessage  int
	Order       string   // how an http URL is tried, one of target.Orders
	ignored     []string // patterns of tools that are not offered
	allowHTTP   bool     // it need not be said that a connection is not encrypted

	SignIn SignInSettings // at the server's URL

	// The endpoints.
	Listen      []string
	tokenFile   string
	host, port  string // instead of listen
	Listener    ListenFlags
	Origins     []string
	PublicURL   string
	MCPPath     string // additional paths
	SSEPath     string
	MessagePath string
	HealthPaths []string
	endpoint    string // for which of the above is said by serverType
	serverType  string
	idle        time.Duration // of a session
	Drain       time.Duration
	Output      string // "stdio" serves standard input and output alone

	username, password string   // for the server's URL
	like               *program // whose flags are used; nil if none is

	// Of a flag that may be repeated pflag forgets what it did not put there
	// itself, so what other flags add waits here.
	moreHeaders, moreOrigins []string

	debug    bool
	logLevel string
	notes    []string // what the user should know about the flags
}

// What some flags may be.
var (
	Eras       = []string{"auto", "legacy", "modern"}
	Isolations = []string{"session", "client", "shared", "request"}
)

// defaultTimeout is how long a server may take over a request unless told
// otherwise, reset by each progress message.
const defaultTimeout = time.Hour

// AddServer adds the flags that say which server is meant and how to speak to
// it.
func (s *Settings) AddServer(f *pflag.FlagSet) {
	f.StringVar(&s.Era, "era", Eras[0], "era in which the server is spoken to: "+term.AnyOf(Eras))
	f.StringArrayVarP(&s.Headers, "header", "H", nil, "`'Name: value'` to send to the server's URL; ${VAR} is taken from the environment (repeatable)")
	f.StringArrayVarP(&s.env, "env", "e", nil, "`NAME=value` for the server's command, or NAME to pass ours on (repeatable)")
	f.StringVar(&s.Cwd, "cwd", "", "directory to start the server's command in")
	f.StringArrayVar(&s.ignored, "ignore-tool", nil, "`name` of a tool that is not offered; * and ? stand for any characters (repeatable)")
	AddDuration(f, &s.Timeout, "timeout", "", defaultTimeout, "how long the server may take over a request without progress; 0 means no limit")
	addPositive(f, &s.DialTimeout, "connect-timeout", "how long the server may take to start or to be reached, as 90s or 2m; a number is in seconds (default 1m; 5m for npx, uvx, docker and others that may have to install it)")
	f.IntVar(&s.MaxMessage, "max-message", 0, "largest message in bytes (default 16 MiB, -1 for no limit)")
	s.SignIn.Add(f)
	s.SignIn.addTokens(f)
	f.BoolVar(&s.debug, "debug", false, term.DebugUsage)
}

// addListener adds the flags that say how clients reach the server.
func (s *Settings) addListener(f *pflag.FlagSet) {
	f.StringArrayVar(&s.Listen, "listen", nil, "`address` to listen on: HOST:PORT, PORT or http+unix:PATH for HTTP, tcp:HOST:PORT or unix:PATH for lines; port 0 picks a free one (repeatable, default "+DefaultListen+")")
	f.StringVar(&s.tokenFile, "token-file", "", TokenFileUsage)
	f.StringVar(&s.isolation, "isolation", Isolations[0], "who shares a session with a legacy server: session (nobody), client, shared (everybody), or request (a session for each request)")
	f.IntVar(&s.pool, "pool", 0, "how many processes of the server's command to keep ready")
	f.StringArrayVar(&s.Origins, "allow-origin", nil, "`origin` whose pages may use the server, such as https://app.example.com; with none, no other pages of this machine (repeatable)")
	AddDuration(f, &s.Drain, "drain", "", DefaultDrain, DrainUsage)
	f.StringVar(&s.PublicURL, "public-url", "", "`URL` under which clients reach us, if it is not our own address")
	f.StringVar(&s.Framing, "framing", stdio.Auto.String(), "how messages to a command or a socket are framed: auto, lines or content-length")
	s.Listener.Add(f)
	f.StringArrayVar(&s.revisions, "revision", nil, "`revision` that the built-in server speaks (repeatable, default all)")
}

// takeArguments finds the server among the arguments. What follows a command is
// the command's; flags that follow a URL are ours.
func (s *Settings) takeArguments(c *cobra.Command, args []string) (extra []string, err error) {
	if len(args) == 0 {
		if c.ArgsLenAtDash() == 0 {
			return nil, fmt.Errorf("no command follows --; name that of the server: dragoman %s -- npx -y some-server", c.Name())
		}
		return nil, nil
	}
	if s.URL != "" || s.Command != nil {
		return nil, fmt.Errorf("two servers are named, by a flag and by %q; name one", args[0])
	}
	if c.ArgsLenAtDash() == 0 || !target.IsURL(args[0]) {
		s.Command = args
		return nil, CheckCommand(c.CommandPath(), "", args)
	}
	s.URL = args[0]
	c.Flags().SetInterspersed(true)
	if err := c.ParseFlags(args[1:]); err != nil {
		return nil, c.FlagErrorFunc()(c, err)
	}
	if c.ArgsLenAtDash() >= 0 {
		return nil, errors.New("a URL and a command are named; name one server")
	}
	return c.Flags().Args(), nil
}

// Check refuses what makes no sense for the server that is named.
func (s *Settings) Check(c *cobra.Command) error {
	changed := c.Flags().Changed
	type rule struct {
		wrong bool
		text  string
	}
	var rules []rule
	switch {
	case s.URL == "" && s.Command == nil:
		rules = []rule{
			{len(s.Headers) > 0, "-H is for servers that are reached by a URL, and none is named"},
			{len(s.env) > 0 || s.allEnv, "-e is for servers that are started by a command, and none is named"},
			{s.Cwd != "", "--cwd is for servers that are started by a command, and none is named"},
			{changed("framing"), "--framing is for servers that are named; the built-in one answers as it is spoken to"},
			{changed("isolation") || s.isolation == "request", "--isolation is for servers that are named; the built-in one keeps clients apart"},
			{changed("pool"), "--pool is for servers that are started by a command, and none is named"},
			{len(s.ignored) > 0, "--ignore-tool is for servers that are named"},
			{changed("timeout"), "--timeout is for servers that are named"},
			{s.Output == "stdio", "--outputTransport stdio needs a server; for the built-in one see dragoman everything"},
		}
	case s.Command != nil:
		rules = []rule{
			{len(s.Headers) > 0, "-H is for URLs, and a command has no headers; to give it a secret use -e"},
			{s.Order != "", "--transport is for URLs, and the server is a command"},
		}
	default:
		rules = []rule{
			{len(s.env) > 0 || s.allEnv, "-e is for commands, and the server is a URL; to send it a secret use -H"},
			{s.Cwd != "", "--cwd is for commands, and the server is a URL"},
			{changed("pool"), "--pool keeps processes ready, and the server is a URL"},
			{len(s.Headers) > 0 && target.IsLines(s.URL), "-H is for HTTP and WebSocket; " + target.Scheme(s.URL) + ": carries messages alone"},
			{c.Name() == "run" && changed("framing") && !target.IsLines(s.URL), "--framing is for commands and sockets; " + target.Scheme(s.URL) + " has its own"},
			{s.Order != "" && !target.IsHTTP(s.URL), "--transport is for http and https URLs"},
		}
	}
	rules = append(rules,
		rule{s.URL == "" && s.SignIn.isForURL(), "--server-token-file, --server-token-command, --ca-file, --cert-file, --key-file and --proxy are for servers that are reached by a URL"},
		rule{target.IsLines(s.URL) && s.SignIn.isForURL(), "--server-token-file, --server-token-command, --ca-file, --cert-file, --key-file and --proxy are for HTTP and WebSocket"},
		rule{len(s.revisions) > 0 && (s.URL != "" || s.Command != nil), "--revision is for the built-in server; what others speak is found out, or said by --era"},
		rule{len(s.Listen) > 0 && (s.host != "" || s.port != ""), "--listen says it all; leave out --host and --port"},
		rule{s.pool < 0, "--pool cannot be negative"},
	)
	for _, r := range rules {
		if r.wrong {
			return errors.New(r.text)
		}
	}
	if !slices.Contains(Eras, s.Era) {
		return fmt.Errorf("unknown era %q: use %s", s.Era, term.AnyOf(Eras))
	}
	if s.isolation != "" && !slices.Contains(Isolations, s.isolation) {
		return fmt.Errorf("unknown isolation %q: use %s", s.isolation, term.AnyOf(Isolations))
	}
	_, err := Framing(s.Framing)
	return err
}

// Framing returns the framing that a flag names.
func Framing(name string) (stdio.Framing, error) {
	framing, ok := stdio.ParseFraming(name)
	if !ok {
		return 0, fmt.Errorf("unknown framing %q: use auto, lines or content-length", name)
	}
	return framing, nil
}

// Addresses returns what to listen on.
func (s *Settings) Addresses() []string {
	if len(s.Listen) > 0 {
		return s.Listen
	}
	return []string{net.JoinHostPort(cmp.Or(s.host, DefaultHost), cmp.Or(s.port, defaultPort))}
}

// note remembers something to tell the user.
func (s *Settings) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// timeIn reads a time as other programs write it, as a number of units.
func timeIn(unit time.Duration, value string) (time.Duration, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, errors.New("a number is expected")
	}
	return time.Duration(n) * unit, nil
}

// variable is a reference to the environment in the value of a header.
var variable = lazy.Regexp(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// headerName is what the name of a header may be made of.
var headerName = lazy.Regexp("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// ParseHeaders reads "Name: value" lines. Errors do not repeat values, which may
// be secrets.
func ParseHeaders(lines []string, lookup func(string) (string, bool)) (http.Header, error) {
	h := make(http.Header)
	for i, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !headerName().MatchString(name) {
			return nil, fmt.Errorf("header %d is not of the form 'Name: value'", i+1)
		}
		var err error
		if value, err = expand(value, lookup); err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("header %s: its value has characters that no header may have", name)
		}
		h.Add(name, value)
	}
	return h, nil
}

// expand replaces ${VAR}.
func expand(value string, lookup func(string) (string, bool)) (string, error) {
	var err error
	value = variable().ReplaceAllStringFunc(value, func(ref string) string {
		name := variable().FindStringSubmatch(ref)[1]
		v, ok := lookup(name)
		if !ok {
			err = errors.Join(err, fmt.Errorf("the variable %s is not set", name))
		}
		return v
	})
	return value, err
}

// maxHeaderFile is the largest file of headers that is read.
const maxHeaderFile = 1 << 20

// readHeaderFile returns the headers in a file, one a line. Empty lines and
// those that begin with # are left out.
func readHeaderFile(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxHeaderFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxHeaderFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// assignment is a word that sets a variable, to a shell.
var assignment = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*=`)

// SplitCommand splits a command into words as a shell does, by white space and
// quotes. What only a shell could do is an error, because none is started.
func SplitCommand(line string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
		quote  rune // the quote that we are in
		escape bool // the next character stands for itself
	)
	backslash := runtime.GOOS != "windows" // where it is part of paths
	for _, r := range line {
		switch {
		case escape:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escape = false
		case r == '\\' && quote != '\'' && backslash:
			escape, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(r)
		case r == '$' || r == '`' || quote == 0 && strings.ContainsRune("|&;<>()", r) || quote == 0 && r == '~' && !inWord:
			return nil, needsShell(string(r))
		case quote == '"':
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	switch {
	case quote != 0 || escape:
		return nil, errors.New("a quote is not closed")
	case len(words) == 0:
		return nil, errors.New("the command is empty")
	case assignment().MatchString(words[0]):
		name, _, _ := strings.Cut(words[0], "=")
		return nil, fmt.Errorf("%s= sets a variable, which takes a shell, and none is started; use -e %s=value", name, name)
	}
	return words, nil
}

func needsShell(what string) error {
	return fmt.Errorf(`%s means something to a shell, and none is started; put it in single quotes, or start the shell yourself: dragoman run -- sh -c '...'`, what)
}

// ChooseRevisions returns the revisions of an era that are served, or those that
// are named. all is the word for both eras.
func ChooseRevisions(era, all string, names []string) ([]protocol.Revision, error) {
	var known []string
	var list []protocol.Revision
	for _, r := range protocol.Revisions() {
		if era != all && era != r.Era().String() {
			continue
		}
		known = append(known, r.String())
		if len(names) == 0 || slices.Contains(names, r.String()) {
			list = append(list, r)
		}
	}
	if known == nil {
		return nil, fmt.Errorf("unknown era %q: use %s, %s or %s", era, protocol.Legacy, protocol.Modern, all)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown revision %q: use %s", name, strings.Join(known, ", "))
		}
	}
	return list, nil
}

// speaksEra reports whether a revision of an era is among those.
func speaksEra(list []protocol.Revision, era protocol.Era) bool {
	return slices.ContainsFunc(list, func(r protocol.Revision) bool { return r.Era() == era })
}

// DrainUsage is what the flag of that name means.
const DrainUsage = "how long to wait for requests in flight at shutdown; a second signal ends them immediately"

// DefaultDrain is the default of --drain.
const DefaultDrain = 10 * time.Second

// DefaultListen is where servers are served unless told otherwise.
const (
	DefaultHost   = "127.0.0.1"
	defaultPort   = "8808"
	DefaultListen = DefaultHost + ":" + defaultPort
)

// Begin settles how much is said and checks what was asked for.
func (s *Settings) Begin(c *cobra.Command) (*term.Console, error) {
	if err := s.settleAliases(c.Flags()); err != nil {
		return nil, term.Usage("%w", err)
	}
	v, err := term.ConsoleOf(c, s.logLevel, nil)
	if err != nil {
		return nil, err
	}
	if err := s.Check(c); err != nil {
		return nil, term.Usage("%w", err)
	}
	for _, n := range s.notes {
		v.Printf("note: %s", n)
	}
	return v, nil
}
