//go:build npm

package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// dragomanRun starts `dragoman run` and returns its URL.
func dragomanRun(t *testing.T) string {
	t.Helper()
	return serve(t, exec.Command(dragomanProgram.in(t), "run", "--listen", "127.0.0.1:0"), `http://\S+/mcp`)
}

// tryEverything uses every feature of our built-in server.
func (c *npmClient) tryEverything(rev protocol.Revision) {
	c.t.Helper()
	if c.rev != rev.String() {
		c.t.Errorf("the conversation is in %s, want %s", c.rev, rev)
	}
	if rev.HasSessions() {
		c.want("setLoggingLevel", object{"level": "debug"})
		c.want("ping", object{})
	} else {
		c.want("listen", object{
			"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
			"resourceSubscriptions": []string{watched},
		})
	}
	callEveryTool(c.t, rev, c, c.notes)
	callAtOnce(c.t, c, atOnce(rev))
	if rev.HasElicitation() { // or some resources cannot be read
		c.readEverything()
	}
	if rev.HasSessions() {
		c.hearOfUpdates()
	} else {
		c.notes.wait(c.t, 1, protocol.NoteResourceUpdated, watched)
	}
}

// dialNpmHTTP starts our built-in server and a client of the TypeScript SDK,
// version 1.
func dialNpmHTTP(t *testing.T, rev protocol.Revision) *npmClient {
	t.Helper()
	url := dragomanRun(t)
	return drive(t, "node", filepath.Join("ts", "client.mjs"), filepath.Join(npmFolder(t), "sdk"), url, rev.String())
}

func TestNpmClientUsesEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	for _, rev := range npmRevisions {
		if !rev.HasStreamableHTTP() {
			continue
		}
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			dialNpmHTTP(t, rev).tryEverything(rev)
		})
	}
}

// npmServerOverHTTP starts the reference server of the TypeScript SDK on HTTP.
func npmServerOverHTTP(t *testing.T) *streamable.Client {
	t.Helper()
	port := freePort(t)
	cmd := exec.Command("node", filepath.Join(npmFolder(t), "server-everything", "dist", "index.js"), "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	serve(t, cmd, "listening on port")
	return &streamable.Client{URL: "http://127.0.0.1:" + port + "/mcp"}
}

func TestNpmServerIsUsedByOurClientOverHTTP(t *testing.T) {
	t.Parallel()
	for _, rev := range npmRevisions {
		if !rev.HasStreamableHTTP() {
			continue
		}
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			server := npmServerOverHTTP(t)
			if v, err := server.Probe(t.Context()); err != nil || v.Era != protocol.Legacy {
				t.Errorf("the probe says %+v, %v", v, err)
			}
			c := beginNpm(t, server, rev)
			c.callAll(npmTools())
			if c.readAll() == 0 || c.promptAll(object{"resourceType": "Text", "resourceId": "1"}) == 0 {
				t.Error("no resources or no prompts are listed")
			}
			beginNpm(t, server, rev).hearOfNpm() // in a session of its own
		})
	}
}

func TestNpmV2ClientUsesEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			url := dragomanRun(t)
			drive(t, node22(t), filepath.Join("ts", "client2.mjs"), filepath.Join(npmFolder(t), "client"), rev.String(), url).tryEverything(rev)
		})
	}
}

// In its mode auto the client asks for server/discover, and falls back to
// initialize.
func TestNpmV2ClientFindsOutWhatOurServerSpeaks(t *testing.T) {
	t.Parallel()
	client := func(t *testing.T, url string) *npmClient {
		return drive(t, node22(t), filepath.Join("ts", "client2.mjs"), filepath.Join(npmFolder(t), "client"), "auto", url)
	}
	t.Run("both eras", func(t *testing.T) {
		t.Parallel()
		client(t, serveHTTP(t)).tryEverything(protocol.V20260728)
	})
	for name, era := range oneEra {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t, serveHTTP(t, era.served...))
			if c.rev != era.want.String() {
				t.Errorf("the conversation is in %s, want %s", c.rev, era.want)
			}
			callTool(t, c, c.notes, "session", expectations(era.want)["session"])
		})
	}
}

func TestNpmV2ServerIsUsedByOurClientOverHTTP(t *testing.T) {
	t.Parallel()
	for _, rev := range []protocol.Revision{protocol.V20260728, protocol.V20251125} {
		t.Run(rev.String(), func(t *testing.T) {
			t.Parallel()
			url := serve(t, exec.Command(node22(t), filepath.Join("ts", "server2.mjs"), npmFolder(t)), `http://\S+`)
			tools := smallTools()
			if rev.HasSessions() { // the server keeps none, so it can neither ask nor tell
				delete(tools, "ask")
				delete(tools, "change")
			}
			trySmallOverHTTP(t, url+"/mcp", rev, tools)
		})
	}
}
