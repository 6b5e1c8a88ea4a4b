package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

// find follows keys and indices from a value to one in it. A value in its short form
// stands for what is in it. If there is none, find returns the last value on the way.
func find(m syntax.Member, steps ...any) (syntax.Member, bool) {
	for _, step := range steps {
		n := m.Value
		next, ok := syntax.Member{At: n.At, Value: n}, n.Kind != syntax.Null
		switch step := step.(type) {
		case string:
			if n.Kind == syntax.Table {
				next, ok = n.Member(step)
			}
		case int:
			if n.Kind == syntax.List {
				next = syntax.Member{At: n.Items[step].At, Value: n.Items[step]}
			}
		}
		if !ok {
			return m, false
		}
		m = next
	}
	return m, true
}

// A check is about one server.
type check struct {
	*reader
	*Server
	member syntax.Member // where it stands
	path   string
}

// at returns where a value of the server stands: its key, or that of what it is in.
func (c *check) at(steps ...any) syntax.Position {
	m, _ := find(c.member, steps...)
	return m.At
}

// value returns the place of a value, and the value as it may be shown.
func (c *check) value(key string) (syntax.Position, string) {
	m, ok := find(c.member, key)
	if !ok {
		return m.At, "the value"
	}
	return m.Value.At, m.Value.Show()
}

// all checks what the types do not say, and completes the server: paths become
// absolute, and the variables of its env file are added.
func (c *check) all() {
	c.describe()
	c.target()
	c.useless()
	if c.URL != "" {
		c.url()
	} else {
		c.command()
	}
	c.variables()
	c.headers()
	c.credentials()
	c.patterns()
	c.rates()
	c.rename()
	c.sessions()
	if len(c.PassEnv) > 0 && c.Isolation == "shared" {
		c.fail(c.at("passEnv"), c.path+": passEnv gives each caller a process of its own, isolation shared one to all", "use isolation client or session")
	}
	if c.Retry.Max > 0 && c.Retry.Min > c.Retry.Max {
		c.fail(c.at("retry", "min"), c.path+".retry: min is longer than max", "")
	}
}

// describe keeps how the server is spoken of: as it is written, so that no value of
// a reference shows.
func (c *check) describe() {
	server := c.member.Value
	if url := server.Get("url"); url != nil && !url.Secret {
		before, _, cut := strings.Cut(url.Open(), "?")
		if c.where = before; cut {
			c.where += "?…"
		}
	} else if command := server.Get("command"); command != nil {
		words := []string{command.Open()}
		if args := server.Get("args"); args != nil {
			for _, a := range args.Items {
				words = append(words, a.Open())
			}
		}
		c.where = strings.Join(words, " ")
	}
}

// target checks that there is a command or a URL, and not both, and a transport
// that fits.
func (c *check) target() {
	how := c.ResolvedTransport()
	switch {
	case c.Command != "" && c.URL != "":
		c.fail(c.at("url"), c.path+" has a command and a url", "remove one of them")
	case c.Command == "" && c.URL == "" && c.broken[c.Name]:
		// What is wrong may be just that.
	case c.Command == "" && c.URL == "" && c.member.Value.Has("command"):
		c.fail(c.at("command"), c.path+".command is empty", "name the program to start")
	case c.Command == "" && c.URL == "":
		c.fail(c.at(), c.path+" has neither a command nor a url", "")
	case c.Command != "" && how != Stdio:
		c.fail(c.at("transport"), fmt.Sprintf("%s: transport %s needs a url, and there is a command", c.path, how), "leave out the transport")
	case c.URL != "" && how == Stdio:
		c.fail(c.at("transport"), c.path+": transport stdio needs a command, and there is a url", "leave out the transport")
	}
}

// useless warns of keys that are for the other kind of server.
func (c *check) useless() {
	kind, other := "command", "url"
	if c.URL != "" {
		kind, other = other, kind
	}
	v := reflect.ValueOf(c.Server).Elem()
	for _, k := range serverObject.keys {
		f := v.Field(k.index)
		if empty := f.IsZero() || f.Kind() == reflect.Map && f.Len() == 0; !empty && k.only == other && k.name != other {
			c.warn(c.at(k.name), fmt.Sprintf("%s.%s means nothing for a server with a %s", c.path, k.name, kind), "")
		}
	}
}

// shellCharacters mean something to a shell, which there is none of.
const shellCharacters = "|&;<>()$`\"'*?"

func (c *check) command() {
	at, shown := c.value("command")
	if c.Command == "." || c.Command == ".." || strings.ContainsRune(c.Command, 0) {
		c.fail(at, fmt.Sprintf("%s.command: %s is no program", c.path, shown), "")
		return
	}
	if len(c.Args) == 0 && strings.ContainsAny(c.Command, " "+shellCharacters) {
		if _, err := os.Stat(c.Command); err != nil {
			hint := "put the program into command and each word behind it into args"
			raw := c.member.Value.Get("command")
			if words := strings.Fields(raw.Text); len(words) > 1 && raw.Open() == raw.Text && !strings.ContainsAny(raw.Text, shellCharacters) {
				hint = fmt.Sprintf("write command: %s and args: [%s]", words[0], strings.Join(words[1:], ", "))
			}
			c.warn(at, fmt.Sprintf("%s.command: %s is taken as the name of one program, as no shell is used", c.path, shown), hint)
		}
	}
	if strings.HasPrefix(c.Command, "~/") || c.Cwd == "" && strings.ContainsRune(c.Command, filepath.Separator) {
		c.Command = c.absolute(c.Command)
	}
	for i, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			c.fail(c.at("args"), fmt.Sprintf("%s.args[%d] has a zero byte", c.path, i), "")
		}
	}
	if info, err := os.Stat(c.Cwd); c.Cwd != "" && (err != nil || !info.IsDir()) {
		at, shown := c.value("cwd")
		c.warn(at, fmt.Sprintf("%s.cwd: %s is not a directory", c.path, shown), "")
	}
	if c.EnvFile != "" {
		c.envFile()
	}
	c.confinement()
}

func (c *check) url() {
	at, shown := c.value("url")
	where := c.path + ".url: " + shown
	u, err := url.Parse(c.URL)
	if err != nil {
		// A colon in a host is no port: tcp:host:port is ours and no URL.
		u, err = url.Parse(strings.Replace(c.URL, ":", "://", 1))
	}
	if err != nil {
		c.fail(at, where+" is not a URL", "")
		return
	}
	list, known := schemes[strings.ToLower(u.Scheme)]
	switch {
	case u.Scheme == "":
		c.fail(at, where+" is not a URL", "begin with https:// or http://")
	case !known:
		c.fail(at, where+" has a scheme that is not spoken here", "use http, https, ws, wss, tcp or unix")
	case list[0] == Auto && len(u.Host)+len(u.Path)+len(u.Opaque) == 0, u.Host == "" && (list[0] == WS || u.Scheme == "http" || u.Scheme == "https"):
		c.fail(at, where+" has no host", "")
	case list[0] == TCP && !hasPort(c.URL):
		c.fail(at, where+" has no host and port", "write tcp:HOST:PORT")
	case strings.ContainsAny(c.URL, "\r\n\x00"):
		c.fail(at, where+" has a line end inside", "")
	case c.ResolvedTransport() != Stdio && !slices.Contains(list, c.ResolvedTransport()):
		c.fail(at, fmt.Sprintf("%s does not go with transport %s", where, c.ResolvedTransport()), "leave out the transport")
	case u.User != nil:
		c.warn(at, c.path+".url has a user and a password in it", "use a header Authorization and a reference")
	case (u.Scheme == "http" || u.Scheme == "ws") && !isLocal(u.Hostname()):
		c.warn(at, where+" is not encrypted: others on the way can read and change what is sent", "use https or wss")
	}
}

// hasPort reports whether a URL as tcp:HOST:PORT is complete.
func hasPort(url string) bool {
	_, rest, _ := strings.Cut(url, ":")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(rest, "//"))
	return err == nil && port != ""
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// variables checks what becomes a child's environment.
func (c *check) variables() {
	for _, name := range sorted(c.Env) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			c.fail(c.at("env", name), fmt.Sprintf("%q cannot be the name of a variable", syntax.Clip(name)), "")
		case strings.ContainsRune(c.Env[name], 0):
			c.fail(c.at("env", name), fmt.Sprintf("%s.env.%s has a zero byte", c.path, name), "")
		}
	}
	for _, header := range sorted(c.PassEnv) {
		if name := c.PassEnv[header]; !variableName().MatchString(name) {
			c.fail(c.at("passEnv", header), fmt.Sprintf("%q cannot be the name of a variable", syntax.Clip(name)), "")
		}
	}
}

var headerName = lazy.Regexp("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

func (c *check) headers() {
	name := func(table, header, name string) {
		if !headerName().MatchString(name) {
			c.fail(c.at(table, header), fmt.Sprintf("%q cannot be the name of a header", syntax.Clip(name)), "")
		}
	}
	for _, h := range sorted(c.Headers) {
		name("headers", h, h)
		if strings.ContainsAny(c.Headers[h], "\r\n\x00") {
			c.fail(c.at("headers", h), fmt.Sprintf("%s.headers.%s has a line end inside", c.path, syntax.Clip(h)), "if it comes from a file, that must have one line")
		}
	}
	for _, h := range sorted(c.PassHeaders) {
		name("passHeaders", h, h)
		name("passHeaders", h, c.PassHeaders[h])
		c.passes("passHeaders", h, h, connectionHeaders)
		if theirs := c.PassHeaders[h]; !strings.EqualFold(theirs, h) {
			c.passes("passHeaders", h, theirs, connectionHeaders, messageHeaders)
		}
	}
	for _, h := range sorted(c.PassEnv) {
		name("passEnv", h, h)
		c.passes("passEnv", h, h, connectionHeaders)
	}
}

// Headers that are not passed on, in lower case, and why.
var (
	connectionHeaders = map[string]string{
		"host":           "it names the host that a request is sent to",
		"cookie":         "browsers add it by themselves, to requests of foreign pages too",
		"set-cookie":     "it is no header of a request",
		"content-length": "it is the length of another body", "content-encoding": "the server is sent another body", "transfer-encoding": "the server is sent another body",
		"connection": ofOneConnection, "keep-alive": ofOneConnection, "proxy-connection": ofOneConnection, "te": ofOneConnection, "trailer": ofOneConnection,
		"upgrade": ofOneConnection, "http2-settings": ofOneConnection, "expect": ofOneConnection, "proxy-authenticate": ofOneConnection, "proxy-authorization": ofOneConnection,
		"sec-websocket-": ofOneConnection,
	}

	// messageHeaders are those that the gateway itself writes for the server.
	messageHeaders = map[string]string{
		"accept": ofTheGateway, "accept-encoding": ofTheGateway, "content-type": ofTheGateway, "last-event-id": ofTheGateway,
		"mcp-session-id": ofTheGateway, "mcp-protocol-version": ofTheGateway, "mcp-method": ofTheGateway, "mcp-name": ofTheGateway, "mcp-param-": ofTheGateway,
	}
)

const (
	ofOneConnection = "it is about the client's connection to this gateway"
	ofTheGateway    = "the gateway sets it in each request to the server"
)

// passes refuses to pass on a header of one of the lists. header is the key.
func (c *check) passes(table, header, name string, lists ...map[string]string) {
	for _, list := range lists {
		key := strings.ToLower(name)
		for _, family := range [...]string{"sec-websocket-", "mcp-param-"} {
			if strings.HasPrefix(key, family) {
				key = family
			}
		}
		if why := list[key]; why != "" {
			c.fail(c.at(table, header), fmt.Sprintf("%s.%s: %q cannot be passed on: %s", c.path, table, syntax.Clip(name), why),
				"remove it; what the server needs can be sent in another header, such as X-Tenant")
			return
		}
	}
}

// credentials checks what lets us in to the server, and how that is reached.
func (c *check) credentials() {
	a, path := &c.Auth, c.path+".auth"
	other := slices.Collect(maps.Keys(c.Headers))
	for _, name := range c.PassHeaders {
		other = append(other, name)
	}
	authorization := slices.ContainsFunc(other, func(name string) bool { return strings.EqualFold(name, "Authorization") })
	switch how := c.ResolvedTransport(); {
	case a.TokenFile == "" && len(a.Command) == 0:
	case a.TokenFile != "" && len(a.Command) > 0:
		c.fail(c.at("auth", "command"), path+" has a tokenFile and a command", "remove one of them")
	case authorization:
		c.fail(c.at("auth"), path+" has a token, and there is an Authorization header, too", "remove one of them")
	case a.SignIn == "caller":
		c.fail(c.at("auth", "signIn"), path+" has one token for everybody, and signIn caller wants one for each", "remove one of them")
	case how == TCP || how == Unix:
		c.fail(c.at("auth"), path+": tokens are for servers that are reached by HTTP or WebSocket", "")
	case len(a.Command) > 0 && a.Command[0] == "":
		c.fail(c.at("auth", "command"), path+".command has no program", "name it first, then its arguments")
	}
	if len(a.Command) > 0 && (strings.HasPrefix(a.Command[0], "~/") || strings.ContainsRune(a.Command[0], filepath.Separator)) {
		a.Command = append([]string{c.absolute(a.Command[0])}, a.Command[1:]...)
	}
	if c.TLS.Key != "" && c.TLS.Cert == "" {
		c.fail(c.at("tls", "key"), c.path+".tls has a key and no cert", "")
	}
	if c.Proxy == "" || c.Proxy == "none" {
		return
	}
	u, err := url.Parse(c.Proxy)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		c.fail(c.at("proxy"), c.path+".proxy is no URL of a proxy", "write http://HOST:PORT (or https, socks5), or none")
	}
}

// patterns checks what says which tools, prompts and resources are offered.
func (c *check) patterns() {
	if c.broken[c.Name] {
		return // what is wrong may be just that
	}
	for _, p := range []struct {
		of, key string
		list    []string
	}{
		{"tools", "include", c.Tools.Include}, {"tools", "exclude", c.Tools.Exclude},
		{"prompts", "include", c.Prompts.Include}, {"prompts", "exclude", c.Prompts.Exclude},
		{"resources", "include", c.Resources.Include}, {"resources", "exclude", c.Resources.Exclude},
	} {
		if slices.Contains(p.list, "") {
			c.fail(c.at(p.of, p.key), fmt.Sprintf("%s.%s.%s has an empty name", c.path, p.of, p.key), "")
		}
	}
}

// rates checks what bounds how often the server and its tools are asked.
func (c *check) rates() {
	if c.Burst > 0 && c.Rate.Count == 0 {
		c.fail(c.at("burst"), c.path+": burst means nothing without rate", rateHint)
	}
	for _, pattern := range sorted(c.Tools.Limits) {
		l, at, path := c.Tools.Limits[pattern], c.at("tools", "limits", pattern), c.path+".tools.limits."+syntax.Clip(pattern)
		switch {
		case pattern == "":
			c.fail(at, c.path+".tools.limits has an empty name", "")
		case l.Burst > 0 && l.Rate.Count == 0:
			c.fail(at, path+": burst means nothing without rate", rateHint)
		}
	}
}

// rename checks the names that tools are given.
func (c *check) rename() {
	taken := map[string]string{}
	for _, from := range sorted(c.Tools.Rename) {
		to, at, path := c.Tools.Rename[from], c.at("tools", "rename", from), c.path+".tools.rename"
		switch other, twice := taken[to]; {
		case to == "":
			c.fail(at, fmt.Sprintf("%s.%s has no new name", path, syntax.Clip(from)), "to leave a tool out, use exclude")
		case twice:
			c.fail(at, fmt.Sprintf("%s: %s and %s would both be called %q", path, syntax.Clip(other), syntax.Clip(from), syntax.Clip(to)), "")
		}
		taken[to] = from
	}
}

// sessions warns of limits that are never reached.
func (c *check) sessions() {
	k, _ := serverObject.find("sessions")
	most, _ := strconv.Atoi(k.def)
	if c.Sessions > 0 {
		most = c.Sessions
	}
	for key, n := range map[string]int{"sessionsPerClient": c.SessionsPerClient, "pool": c.Pool} {
		if at, _ := c.value(key); n > most {
			c.warn(at, fmt.Sprintf("%s.%s: %d is more than all sessions, of which there may be %d", c.path, key, n, most), "raise sessions, or lower "+key)
		}
	}
}

// note reports something about a value of the merged file.
func (l *loader) note(warning bool, message, hint string, steps ...any) {
	l.noteServer("", warning, message, hint, steps...)
}

// noteServer reports something about a server, or with "" about no server. A server with an error
// is left out.
func (l *loader) noteServer(server string, warning bool, message, hint string, steps ...any) {
	if server != "" && !warning {
		l.broken[server] = true
	}
	for _, r := range slices.Backward(l.readers) {
		m, ok := find(syntax.Member{Value: r.in.Root}, steps...)
		if !ok {
			continue
		}
		p := syntax.Problem{Source: r.src, At: m.At, About: server, Message: message, Hint: hint, Warning: warning}
		if m.Value.Scalar() {
			p.At = m.Value.At
		}
		known := func(old syntax.Problem) bool { return !old.Warning && old.Source == p.Source && old.At == p.At }
		if warning || !slices.ContainsFunc(l.log.problems, known) { // else it has no value because of what was found there before
			l.log.add(p)
		}
		return
	}
}

// checkGroups checks groups against the servers of all files.
func (l *loader) checkGroups() {
	all := sorted(l.seen)
	paths := map[string]string{}
	for _, name := range sorted(l.file.Groups) {
		g, path := l.file.Groups[name], "groups."+name
		if !goodName().MatchString(name) {
			l.note(false, fmt.Sprintf("%q cannot be the name of a group", syntax.Clip(name)), nameHint, "groups", name)
		}
		if len(g.Servers) == 0 {
			l.note(false, path+" has no servers", "", "groups", name)
			continue
		}
		for i, server := range g.Servers {
			switch {
			case l.seen[server] == "":
				l.note(false, fmt.Sprintf("%s: there is no server %q", path, syntax.Clip(server)), syntax.DidYouMean(server, all), "groups", name, "servers", i)
			case slices.Contains(g.Servers[:i], server):
				l.note(false, fmt.Sprintf("%s names the server %q twice", path, server), "", "groups", name, "servers", i)
			}
		}
		switch {
		case g.Path == "":
			continue
		case !strings.HasPrefix(g.Path, "/") || strings.ContainsAny(g.Path, "?# {}"):
			l.note(false, fmt.Sprintf("%s.path: %q is no path", path, syntax.Clip(g.Path)), "begin with / and leave out ? and #", "groups", name, "path")
		case paths[g.Path] != "":
			l.note(false, fmt.Sprintf("%s.path is that of %s", path, paths[g.Path]), "", "groups", name, "path")
		}
		paths[g.Path] = path
	}
}

// checkLimits checks what clients may use.
func (l *loader) checkLimits() {
	for _, c := range []struct {
		burst int
		rate  limit.Rate
		key   string
		of    string
	}{
		{l.file.Limits.Burst, l.file.Limits.Rate, "burst", "rate"},
		{l.file.Limits.BurstPerCaller, l.file.Limits.RatePerCaller, "burstPerCaller", "ratePerCaller"},
	} {
		if c.burst > 0 && c.rate.Count == 0 {
			l.note(false, fmt.Sprintf("limits: %s means nothing without %s", c.key, c.of), rateHint, "limits", c.key)
		}
	}
}

const rateHint = "add a rate, as in 50/s"

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
