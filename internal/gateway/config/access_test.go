package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

func loadText(t *testing.T, text string) *config.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, report := config.Load(nil, path)
	if report.Err() != nil {
		t.Fatal(report)
	}
	return f
}

func TestFiveLinesPutUsInFrontOfAProvider(t *testing.T) {
	f := loadText(t, `auth:
  url: https://mcp.example.com
  provider: https://login.example.com
  client: {id: dragoman, secret: hush}
servers: {a: {url: "https://example.com/mcp"}}
`)
	p := f.Auth.Provider.Known()
	if !f.Auth.Wanted() || p.URL != "https://login.example.com" || !slices.Equal(p.Scopes, []string{"openid", "profile", "email"}) || f.Auth.Client.ID != "dragoman" {
		t.Errorf("auth is %+v, the provider %+v", f.Auth, p)
	}
	if got := f.RuleOptions().Issuers; !slices.Equal(got, []string{"login.example.com"}) {
		t.Errorf("users are of %q", got)
	}
}

func TestWhatIsKnownOfAProviderNeedNotBeWritten(t *testing.T) {
	f := loadText(t, `auth:
  url: http://localhost:8080
  provider: github
  client: {id: dragoman, secret: hush}
rules: [allow user:octocat]
servers: {a: {url: "https://example.com/mcp"}}
`)
	if p := f.Auth.Provider.Known(); p.URL != "https://github.com" || p.Principal != "login" || p.Userinfo == "" || !slices.Equal(p.Scopes, []string{"read:user"}) {
		t.Errorf("GitHub is %+v", p)
	}
	f.Auth.Provider.Groups = []string{config.Organizations}
	if p := f.Auth.Provider.Known(); !p.IsGitHub() || !slices.Equal(p.Scopes, []string{"read:user", "read:org"}) {
		t.Errorf("with organizations as groups it is %+v", p)
	}
	google := config.Provider{URL: "https://accounts.google.com", Parameters: map[string]string{"hd": "example.com"}}
	if p := google.Known(); p.Parameters["access_type"] != "offline" || p.Parameters["hd"] != "example.com" || len(google.Parameters) != 1 {
		t.Errorf("Google is %+v", p)
	}
}
