package oidc_test

import (
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

func TestMetadataAreLookedForWhereBothStandardsHaveThem(t *testing.T) {
	for text, want := range map[string][]string{
		"https://a.example.com": {
			"https://a.example.com/.well-known/oauth-authorization-server",
			"https://a.example.com/.well-known/openid-configuration",
		},
		"https://a.example.com/": {
			"https://a.example.com/.well-known/oauth-authorization-server",
			"https://a.example.com/.well-known/openid-configuration",
		},
		"https://a.example.com/realms/x/": {
			"https://a.example.com/.well-known/oauth-authorization-server/realms/x",
			"https://a.example.com/.well-known/openid-configuration/realms/x",
			"https://a.example.com/realms/x/.well-known/openid-configuration",
		},
	} {
		u, err := oidc.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := oidc.MetadataPlaces(u); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestPlainHTTPIsForThisMachineOnly(t *testing.T) {
	for text, want := range map[string]bool{
		"https://a.example.com": true, "http://localhost:1": true, "http://127.0.0.1": true, "http://[::1]/x": true,
		"http://a.example.com": false, "http://10.0.0.1": false, "http://127.1": false, "http://localhost.example.com": false,
	} {
		if _, err := oidc.ParseURL(text); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
