package hosts

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// A Program is a host as its user knows it: where its file lies, and how a server is
// written there. How its file is read is the business of its reader.
type Program struct {
	ID   string // what it is called on a command line
	Name string
	also []string // other names of it

	user    func(*Directories) string // its file for all projects
	project string                    // that of a project, in its directory; empty if there is none
	root    []string                  // keys above the servers
	reader  *host

	speaksHTTP bool                     // it can use a URL
	words      map[string]string        // its words for the transports, in type; nil if it has no such key
	urls       map[string]string        // keys of a URL by transport, if that is not url
	reference  func(name string) string // how it refers to a variable of the environment; nil if it cannot
	headers    string                   // the key of headers, if that is not headers
	split      bool                     // headers from variables have a key of their own, as Codex has it
	list       bool                     // a command is one list
	env        string                   // the key of the environment, if that is not env
	always     []syntax.Member          // members that each server has
}

// Directories are those of a user below which hosts keep their files.
type Directories struct {
	OS      string // as runtime.GOOS
	Home    string
	Config  string // as os.UserConfigDir
	Getenv  func(string) string
	Project string
}

// UserDirectories returns the directories of the user who runs this process.
func UserDirectories() (*Directories, error) {
	d := &Directories{OS: runtime.GOOS, Getenv: os.Getenv}
	var err error
	if d.Home, err = os.UserHomeDir(); err != nil {
		return nil, err
	}
	if d.Config, err = os.UserConfigDir(); err != nil {
		return nil, err
	}
	d.Project, err = os.Getwd()
	return d, err
}

// xdg is where programs keep their files that do so alike on every system.
func (d *Directories) xdg() string {
	if dir := d.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(d.Home, ".config")
}

func atHome(path ...string) func(*Directories) string {
	return func(d *Directories) string { return filepath.Join(append([]string{d.Home}, path...)...) }
}

func atConfig(path ...string) func(*Directories) string {
	return func(d *Directories) string { return filepath.Join(append([]string{d.Config}, path...)...) }
}

// ofExtension returns the file of an extension of VS Code.
func ofExtension(id, file string) func(*Directories) string {
	return atConfig("Code", "User", "globalStorage", id, "settings", file)
}

func braces(name string) string    { return "${" + name + "}" }
func bracesEnv(name string) string { return "${env:" + name + "}" }

var mcpServers = []string{"mcpServers"}

// programs are all that we know the files of.
var programs = []*Program{
	{ID: "claude", Name: "Claude Desktop", also: []string{"claude-desktop"}, user: atConfig("Claude", "claude_desktop_config.json"), root: mcpServers, reader: anyHost},
	{
		ID: "claude-code", Name: "Claude Code", user: atHome(".claude.json"), project: ".mcp.json", root: mcpServers, reader: anyHost,
		speaksHTTP: true, words: map[string]string{"http": "http", "sse": "sse"}, reference: braces,
	},
	{
		ID: "vscode", Name: "VS Code", also: []string{"code", "vs-code"}, user: atConfig("Code", "User", "mcp.json"), project: ".vscode/mcp.json", root: []string{"servers"}, reader: vsCode,
		speaksHTTP: true, words: map[string]string{"stdio": "stdio", "http": "http", "sse": "sse"}, reference: bracesEnv,
	},
	{ID: "cursor", Name: "Cursor", user: atHome(".cursor", "mcp.json"), project: ".cursor/mcp.json", root: mcpServers, reader: anyHost, speaksHTTP: true, reference: bracesEnv},
	{
		ID: "windsurf", Name: "Windsurf", user: atHome(".codeium", "windsurf", "mcp_config.json"), root: mcpServers, reader: anyHost,
		speaksHTTP: true, urls: map[string]string{"http": "serverUrl", "sse": "serverUrl"}, reference: bracesEnv,
	},
	{ID: "zed", Name: "Zed", user: zedSettings, project: ".zed/settings.json", root: []string{"context_servers"}, reader: zed, speaksHTTP: true},
	{
		ID: "gemini", Name: "Gemini CLI", also: []string{"gemini-cli"}, user: atHome(".gemini", "settings.json"), project: ".gemini/settings.json", root: mcpServers, reader: gemini,
		speaksHTTP: true, urls: map[string]string{"http": "httpUrl"}, reference: braces,
	},
	{
		ID: "qwen", Name: "Qwen Code", also: []string{"qwen-code"}, user: atHome(".qwen", "settings.json"), project: ".qwen/settings.json", root: mcpServers, reader: gemini,
		speaksHTTP: true, urls: map[string]string{"http": "httpUrl"}, reference: braces,
	},
	{
		ID: "codex", Name: "Codex", user: codexConfig, project: ".codex/config.toml", root: []string{"mcp_servers"}, reader: codex,
		speaksHTTP: true, headers: "http_headers", split: true,
	},
	{
		ID: "cline", Name: "Cline", user: ofExtension("saoudrizwan.claude-dev", "cline_mcp_settings.json"), root: mcpServers, reader: cline,
		speaksHTTP: true, words: map[string]string{"http": "streamableHttp", "sse": "sse"},
	},
	{
		ID: "roo", Name: "Roo Code", also: []string{"roo-code"}, user: ofExtension("rooveterinaryinc.roo-cline", "mcp_settings.json"), project: ".roo/mcp.json", root: mcpServers, reader: cline,
		speaksHTTP: true, words: map[string]string{"http": "streamable-http", "sse": "sse"}, reference: bracesEnv,
	},
	{
		ID: "kilo", Name: "Kilo Code", also: []string{"kilocode", "kilo-code"}, user: ofExtension("kilocode.kilo-code", "mcp_settings.json"), project: ".kilocode/mcp.json", root: mcpServers, reader: cline,
		speaksHTTP: true, words: map[string]string{"http": "streamable-http", "sse": "sse"},
	},
	{
		ID: "opencode", Name: "OpenCode", user: openCodeConfig, project: "opencode.json", root: []string{"mcp"}, reader: openCode,
		speaksHTTP: true, words: map[string]string{"stdio": "local", "http": "remote", "sse": "remote"}, list: true, env: "environment",
		reference: func(name string) string { return "{env:" + name + "}" },
		always:    []syntax.Member{{Key: "enabled", Value: &syntax.Node{Kind: syntax.Boolean, Text: "true"}}},
	},
	{
		ID: "copilot", Name: "Copilot CLI", also: []string{"copilot-cli"}, user: atHome(".copilot", "mcp-config.json"), root: mcpServers, reader: anyHost,
		speaksHTTP: true, words: map[string]string{"stdio": "local", "http": "http", "sse": "sse"},
		always: []syntax.Member{{Key: "tools", Value: syntax.NewList("*")}},
	},
}

func zedSettings(d *Directories) string {
	if d.OS == "windows" {
		return filepath.Join(d.Config, "Zed", "settings.json")
	}
	return filepath.Join(d.xdg(), "zed", "settings.json")
}

func codexConfig(d *Directories) string {
	if dir := d.Getenv("CODEX_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "config.toml")
	}
	return filepath.Join(d.Home, ".codex", "config.toml")
}

func openCodeConfig(d *Directories) string {
	path := filepath.Join(d.xdg(), "opencode", "opencode.json")
	if _, err := os.Stat(path); err != nil {
		if _, err := os.Stat(path + "c"); err == nil {
			return path + "c"
		}
	}
	return path
}

// Programs returns all programs, in the order in which they are named.
func Programs() []*Program { return programs }

// Find returns a program by one of its names, or nil.
func Find(name string) *Program {
	name = strings.ToLower(name)
	for _, p := range programs {
		if p.ID == name || slices.Contains(p.also, name) {
			return p
		}
	}
	return nil
}

// File returns where the program's file lies: that for all projects, or that of the project
// at hand. It is empty if there is none.
func (p *Program) File(d *Directories, project bool) string {
	switch {
	case !project:
		return p.user(d)
	case p.project == "":
		return ""
	}
	return filepath.Join(d.Project, filepath.FromSlash(p.project))
}

// Root returns the keys above the servers in a file that is there.
func (p *Program) Root(file *syntax.Node) []string {
	if p.reader == openCode {
		if n := file.Get("mcp").Get("servers"); n != nil && n.Kind == syntax.Table && !n.Has("command", "url") {
			return []string{"mcp", "servers"}
		}
	}
	return p.root
}

// An Entry is a server that is written into a file of a host. It has a command or a URL.
type Entry struct {
	Command []string
	Env     map[string]string
	URL     string
	SSE     bool              // the URL is that of HTTP+SSE
	Headers map[string]string // ${NAME} is a variable of the environment
}

// CanUse reports whether the host can use the server by itself, or else starts a command
// that brings it there.
func (p *Program) CanUse(e *Entry) bool {
	if len(e.Command) > 0 {
		return true
	}
	if !p.speaksHTTP || !strings.HasPrefix(e.URL, "http://") && !strings.HasPrefix(e.URL, "https://") {
		return false
	}
	for _, value := range e.Headers {
		names := referenced(value)
		if len(names) > 0 && p.reference == nil && (!p.split || codexHeader(value) == "") {
			return false
		}
	}
	return true
}

// Spell returns a server as the host spells it.
func (p *Program) Spell(e *Entry) *syntax.Node {
	n := &syntax.Node{Kind: syntax.Table}
	put := func(key string, value *syntax.Node) {
		if value.Scalar() || len(value.Items)+len(value.Members) > 0 {
			n.Set(syntax.Member{Key: key, Value: value})
		}
	}
	how := "http"
	switch {
	case len(e.Command) > 0:
		how = "stdio"
	case e.SSE:
		how = "sse"
	}
	if word := p.words[how]; word != "" {
		put("type", syntax.NewText(word))
	}
	switch {
	case how != "stdio":
		put(cmp.Or(p.urls[how], "url"), syntax.NewText(e.URL))
		p.putHeaders(put, e.Headers)
	case p.list:
		put("command", syntax.NewList(e.Command...))
	default:
		put("command", syntax.NewText(e.Command[0]))
		put("args", syntax.NewList(e.Command[1:]...))
	}
	put(cmp.Or(p.env, "env"), syntax.NewTable(e.Env))
	for _, m := range p.always {
		put(m.Key, m.Value)
	}
	n.Mark("")
	return n
}

func (p *Program) putHeaders(put func(string, *syntax.Node), headers map[string]string) {
	plain, variables := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		variable := codexHeader(value)
		switch {
		case p.split && variable != "" && value != braces(variable):
			put("bearer_token_env_var", syntax.NewText(variable))
		case p.split && variable != "":
			variables[name] = variable
		case p.reference != nil:
			plain[name] = replaceReferences(value, p.reference)
		default:
			plain[name] = value
		}
	}
	put(cmp.Or(p.headers, "headers"), syntax.NewTable(plain))
	put("env_http_headers", syntax.NewTable(variables))
}

// codexHeader returns the variable that a header consists of, alone or behind Bearer.
func codexHeader(value string) string {
	names := referenced(value)
	if len(names) == 1 && strings.TrimPrefix(value, "Bearer ") == braces(names[0]) {
		return names[0]
	}
	return ""
}

// referenced returns the variables that a text refers to as ${NAME}.
func referenced(text string) (names []string) {
	replaceReferences(text, func(name string) string {
		names = append(names, name)
		return ""
	})
	return names
}

func replaceReferences(text string, f func(name string) string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		if closed && variableName().MatchString(name) {
			b.WriteString(f(name))
			text = after
		} else {
			b.WriteString("${")
			text = rest
		}
	}
}
