package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A check is about one server.
type check struct {
	*reader
	s    *Server
	path string
}

// checkServer checks what the types do not say, and completes the server: paths
// become absolute, and the variables of its env file are added.
func (r *reader) checkServer(s *Server, path string) {
	c := &check{r, s, path}
	c.where()
	c.target()
	c.useless()
	if s.URL == "" {
		c.command()
	}
	if s.URL != "" {
		c.url()
	}
	c.variables()
	c.headers()
	c.tools()
	if len(s.PassEnv) > 0 && s.Isolation == "shared" {
		c.fail(c.at("passEnv"), path+": passEnv gives each caller a process of its own, isolation shared one to all", "use isolation client or session")
	}
	if s.Retry.Max > 0 && s.Retry.Min > s.Retry.Max {
		c.fail(c.at("retry.min"), path+".retry: min is longer than max", "")
	}
}

// at returns where a value of the server stands: its key, or that of what it is in.
func (c *check) at(name string) place {
	for p := c.path + "." + name; ; p = p[:strings.LastIndexByte(p, '.')] {
		if s, ok := c.here[p]; ok {
			return s.at
		}
		if !strings.Contains(p, ".") {
			return c.src.root.at
		}
	}
}

// value returns the place of a value, and the value as it may be shown.
func (c *check) value(name string) (place, string) {
	if s, ok := c.here[c.path+"."+name]; ok {
		return s.node.at, show(s.node)
	}
	return c.at(name), "the value"
}

// where keeps how the server is spoken of: as it is written, so that no value of a
// reference shows.
func (c *check) where() {
	if s, ok := c.here[c.path+".url"]; ok && !s.node.secret {
		c.s.where = showText(s.node.text)
		if before, _, ok := strings.Cut(c.s.where, "?"); ok {
			c.s.where = before + "?…"
		}
		return
	}
	s, ok := c.here[c.path+".command"]
	if !ok {
		return
	}
	words := []string{showText(s.node.text)}
	if args, ok := c.here[c.path+".args"]; ok {
		for _, a := range args.node.items {
			word := mask
			if !a.secret {
				word = showText(a.text)
			}
			words = append(words, word)
		}
	}
	c.s.where = strings.Join(words, " ")
}

// target checks that there is a command or a URL, and not both, and a transport
// that fits.
func (c *check) target() {
	s := c.s
	how := s.How()
	switch {
	case s.Command != "" && s.URL != "":
		c.fail(c.at("url"), c.path+" has a command and a url", "remove one of them")
	case s.Command == "" && s.URL == "" && c.broken[s.Name]:
		// What is wrong may be just that.
	case s.Command == "" && s.URL == "":
		if _, given := c.here[c.path+".command"]; given {
			c.fail(c.at("command"), c.path+".command is empty", "name the program to start")
			return
		}
		c.fail(c.at(""), c.path+" has neither a command nor a url", "")
	case s.Command != "" && how != Stdio:
		c.fail(c.at("transport"), fmt.Sprintf("%s: transport %s needs a url, and there is a command", c.path, how), "leave out the transport")
	case s.URL != "" && how == Stdio:
		c.fail(c.at("transport"), c.path+": transport stdio needs a command, and there is a url", "leave out the transport")
	}
}

// useless warns of keys that are for the other kind of server.
func (c *check) useless() {
	kind, other := "command", "url"
	if c.s.URL != "" {
		kind, other = other, kind
	}
	v := reflect.ValueOf(c.s).Elem()
	for _, k := range serverObject.keys {
		if k.only == other && k.name != other && !v.Field(k.index).IsZero() {
			c.warn(c.at(k.name), fmt.Sprintf("%s.%s means nothing for a server with a %s", c.path, k.name, kind), "")
		}
	}
}

// shellCharacters mean something to a shell, which there is none of.
const shellCharacters = " |&;<>()$`\"'*?"

func (c *check) command() {
	s := c.s
	at, shown := c.value("command")
	s.Cwd, s.EnvFile = c.absolute(s.Cwd), c.absolute(s.EnvFile)
	switch {
	case s.Command == "." || s.Command == ".." || strings.ContainsRune(s.Command, 0):
		c.fail(at, fmt.Sprintf("%s.command: %s is no program", c.path, shown), "")
		return
	case len(s.Args) == 0 && strings.ContainsAny(s.Command, shellCharacters):
		if _, err := os.Stat(s.Command); err != nil {
			hint := "put the program into command and each word behind it into args"
			raw := c.here[c.path+".command"].node.text
			if words := strings.Fields(raw); len(words) > 1 && showText(raw) == raw && !strings.ContainsAny(raw, "|&;<>()$`\"'*?") {
				hint = fmt.Sprintf("write command: %s and args: [%s]", words[0], strings.Join(words[1:], ", "))
			}
			c.warn(at, fmt.Sprintf("%s.command: %s is taken as the name of one program, as no shell is used", c.path, shown), hint)
		}
	}
	if strings.HasPrefix(s.Command, "~/") || s.Cwd == "" && !filepath.IsAbs(s.Command) && strings.ContainsRune(s.Command, filepath.Separator) {
		s.Command = c.absolute(s.Command)
	}
	for i, a := range s.Args {
		if strings.ContainsRune(a, 0) {
			c.fail(c.at("args"), fmt.Sprintf("%s.args[%d] has a zero byte", c.path, i), "")
		}
	}
	if s.Cwd != "" {
		if info, err := os.Stat(s.Cwd); err != nil || !info.IsDir() {
			at, shown := c.value("cwd")
			c.warn(at, fmt.Sprintf("%s.cwd: %s is not a directory", c.path, shown), "")
		}
	}
	if s.EnvFile != "" {
		c.envFile(s, c.at("envFile"))
	}
}

// schemes are those of a URL, and the transports that they go with.
var schemes = map[string][]Transport{
	"http": {Auto, HTTP, SSE}, "https": {Auto, HTTP, SSE}, "http+unix": {Auto, HTTP, SSE},
	"ws": {WS}, "wss": {WS}, "tcp": {TCP}, "unix": {Unix, Auto, HTTP, SSE},
}

func (c *check) url() {
	at, shown := c.value("url")
	where := c.path + ".url: " + shown
	u, err := url.Parse(c.s.URL)
	if err != nil {
		// A colon in a host is no port: tcp:host:port is ours and no URL.
		if u, err = url.Parse(strings.Replace(c.s.URL, ":", "://", 1)); err != nil {
			c.fail(at, where+" is not a URL", "")
			return
		}
	}
	list, known := schemes[strings.ToLower(u.Scheme)]
	switch {
	case u.Scheme == "":
		c.fail(at, where+" is not a URL", "begin with https:// or http://")
	case !known:
		c.fail(at, where+" has a scheme that is not spoken here", "use http, https, ws, wss, tcp or unix")
	case list[0] == Auto && len(u.Host)+len(u.Path)+len(u.Opaque) == 0, u.Host == "" && (list[0] == WS || u.Scheme == "http" || u.Scheme == "https"):
		c.fail(at, where+" has no host", "")
	case list[0] == TCP && !hasPort(c.s.URL):
		c.fail(at, where+" has no host and port", "write tcp:HOST:PORT")
	case strings.ContainsAny(c.s.URL, "\r\n\x00"):
		c.fail(at, where+" has a line end inside", "")
	case c.s.How() != Stdio && !slices.Contains(list, c.s.How()):
		c.fail(at, fmt.Sprintf("%s does not go with transport %s", where, c.s.How()), "leave out the transport")
	case u.User != nil:
		c.warn(at, c.path+".url has a user and a password in it", "use a header Authorization and a reference")
	case u.Scheme == "http" || u.Scheme == "ws":
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			c.warn(at, where+" is not encrypted: others on the way can read and change what is sent", "use https or wss")
		}
	}
}

// hasPort tells whether a URL as tcp:HOST:PORT is complete.
func hasPort(url string) bool {
	_, rest, _ := strings.Cut(url, ":")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(rest, "//"))
	return err == nil && port != ""
}

// variables checks what becomes a child's environment.
func (c *check) variables() {
	for _, name := range sorted(c.s.Env) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			c.fail(c.at("env."+name), fmt.Sprintf("%q cannot be the name of a variable", clip(name)), "")
		case strings.ContainsRune(c.s.Env[name], 0):
			c.fail(c.at("env."+name), fmt.Sprintf("%s.env.%s has a zero byte", c.path, name), "")
		}
	}
	for _, header := range sorted(c.s.PassEnv) {
		if name := c.s.PassEnv[header]; !variableName.MatchString(name) {
			c.fail(c.at("passEnv."+header), fmt.Sprintf("%q cannot be the name of a variable", clip(name)), "")
		}
	}
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (c *check) headers() {
	name := func(table, header, name string) {
		if !headerName.MatchString(name) {
			c.fail(c.at(table+"."+header), fmt.Sprintf("%q cannot be the name of a header", clip(name)), "")
		}
	}
	for _, h := range sorted(c.s.Headers) {
		name("headers", h, h)
		if strings.ContainsAny(c.s.Headers[h], "\r\n\x00") {
			c.fail(c.at("headers."+h), fmt.Sprintf("%s.headers.%s has a line end inside", c.path, clip(h)), "if it comes from a file, that must have one line")
		}
	}
	for _, h := range sorted(c.s.PassHeaders) {
		name("passHeaders", h, h)
		name("passHeaders", h, c.s.PassHeaders[h])
	}
	for _, h := range sorted(c.s.PassEnv) {
		name("passEnv", h, h)
	}
}

func (c *check) tools() {
	t := &c.s.Tools
	for key, list := range map[string][]string{"include": t.Include, "exclude": t.Exclude} {
		if slices.Contains(list, "") && !c.broken[c.s.Name] {
			c.fail(c.at("tools."+key), fmt.Sprintf("%s.tools.%s has an empty name", c.path, key), "")
		}
	}
	taken := map[string]string{}
	for _, from := range sorted(t.Rename) {
		to := t.Rename[from]
		switch other, twice := taken[to]; {
		case to == "":
			c.fail(c.at("tools.rename."+from), fmt.Sprintf("%s.tools.rename.%s has no new name", c.path, clip(from)), "to leave a tool out, use exclude")
		case twice:
			c.fail(c.at("tools.rename."+from), fmt.Sprintf("%s.tools.rename: %s and %s would both be called %q", c.path, clip(other), clip(from), clip(to)), "")
		}
		taken[to] = from
	}
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
