//go:build npm

package interop_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestNpmServerIsProbedAndChecked(t *testing.T) {
	t.Parallel()
	server := append([]string{"--", npmServer(t).Path}, npmServer(t).Args...)
	probed(t, server, "works", 4)
	checked(t, server, "log-level") // it answers with another code
}

// Not beside other tests: a server that ends slowly is a finding, and this one starts and ends slowly.
func TestPipServersAreProbedAndChecked(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("py", "fastmcp4.py"))
	if err != nil {
		t.Fatal(err)
	}
	server := []string{"--", python(t), script}
	probed(t, server, "works", 5)
	checked(t, server, "tool-description")
	url := serve(t, exec.Command(python(t), filepath.Join("py", "server.py")), `http://[0-9.:]+`)
	probed(t, []string{url + "/mcp"}, "works", 5)
	checked(t, []string{url + "/mcp"}, "tool-description")
}

// sdkServers are what the servers of the SDKs do: the revisions that they speak, what is a problem,
// and the rules that they break. Of two findings the servers are the cause, and not the SDKs: their
// tools have no descriptions, and those in TypeScript read any resource. Sessions, Host and Origin
// are for the server's author to see to in TypeScript.
var sdkServers = map[string]struct {
	revisions        int
	problems, broken []string
}{
	// It ends at a line that is no message, at an array, and at white space behind a message; any log level is taken.
	"Go, legacy, stdio": {4, nil, []string{"log-level", "rpc-batch", "rpc-garbage", "stdio-blank", "tool-description"}},
	"Go, modern, stdio": {2, nil, []string{"log-level", "modern-log-level", "rpc-batch", "rpc-garbage", "stdio-blank", "tool-description"}},
	// An unknown method gets a 400 without JSON-RPC, and a request without its session is served.
	"Go, legacy, http": {4, []string{"conduct", "security"}, []string{"http-origin", "http-session-needed", "log-level", "rpc-unknown-method", "tool-description"}},
	// It answers initialize with 2025-11-25, and refuses requests of 2025-11-25. Mcp-Name is not decoded, and requests with
	// Last-Event-ID are refused.
	"Go, modern, http": {2, []string{"session", "security"}, []string{
		"http-origin", "init-kept", "modern-header-base64", "modern-log-level", "modern-session-ignored", "tool-description",
	}},

	"TypeScript 1, legacy, stdio": {4, nil, []string{"log-level", "tool-description", "unknown-resource"}},
	"TypeScript 1, legacy, http": {4, []string{"session", "security", "security"}, []string{
		"http-host", "http-origin", "http-session-unknown", "log-level", "tool-description", "unknown-resource",
	}},
	// A request of a revision that does not exist is served on stdio.
	"TypeScript 2, modern, stdio": {1, nil, []string{"modern-version", "tool-description", "unknown-resource"}},
	"TypeScript 2, modern, http":  {1, []string{"security", "security"}, []string{"http-host", "http-origin", "tool-description", "unknown-resource"}},

	// It speaks both eras. On stdio a server of it is looked at in TestPipServersAreProbedAndChecked.
	"Python, modern, http": {5, nil, []string{"tool-description"}},
}

func TestNpmSDKServersAreProbedAndChecked(t *testing.T) {
	for _, kind := range crossKinds {
		for _, e := range kind.servers {
			for _, transport := range []string{"stdio", "http"} {
				name := kind.name + ", " + e.String() + ", " + transport
				want, ok := sdkServers[name]
				if !ok {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := kind.server(t, e, transport)
					to := []string{s.url}
					if transport == "stdio" {
						to = []string{"--"}
						for _, e := range s.env {
							to = append([]string{"--env", e}, to...)
						}
						to = append(to, s.command...)
					}
					verdict := "works"
					if len(want.problems) > 0 {
						verdict = "problems"
					}
					probed(t, to, verdict, want.revisions, want.problems...)
					checked(t, to, want.broken...)
				})
			}
		}
	}
}
