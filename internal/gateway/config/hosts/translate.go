package hosts

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Keys are those of our own format.
type Keys struct {
	File, Server []string
	Name         *regexp.Regexp // matches what a server may be called
}

// A Translation is a file in our own spelling.
type Translation struct {
	Root *syntax.Node

	// References matches references that the host has beside ours, at the beginning
	// of a text. What they refer to is in groups. It may be nil.
	References *regexp.Regexp

	src     *syntax.Source
	ours    Keys
	host    *host
	key     string       // at the top, that holds the servers; empty if all keys are servers
	path    string       // of the servers, for errors
	servers *syntax.Node // as they stand in the file
	inputs  *syntax.Node // what VS Code would ask for; may be nil

	ignored []syntax.Member // keys of servers that mean nothing to us, each once
	times   map[string]int  // how often they stand there
}

// Translate puts a file into our own spelling, and reports what it leaves out. A file
// that is ours already stays as it is.
func Translate(src *syntax.Source, ours Keys) *Translation { return translate(src, ours, nil) }

// translate is Translate; as is whose the file is, or nil if it says so itself.
func translate(src *syntax.Source, ours Keys, as *host) *Translation {
	t := &Translation{Root: src.Root, src: src, ours: ours, times: map[string]int{}}
	if !t.recognise() {
		return t
	}
	if as != nil && as.root == t.host.root {
		t.host = as
	}
	t.Root, t.References = src.Root.Empty(), t.host.references
	var beside []syntax.Member
	for _, m := range src.Root.Members {
		switch {
		case t.key == "" || m.Key == t.key || m.Value == t.inputs:
		case m.Key == "mcp" && t.host == gemini || m.Key == "$schema" || strings.HasPrefix(m.Key, "x-"):
		case t.host.ours && slices.Contains(ours.File, m.Key):
			t.Root.Set(m)
		default:
			beside = append(beside, m)
		}
	}
	t.Root.Set(syntax.Member{Key: "servers", At: t.servers.At, Value: t.translate()})
	t.reportIgnored()
	t.reportBeside(beside)
	return t
}

// recognise tells whose a file is by the keys at its top. It returns false for our
// own.
func (t *Translation) recognise() bool {
	root := t.src.Root
	for _, h := range []*host{anyHost, codex, zed, settings} {
		if n := root.Get(h.root); n != nil {
			t.host, t.key, t.path, t.servers = h, h.root, h.root, n
			if h == anyHost {
				t.host, t.inputs = withServers(t.src.Path, n), root.Get("inputs")
			}
			return true
		}
	}
	if mcp := root.Get("mcp"); mcp.Has("servers") || anyServer(mcp, "command", "url") {
		t.host, t.key, t.path, t.servers = openCode, "mcp", "mcp", mcp
		if n := mcp.Get("servers"); n != nil && !n.Has("command", "url") {
			t.path, t.servers, t.inputs = "mcp.servers", n, mcp.Get("inputs")
			if t.inputs != nil || root.Has("editor.fontSize") {
				t.host = settings
			}
		}
		return true
	}
	if n := root.Get("servers"); n != nil && t.isVSCode(n) {
		t.host, t.key, t.path, t.servers, t.inputs = vsCode, "servers", "servers", n, root.Get("inputs")
		return true
	}
	for _, m := range root.Members {
		if slices.Contains(t.ours.File, m.Key) || !m.Value.Has("command", "url", "serverUrl", "httpUrl") {
			return false
		}
	}
	if len(root.Members) == 0 {
		return false
	}
	t.host, t.path, t.servers = bare, "the file", root
	return true
}

// withServers tells apart those who write mcpServers.
func withServers(path string, servers *syntax.Node) *host {
	base, dir := filepath.Base(path), filepath.Base(filepath.Dir(path))
	switch {
	case dir == ".gemini" || dir == ".qwen" || anyServer(servers, "httpUrl", "trust", "includeTools", "excludeTools"):
		return gemini
	case base == "cline_mcp_settings.json" || base == "mcp_settings.json" || dir == ".roo" || dir == ".kilocode" || anyServer(servers, "autoApprove", "alwaysAllow"):
		return cline
	}
	return anyHost
}

func anyServer(servers *syntax.Node, keys ...string) bool {
	return servers != nil && slices.ContainsFunc(servers.Members, func(m syntax.Member) bool { return m.Value.Has(keys...) })
}

// isVSCode tells VS Code's file from ours, which has the same key.
func (t *Translation) isVSCode(servers *syntax.Node) bool {
	base, root := filepath.Base(t.src.Path), t.src.Root
	switch {
	case slices.ContainsFunc(t.ours.File, func(key string) bool { return key != "servers" && root.Has(key) }):
		return false
	case root.Has("inputs") || filepath.Base(filepath.Dir(t.src.Path)) == ".vscode":
		return true
	case strings.HasPrefix(base, "dragoman."):
		return false
	}
	return base == "mcp.json" || base == ".mcp.json" || anyServer(servers, "type", "dev", "sandboxEnabled", "gallery")
}

// Input returns the default of a value that the host would ask for, and the ids of
// all of them.
func (t *Translation) Input(id string) (value string, ok bool, ids []string) {
	if t.inputs == nil {
		return "", false, nil
	}
	for _, in := range t.inputs.Items {
		if known := in.Get("id"); known != nil {
			ids = append(ids, known.Text)
			if def := in.Get("default"); known.Text == id && def != nil && def.Scalar() && !ok {
				value, ok = def.Text, true
			}
		}
	}
	return value, ok, ids
}

// translate puts the mapping of servers into our own spelling.
func (t *Translation) translate() *syntax.Node {
	out := t.servers.Empty()
	out.Path = t.path
	var allowed, excluded []string
	if t.host == gemini {
		allowed, excluded = t.names("allowed"), t.names("excluded")
	}
	for _, m := range t.servers.Members {
		name, ok := t.rename(m, out)
		if !ok {
			continue
		}
		s := &server{Translation: t, name: name, path: "servers." + name, out: m.Value}
		if m.Value.Kind == syntax.Table {
			s.translate(m.Value)
		}
		if len(allowed) > 0 && !slices.Contains(allowed, m.Key) || slices.Contains(excluded, m.Key) {
			s.put(m.At, &syntax.Node{Kind: syntax.Boolean, Text: "true", At: m.At}, "disabled")
		}
		out.Set(syntax.Member{Key: name, At: m.At, Value: s.out})
	}
	return out
}

// names reads a list of servers in a file of Gemini CLI.
func (t *Translation) names(key string) (list []string) {
	n := t.src.Root.Get("mcp").Get(key)
	if n == nil {
		return nil
	}
	if n.Kind != syntax.List {
		t.report("", n.At, fmt.Sprintf("mcp.%s: a list is expected, not %s", key, n.Show()), "", false)
	}
	for _, item := range n.Items {
		list = append(list, item.Text)
	}
	return list
}

var notInName = lazy.Regexp(`[^A-Za-z0-9_.-]+`)

// rename returns what a server is called here: hosts allow more characters than we
// do. A name for which nothing can be done is left to the reader.
func (t *Translation) rename(m syntax.Member, taken *syntax.Node) (string, bool) {
	name := strings.Trim(notInName().ReplaceAllString(m.Key, "-"), "-")
	switch {
	case t.ours.Name.MatchString(m.Key) || !t.ours.Name.MatchString(name):
		return m.Key, true
	case taken.Has(name) || t.servers.Has(name):
		t.report("", m.At, fmt.Sprintf("%q would be called %q here, as another server is", syntax.Clip(m.Key), name), "rename one of them", false)
		return "", false
	}
	t.report("", m.At, fmt.Sprintf("%q is called %q here", syntax.Clip(m.Key), name), "", true)
	return name, true
}

func (t *Translation) report(server string, at syntax.Position, message, hint string, warning bool) {
	t.src.Report(syntax.Problem{Source: t.src, At: at, About: server, Message: message, Hint: hint, Warning: warning})
}

// reportIgnored names each ignored key once, however often it stands there.
func (t *Translation) reportIgnored() {
	known := slices.Concat(t.ours.Server, slices.Sorted(maps.Keys(spellings)))
	for _, m := range t.ignored {
		message := fmt.Sprintf("%q means nothing here and is ignored", syntax.Clip(m.Key))
		if n := t.times[m.Key]; n > 1 {
			message += fmt.Sprintf(" (it stands here %d times)", n)
		}
		t.report("", m.At, message, cmp.Or(spellings[m.Key].doc, syntax.DidYouMean(m.Key, known)), true)
	}
}

// reportBeside names what stands beside the servers in one warning, as a host's
// settings may be many, but for what looks like a key of ours.
func (t *Translation) reportBeside(beside []syntax.Member) {
	const shown = 8
	ours := append(slices.Clip(t.ours.File), t.key)
	var names []string
	var first syntax.Position
	for _, m := range beside {
		name := syntax.Clip(m.Key)
		if hint := syntax.DidYouMean(m.Key, ours); t.host.ours && hint != "" {
			t.report("", m.At, fmt.Sprintf("%q means nothing here and is ignored", name), hint, true)
			continue
		}
		if names = append(names, name); len(names) == 1 {
			first = m.At
		}
	}
	if more := len(names) - shown; more > 0 {
		names = append(names[:shown-1], fmt.Sprintf("%s and %d more", names[shown-1], more))
	}
	if names != nil {
		t.report("", first, "ignored, because it is not about servers: "+strings.Join(names, ", "), "", true)
	}
}

// A server is one server on its way into our own spelling.
type server struct {
	*Translation
	name    string // ours
	path    string // for errors
	out     *syntax.Node
	implied *syntax.Node // the transport, if none is given
}

// translate reads a server by the host's spelling, and else by ours. Keys that are
// neither are ignored.
func (s *server) translate(n *syntax.Node) {
	s.out = n.Empty()
	for _, m := range n.Members {
		sp, known := spellings[m.Key]
		switch {
		case m.Value.Kind == syntax.Null:
		case sp.take != nil:
			sp.take(s, m)
		case !known && slices.Contains(s.ours.Server, m.Key):
			s.put(m.At, m.Value, m.Key)
		default:
			if s.times[m.Key]++; s.times[m.Key] == 1 {
				s.ignored = append(s.ignored, m)
			}
		}
	}
	if s.implied != nil && !s.out.Has("transport") {
		s.put(s.implied.At, s.implied, "transport")
	}
}

// put sets a value by its path in our spelling. Mappings are merged, and lists are
// joined.
func (s *server) put(at syntax.Position, n *syntax.Node, path ...string) {
	into, last := s.out, len(path)-1
	for _, key := range path[:last] {
		if !into.Has(key) {
			into.Set(syntax.Member{Key: key, At: at, Value: &syntax.Node{Kind: syntax.Table, At: at}})
		}
		into = into.Get(key)
	}
	old := into.Get(path[last])
	switch {
	case into.Kind != syntax.Table:
		return // which is wrong, as its reader reports
	case old != nil && old.Scalar() != n.Scalar():
		s.fail(n.At, fmt.Sprintf("%s.%s is %s already", s.path, strings.Join(path, "."), old.Kind))
		return
	case old != nil && old.Kind == syntax.List && n.Kind == syntax.List:
		joined := *old
		joined.Items = slices.Concat(old.Items, n.Items)
		n = &joined
	case n.Kind == syntax.Table:
		merged := n.Empty()
		if old != nil && old.Kind == syntax.Table {
			merged = old
		}
		for _, m := range n.Members {
			merged.Set(m)
		}
		n = merged
	}
	into.Set(syntax.Member{Key: path[last], At: at, Value: n})
}

func (s *server) fail(at syntax.Position, message string) {
	s.out.Broken = true
	s.report(s.name, at, message, "", false)
}

// written returns a copy of a value that errors name as it is written.
func (s *server) written(m syntax.Member) *syntax.Node {
	n := *m.Value
	n.Path = s.path + "." + m.Key
	return &n
}

// as takes a value over to a path in our spelling.
func as(path ...string) func(*server, syntax.Member) {
	return func(s *server, m syntax.Member) { s.put(m.At, s.written(m), path...) }
}

// timeIn takes a time over. A number is in unit, or in the host's if that is zero.
func timeIn(unit time.Duration, path ...string) func(*server, syntax.Member) {
	return func(s *server, m syntax.Member) {
		n := s.written(m)
		n.Unit = cmp.Or(unit, s.host.unit, time.Millisecond)
		s.put(m.At, n, path...)
	}
}

// command takes what some hosts write in one key: a list, or a mapping.
func (s *server) command(m syntax.Member) {
	n := m.Value
	switch {
	case n.Kind == syntax.List && len(n.Items) == 0:
		s.fail(n.At, s.path+".command is an empty list")
	case n.Kind == syntax.List:
		s.put(n.Items[0].At, n.Items[0], "command")
		s.put(n.At, &syntax.Node{Kind: syntax.List, Items: n.Items[1:], At: n.At}, "args")
	case n.Kind == syntax.Table:
		for ours, theirs := range map[string]string{"command": "path", "args": "args", "env": "env"} {
			if v := n.Get(theirs); v != nil {
				s.put(v.At, v, ours)
			}
		}
	default:
		s.put(m.At, n, "command")
	}
}

func (s *server) env(m syntax.Member) {
	n := s.written(m)
	n.Members = slices.DeleteFunc(slices.Clone(n.Members), func(m syntax.Member) bool { return m.Value.Kind == syntax.Null })
	s.put(m.At, n, "env")
}

// envVars takes names, or mappings with a name.
func (s *server) envVars(m syntax.Member) {
	n := s.written(m)
	n.Items = slices.Clone(n.Items)
	for i, item := range n.Items {
		if name := item.Get("name"); name != nil {
			n.Items[i] = name
		}
	}
	s.put(m.At, n, "inherit")
}

func (s *server) inheritAll(m syntax.Member) {
	switch n := m.Value; {
	case n.Kind != syntax.Boolean:
		s.fail(n.At, fmt.Sprintf("%s.%s: true or false is expected, not %s", s.path, m.Key, n.Show()))
	case n.Text == "true":
		s.put(m.At, &syntax.Node{Kind: syntax.List, Items: []*syntax.Node{n.As("*")}, At: n.At}, "inherit")
	}
}

func (s *server) transport(m syntax.Member) {
	n := m.Value
	if Transport(n.Text) == "http" && s.host.httpIsAuto {
		n = n.As("auto")
	}
	s.put(m.At, n, "transport")
}

// url gives way to any other key that means a URL.
func (s *server) url(m syntax.Member) {
	if s.out.Has("url") {
		return
	}
	s.put(m.At, m.Value, "url")
	if s.host.urlIsSSE {
		s.implied = m.Value.As("sse")
	}
}

func (s *server) httpURL(m syntax.Member) {
	s.put(m.At, s.written(m), "url")
	s.implied = m.Value.As("http")
}

// header sets a header to a variable whose name is given, unless it is set otherwise.
func (s *server) header(at syntax.Position, name, before string, variable *syntax.Node) {
	switch {
	case !variable.Scalar() || !variableName().MatchString(variable.Text):
		s.fail(variable.At, "the name of a variable is expected")
	case !s.out.Get("headers").Has(name):
		s.put(at, variable.As(before+"${"+variable.Text+"}"), "headers", name)
	}
}

var variableName = lazy.Regexp(`^[A-Za-z_]\w*$`)

func (s *server) bearer(m syntax.Member) { s.header(m.At, "Authorization", "Bearer ", m.Value) }

func (s *server) envHeaders(m syntax.Member) {
	if m.Value.Kind != syntax.Table {
		s.put(m.At, s.written(m), "headers")
	}
	for _, h := range m.Value.Members {
		s.header(h.At, h.Key, "", h.Value)
	}
}

func (s *server) enabled(m syntax.Member) {
	n := s.written(m)
	n.Not = true
	s.put(m.At, n, "disabled")
}

// include takes a list of tools, as some hosts also write it in tools.
func (s *server) include(m syntax.Member) {
	n := s.written(m)
	isAll := func(item *syntax.Node) bool { return item.Text == "*" }
	switch {
	case n.Kind == syntax.List && len(n.Items) == 0: // offers nothing
		n.Items = []*syntax.Node{{Kind: syntax.Text, Text: "*", At: n.At}}
		s.put(m.At, n, "tools", "exclude")
	case n.Kind == syntax.Table && m.Key == "tools":
		s.put(m.At, n, "tools")
	case !slices.ContainsFunc(n.Items, isAll):
		s.put(m.At, n, "tools", "include")
	}
}

// revision takes the era, or a revision of it.
func (s *server) revision(m syntax.Member) {
	n := s.written(m)
	for _, r := range protocol.Revisions() {
		if r.String() == n.Text {
			n = n.As(r.Era().String())
		}
	}
	s.put(m.At, n, "era")
}
