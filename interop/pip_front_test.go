//go:build npm

package interop_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
)

func TestPipFrontSignsInClientsOfThePythonSDK(t *testing.T) {
	t.Parallel()
	gateway, auth := startFront(t, object{})
	client, page := signsIn(t, exec.Command(python(t), filepath.Join("py", "signin.py"), gateway+"/servers/a/mcp"))
	b := authtest.NewBrowser(&http.Transport{DisableKeepAlives: true})
	end, err := b.Visit(page)
	if err != nil || !strings.Contains(end.Body, "You can close this page.") {
		t.Fatalf("the browser ends at %+v, %v", end, err)
	}
	client.wantEcho()
	if got := auth.tally(); got.Counts["registrations"] != 0 || got.Counts["authorization_code"] != 1 {
		t.Errorf("the provider counts %v and %v", got.Counts, got.Failures)
	}
}
