//go:build npm

package interop_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// The server asks for the roots right after the handshake, when no call is in progress
// that could carry the question.
func TestNpmFilesystemServerKnowsTheRootsOfAModernClientAtItsFirstCalls(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file.txt")
	if err := os.WriteFile(file, []byte("inside the root"), 0o600); err != nil {
		t.Fatal(err)
	}
	bridge := bridgeTo(t, "--", node22(t), filepath.Join(npmFolder(t), "server-filesystem", "dist", "index.js"), t.TempDir())
	c := dial(t, bridge)
	c.rev = protocol.Latest
	c.answer = func(_ context.Context, method string, params object) (object, error) {
		if method == protocol.MethodListRoots {
			return object{"roots": []any{object{"uri": (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()}}}, nil
		}
		return answer(method, params)
	}
	for i, said := range sideBySide(5, func(int) string { return says(t, c, "read_text_file", object{"path": file}) }) {
		if said != "inside the root" {
			t.Errorf("call %d: the file says %q", i, said)
		}
	}
	if c.questions(protocol.MethodListRoots) == 0 {
		t.Error("the server did not ask for the roots")
	}
}
