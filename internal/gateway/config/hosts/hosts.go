// Package hosts knows the configuration files of MCP hosts: which program a file belongs to,
// how it spells its servers, and which of its keys have no meaning here. It makes a tree with
// our keys, whose values keep their positions and original names. It does not know what our
// keys mean.
package hosts

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// A host is a program with a file for its servers, as far as such files differ.
type host struct {
	name string
	root string // key of the servers; a dot is a step down, or a part of the key
	file string // how the file is called, for the reference

	unit       time.Duration  // of times without one, if that is not the millisecond
	ours       bool           // our own keys may stand beside the servers
	urlIsSSE   bool           // url means HTTP+SSE
	httpIsAuto bool           // "http" falls back to HTTP+SSE
	references *regexp.Regexp // as in Translation
}

// The hosts. Those that share a key are told apart by their files and their keys.
var (
	anyHost  = &host{name: "Claude Desktop, Claude Code, Cursor, Windsurf, Copilot, MCP Inspector and others", root: "mcpServers", file: "claude_desktop_config.json, .mcp.json, .cursor/mcp.json, mcp_config.json", ours: true}
	gemini   = &host{name: "Gemini CLI, Qwen Code", root: "mcpServers", file: ".gemini/settings.json", urlIsSSE: true, references: regexp.MustCompile(`^(?:\$([A-Za-z_]\w*)|%([A-Za-z_]\w*)%)`)}
	cline    = &host{name: "Cline, Roo Code, Kilo Code", root: "mcpServers", file: "cline_mcp_settings.json, mcp_settings.json, .roo/mcp.json, .kilocode/mcp.json", unit: time.Second}
	vsCode   = &host{name: "VS Code", root: "servers", file: ".vscode/mcp.json", httpIsAuto: true}
	settings = &host{name: "VS Code settings", root: "mcp.servers", file: "settings.json", httpIsAuto: true}
	openCode = &host{name: "OpenCode", root: "mcp", file: "opencode.json, opencode.jsonc", references: regexp.MustCompile(`^\{((?:env|file):[^{}]*)\}`)}
	zed      = &host{name: "Zed", root: "context_servers", file: "settings.json"}
	codex    = &host{name: "Codex", root: "mcp_servers", file: ".codex/config.toml", unit: time.Second}
	bare     = &host{name: "a mapping of servers alone", file: "any"}

	all = []*host{anyHost, gemini, cline, vsCode, settings, openCode, zed, codex, bare}
)

// folders are those in which hosts keep their file of a project.
var folders = []string{".vscode", ".cursor", ".gemini", ".qwen", ".codex", ".roo", ".kilocode", ".zed"}

// Folder returns where relative paths of a file start: its directory, or the one
// above if that is a host's, as .vscode.
func Folder(path string) string {
	dir := filepath.Dir(path)
	if slices.Contains(folders, filepath.Base(dir)) {
		return filepath.Dir(dir)
	}
	return dir
}

// A spelling is a key that hosts have for a server, beside those that are spelled as
// ours are.
type spelling struct {
	key  string
	as   string // what it is in our format; empty if it means nothing here
	doc  string // how it differs, or why it means nothing
	take func(*server, syntax.Member)
}

var table = []spelling{
	{"command", "command, args", "also a list, or a mapping with path, args and env", (*server).command},
	{"env", "env", "a null leaves a variable out", (*server).env},
	{"environment", "env", "", (*server).env},
	{"env_vars", "inherit", "", (*server).envVars},
	{"inheritParentEnv", "inherit", "true means all", (*server).inheritAll},
	{"headerToEnv", "passEnv", "", as("passEnv")},
	{"type", "transport", "", (*server).transport},
	{"transport", "transport", "", (*server).transport},
	{"transportType", "transport", "", (*server).transport},
	{"url", "url", "means HTTP+SSE in files of Gemini CLI", (*server).url},
	{"serverUrl", "url", "", as("url")},
	{"httpUrl", "url", "and transport http", (*server).httpURL},
	{"http_headers", "headers", "", as("headers")},
	{"env_http_headers", "headers", "values are names of variables", (*server).envHeaders},
	{"bearer_token_env_var", "headers", "the header Authorization, from a variable", (*server).bearer},
	{"timeout", "timeout", "a number is in the host's unit", timeIn(0, "timeout")},
	{"requestTimeout", "timeout", "in milliseconds", timeIn(time.Millisecond, "timeout")},
	{"requestTimeoutMs", "timeout", "in milliseconds", timeIn(time.Millisecond, "timeout")},
	{"tool_timeout_sec", "timeout", "in seconds", timeIn(time.Second, "timeout")},
	{"connectTimeout", "connectTimeout", "a number is in the host's unit", timeIn(0, "connectTimeout")},
	{"connectionTimeout", "connectTimeout", "in milliseconds", timeIn(time.Millisecond, "connectTimeout")},
	{"initTimeout", "connectTimeout", "in milliseconds", timeIn(time.Millisecond, "connectTimeout")},
	{"startup_timeout_sec", "connectTimeout", "in seconds", timeIn(time.Second, "connectTimeout")},
	{"startup_timeout_ms", "connectTimeout", "in milliseconds", timeIn(time.Millisecond, "connectTimeout")},
	{"retryInterval", "retry.min", "in milliseconds", timeIn(time.Millisecond, "retry", "min")},
	{"maxRestarts", "restart.max", "", as("restart", "max")},
	{"enabled", "disabled", "the opposite", (*server).enabled},
	{"tools", "tools.include", "if it is a list", (*server).include},
	{"enabledTools", "tools.include", "", (*server).include},
	{"includeTools", "tools.include", "", (*server).include},
	{"enabled_tools", "tools.include", "", (*server).include},
	{"disabledTools", "tools.exclude", "", as("tools", "exclude")},
	{"excludeTools", "tools.exclude", "", as("tools", "exclude")},
	{"disabled_tools", "tools.exclude", "", as("tools", "exclude")},
	{"toolDescriptionOverrides", "tools.describe", "", as("tools", "describe")},
	{"protocolEra", "era", "", as("era")},
	{"protocolVersion", "era", "auto, legacy, modern or a revision", (*server).revision},
}

// ignoredKeys are the keys that mean nothing here, by the reason.
var ignoredKeys = map[string]string{
	"who may call a tool without being asked is the client's business":                  "autoApprove alwaysAllow trust",
	"signing in is not taken over: give the header itself":                              "oauth auth scopes oauth_resource authProviderType targetAudience targetServiceAccount",
	"no command that another program is to run is run to get headers: use auth.command": "headersHelper",
	"there is no sandbox here: use user and limits, or name a sandbox as the command":   "sandboxEnabled sandbox",
	"it is about how the client shows, starts or uses the server": "dev alwaysLoad gallery version description name icon tags source " +
		"settings watchPaths roots metadata required supports_parallel_tool_calls",
}

// spellings has both, by key.
var spellings = func() map[string]spelling {
	byKey := map[string]spelling{}
	for _, s := range table {
		byKey[s.key] = s
	}
	for why, keys := range ignoredKeys {
		for _, key := range strings.Fields(keys) {
			byKey[key] = spelling{key: key, doc: why}
		}
	}
	return byKey
}()

// CanonicalKey returns what a key of other programs is called here, or "".
func CanonicalKey(key string) string { return spellings[key].as }

// transports are the spellings of each transport. Letters in upper case, _ and - do
// not matter.
var transports = []struct{ ours, all string }{
	{"auto", "auto remote"},
	{"stdio", "command local stdio"},
	{"http", "http https httpstream stream streamable streamablehttp"},
	{"sse", "http+sse httpsse sse"},
	{"ws", "websocket ws wss"},
	{"tcp", "tcp"},
	{"unix", "unix"},
}

// Transport returns our word for a transport in any spelling, or "".
func Transport(word string) string {
	for _, t := range transports {
		if slices.Contains(strings.Fields(t.all), syntax.Plain(word)) {
			return t.ours
		}
	}
	return ""
}

// WriteReference writes what is accepted of other programs' files, in Markdown.
func WriteReference(b *bytes.Buffer) {
	code := func(word string) string { return "`" + word + "`" }
	b.WriteString("\n## Files of other programs\n\n")
	b.WriteString("They are read as they are. A file is recognised by the key that holds its servers.\n\n")
	b.WriteString("| program | file | key | a time without a unit |\n|---|---|---|---|\n")
	for _, h := range all {
		unit, key := "milliseconds", "none"
		if h.unit == time.Second {
			unit = "seconds"
		}
		if h.root != "" {
			key = code(h.root)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", h.name, h.file, key, unit)
	}
	b.WriteString("\nTheir keys, beside those that are spelled as ours are. Ours may be used there too.\n\n")
	b.WriteString("| key | ours | note |\n|---|---|---|\n")
	for _, s := range table {
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", s.key, s.as, s.doc)
	}
	codes := func(words string) string { return code(strings.Join(strings.Fields(words), "`, `")) }
	b.WriteString("\nThese mean nothing here; they are named and ignored, as all others are:\n\n")
	for _, why := range slices.Sorted(maps.Keys(ignoredKeys)) {
		fmt.Fprintf(b, "- %s: %s.\n", codes(ignoredKeys[why]), why)
	}
	var parts []string
	for _, t := range transports {
		parts = append(parts, codes(t.all)+" for "+t.ours)
	}
	fmt.Fprintf(b, "\nSpellings of transports: %s. Case, `-` and `_` do not matter.\n", strings.Join(parts, "; "))
}
