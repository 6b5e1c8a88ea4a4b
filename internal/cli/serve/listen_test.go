package serve

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
)

func TestTheNamesOfTheCertificateAreOurs(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certtest.New(t).Write(t, cert, key, "server", "*.example.com", "mcp.example.com")
	list, err := openListeners(t.Context(), []config.Listen{{Address: "0.0.0.0:0", TLS: config.TLS{Cert: cert, Key: key}, Insecure: []string{config.NoAuth}}}, &config.Auth{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer closeListeners(list)
	if hosts := strings.Join(list[0].hosts(), " ") + " "; !strings.Contains(hosts, " mcp.example.com ") || strings.Contains(hosts, "*") {
		t.Errorf("the hosts are %s", hosts)
	}
	if at := list[0].authority(); !strings.HasPrefix(at, "127.0.0.1:") {
		t.Errorf("with an address that the certificate has, it is at %s", at)
	}
}

func TestUnixSocketsAreNotExposed(t *testing.T) {
	dir := t.TempDir()
	list, err := openListeners(t.Context(), []config.Listen{{Address: "unix:" + filepath.Join(dir, "a")}, {Address: "http+unix:" + filepath.Join(dir, "b")}}, &config.Auth{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	closeListeners(list)
}

func TestOurNamesAreThoseOfTheMachine(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if list := ownNames(); !slices.Contains(list, name) || slices.Contains(list, "127.0.0.1") {
		t.Errorf("our names are %q", list)
	}
}
