package main

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// announce says where the server is, and what to write into the configuration of
// a client.
func announce(s *settings, name string, what *gateway.Backend, listeners []*listener, v *console) {
	var places []string
	for _, e := range listeners {
		places = append(places, e.places(s.publicURL, what)...)
	}
	v.printf("ready: %s", strings.Join(append(places, "standard input and output"), ", "))
	v.printf("for the configuration of a client: %s", snippet(s.publicURL, name, listeners))
}

// places returns what is at a listener.
func (e *listener) places(public string, what *gateway.Backend) []string {
	base := e.base(public)
	switch {
	case !e.http:
		return []string{e.address() + " (lines)"}
	case e.unix != "":
		return []string{base + ":" + gateway.MCPPath + " (HTTP on a Unix socket)"}
	}
	list := []string{base + gateway.MCPPath + " (Streamable HTTP)"}
	if what.Sessions != nil {
		list = append(list, base+gateway.SSEPath+" (HTTP+SSE)")
	}
	list = append(list, "ws"+strings.TrimPrefix(base, "http")+gateway.WSPath+" (WebSocket)")
	if what.Requests != nil {
		list = append(list, base+gateway.CallPath+" (tool calls)")
	}
	return list
}

// base is what the URLs of an HTTP listener begin with.
func (e *listener) base(public string) string {
	switch {
	case e.unix != "":
		return "unix://" + e.unix
	case public != "":
		return strings.TrimSuffix(public, "/")
	}
	return "http://" + e.authority()
}

// address is what dragoman connect takes to reach a listener for lines.
func (e *listener) address() string {
	if e.unix != "" {
		return "unix:" + e.unix
	}
	return "tcp:" + e.authority()
}

// snippet returns how a client is told about the server: by a URL if it has one,
// else by a command that goes there.
func snippet(public, name string, listeners []*listener) string {
	type server struct {
		Type    string   `json:"type,omitempty"`
		URL     string   `json:"url,omitempty"`
		Command string   `json:"command,omitempty"`
		Args    []string `json:"args,omitempty"`
	}
	var one server
	for _, e := range listeners {
		if e.http && e.unix == "" {
			one = server{Type: "http", URL: e.base(public) + gateway.MCPPath}
			break
		}
		if one.Command == "" {
			one = server{Command: executable(), Args: []string{"connect", e.address()}}
			if e.http {
				one.Args[1] = e.base("") + ":" + gateway.MCPPath
			}
		}
	}
	text, _ := json.Marshal(map[string]any{"mcpServers": map[string]server{name: one}}) // strings alone cannot fail
	return string(text)
}

// executable is how others start this program.
func executable() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return "dragoman"
}
