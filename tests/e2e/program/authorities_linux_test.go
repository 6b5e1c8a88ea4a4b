package program

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// Other systems have a store of authorities that SSL_CERT_FILE does not replace.
func TestA19_AuthoritiesOfTheEnvironmentAreTrusted(t *testing.T) {
	t.Parallel()
	server := builtin.New(nil)
	web := httptest.NewTLSServer(&streamable.Server{Sessions: server, Requests: server.Requests()})
	t.Cleanup(web.Close)
	if _, stderr, status := runMain(t, "", "tools", web.URL); status == 0 || !strings.Contains(stderr, "certificate") {
		t.Errorf("an unknown authority: status %d, %s", status, stderr)
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	setenv(t, "SSL_CERT_FILE", roots)
	if _, stderr, status := runMain(t, "", "tools", web.URL); status != 0 {
		t.Errorf("an authority of SSL_CERT_FILE: status %d, %s", status, stderr)
	}
}
