package config

import (
	"path/filepath"
	"strings"
	"time"
)

// A host is a program with a file for its servers, as far as such files differ.
type host struct {
	name string
	root string // key of the servers; a dot is a step down, or a part of the key
	file string // how the file is called, for the reference

	unit          time.Duration // of times without a unit
	ours          bool          // our own keys may stand beside the servers
	urlIsSSE      bool          // url means HTTP+SSE
	httpIsAuto    bool          // "http" falls back to HTTP+SSE
	bareVariables bool          // $VAR and %VAR% are references too
	braces        bool          // {env:VAR} is a reference too
}

// ours stands for our own format.
var ours = &host{name: "Dragoman", root: "servers", unit: time.Millisecond}

// The hosts. Those that share a key are told apart by their files and their keys.
var (
	hostAny      = &host{name: "Claude Desktop, Claude Code, Cursor, Windsurf, Copilot, MCP Inspector and others", root: "mcpServers", file: "claude_desktop_config.json, .mcp.json, .cursor/mcp.json, mcp_config.json", unit: time.Millisecond, ours: true}
	hostGemini   = &host{name: "Gemini CLI, Qwen Code", root: "mcpServers", file: ".gemini/settings.json", unit: time.Millisecond, urlIsSSE: true, bareVariables: true}
	hostCline    = &host{name: "Cline, Roo Code, Kilo Code", root: "mcpServers", file: "cline_mcp_settings.json, mcp_settings.json, .roo/mcp.json, .kilocode/mcp.json", unit: time.Second}
	hostVSCode   = &host{name: "VS Code", root: "servers", file: ".vscode/mcp.json", unit: time.Millisecond, httpIsAuto: true}
	hostSettings = &host{name: "VS Code settings", root: "mcp.servers", file: "settings.json", unit: time.Millisecond, httpIsAuto: true}
	hostOpenCode = &host{name: "OpenCode", root: "mcp", file: "opencode.json, opencode.jsonc", unit: time.Millisecond, braces: true}
	hostZed      = &host{name: "Zed", root: "context_servers", file: "settings.json", unit: time.Millisecond}
	hostCodex    = &host{name: "Codex", root: "mcp_servers", file: ".codex/config.toml", unit: time.Second}
	hostBare     = &host{name: "a mapping of servers alone", root: "", file: "any", unit: time.Millisecond}

	hosts = []*host{hostAny, hostGemini, hostCline, hostVSCode, hostSettings, hostOpenCode, hostZed, hostCodex, hostBare}
)

// A recognition is what a file of a host was taken for.
type recognition struct {
	host    *host
	key     string // at the top, that holds the servers
	where   string // path of the servers, for errors
	servers *node
	inputs  *node // what VS Code would ask for
	bare    bool  // the file is the mapping of servers
}

// recognise tells whose a file is by the keys at its top. It returns nil for our own.
func recognise(src *source) *recognition {
	root := src.root
	if n := root.get("mcpServers"); n != nil {
		return &recognition{host: mcpServersHost(src, n), key: "mcpServers", where: "mcpServers", servers: n, inputs: root.get("inputs")}
	}
	for _, h := range []*host{hostCodex, hostZed} {
		if n := root.get(h.root); n != nil {
			return &recognition{host: h, key: h.root, where: h.root, servers: n}
		}
	}
	if n := root.get("mcp.servers"); n != nil {
		return &recognition{host: hostSettings, key: "mcp.servers", where: "mcp.servers", servers: n}
	}
	if mcp := root.get("mcp"); mcp != nil && (mcp.has("servers") || anyServer(mcp, "command", "url")) {
		rec := &recognition{host: hostOpenCode, key: "mcp", where: "mcp", servers: mcp}
		if n := mcp.get("servers"); n != nil && !n.has("command", "url") {
			rec.where, rec.servers, rec.inputs = "mcp.servers", n, mcp.get("inputs")
			if rec.inputs != nil || root.has("editor.fontSize") {
				rec.host = hostSettings
			}
		}
		return rec
	}
	if n := root.get("servers"); n != nil && isVSCode(src, n) {
		return &recognition{host: hostVSCode, key: "servers", where: "servers", servers: n, inputs: root.get("inputs")}
	}
	if isBare(root) {
		return &recognition{host: hostBare, where: "the file", servers: root, bare: true}
	}
	return nil
}

// mcpServersHost tells apart those who write mcpServers.
func mcpServersHost(src *source, servers *node) *host {
	base, dir := filepath.Base(src.path), filepath.Base(filepath.Dir(src.path))
	switch {
	case dir == ".gemini" || dir == ".qwen" || anyServer(servers, "httpUrl", "trust", "includeTools", "excludeTools"):
		return hostGemini
	case base == "cline_mcp_settings.json" || base == "mcp_settings.json" || dir == ".roo" || dir == ".kilocode" || anyServer(servers, "autoApprove", "alwaysAllow"):
		return hostCline
	}
	return hostAny
}

func anyServer(servers *node, keys ...string) bool {
	for _, m := range servers.members {
		if m.value.has(keys...) {
			return true
		}
	}
	return false
}

// isVSCode tells VS Code's file from ours, which has the same key.
func isVSCode(src *source, servers *node) bool {
	for _, name := range fileObject.names() {
		if name != "servers" && src.root.has(name) {
			return false
		}
	}
	base := filepath.Base(src.path)
	switch {
	case src.root.has("inputs") || filepath.Base(filepath.Dir(src.path)) == ".vscode":
		return true
	case strings.HasPrefix(base, "dragoman."):
		return false
	}
	return base == "mcp.json" || base == ".mcp.json" || anyServer(servers, "type", "dev", "sandboxEnabled", "gallery")
}

// isBare tells whether a file is a mapping of servers and nothing else.
func isBare(root *node) bool {
	for _, m := range root.members {
		if _, own := fileObject.find(m.key); own || m.value.kind != table || !m.value.has("command", "url", "serverUrl", "httpUrl") {
			return false
		}
	}
	return len(root.members) > 0
}
