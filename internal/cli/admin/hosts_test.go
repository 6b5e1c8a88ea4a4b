package admin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

func TestTheURLOfAnAddressIsOneThatCanBeReached(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"http+unix:/run/d.sock":   "unix:///run/d.sock:",
		"http+unix:///run/d.sock": "unix:///run/d.sock:",
		"http+unix:d.sock":        "unix://" + filepath.Join(dir, "d.sock") + ":",
		"0.0.0.0:80":              "http://127.0.0.1:80",
		"[::]:80":                 "http://127.0.0.1:80",
		"host:80":                 "http://host:80",
		"tcp:host:80":             "",
		"unix:/run/d.sock":        "",
		"stdio":                   "",
	} {
		if got, ok := baseOf(&config.Listen{Address: address}); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", address, got, ok, want)
		}
	}
}
