package config_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

func TestKeysOfAWebhookAreThoseOfStandardWebhooks(t *testing.T) {
	secret := func(letter string, size int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, size)))
	}
	file := filepath.Join(t.TempDir(), "secret")
	for _, test := range []struct {
		name   string
		secret []string
		file   string // its content, if it has one
		want   string // the first letters of the keys
		err    string
	}{
		{name: "none"},
		{name: "of the configuration", secret: []string{secret("a", 24), secret("b", 64)}, want: "ab"},
		{name: "of a file", file: secret("c", 32) + "\n" + secret("d", 32) + "\n", want: "cd"},
		{name: "of both", secret: []string{secret("a", 24)}, file: secret("c", 32), want: "ac"},
		{name: "without the prefix", secret: []string{"canary-" + secret("a", 24)}, err: "openssl rand"},
		{name: "too short", secret: []string{secret("a", 23)}, err: "24 to 64 bytes"},
		{name: "too long", secret: []string{secret("a", 65)}, err: "24 to 64 bytes"},
		{name: "not base64", file: "whsec_canary!", err: "base64"},
		{name: "an empty file", file: "\n", err: file + " is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &config.Webhook{Secret: test.secret}
			if test.file != "" {
				w.SecretFile = file
				if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			keys, err := w.Keys()
			got := ""
			for _, key := range keys {
				got += string(key[:1])
			}
			if got != test.want || (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "canary")) {
				t.Errorf("got %q, %v, want %q, %q", got, err, test.want, test.err)
			}
		})
	}
	if _, err := (&config.Webhook{SecretFile: file + ".none"}).Keys(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is not there: %v", err)
	}
}
