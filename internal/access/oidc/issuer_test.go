package oidc_test

import (
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

func TestMetadataIsLookedForWhereBothStandardsHaveIt(t *testing.T) {
	for _, test := range []struct {
		issuer string
		openID bool
		want   []string
	}{
		{"https://as.example.com", false, []string{asMeta, openID}},
		{"https://as.example.com/", true, []string{openID, asMeta}},
		{"https://as.example.com/realms/x/", false, []string{asMeta + "/realms/x", openID + "/realms/x", "/realms/x" + openID}},
		{"https://as.example.com/realms/x", true, []string{"/realms/x" + openID, asMeta + "/realms/x", openID + "/realms/x"}},
	} {
		w := newWorld(t)
		w.public("as.example.com")
		c := w.client(t, test.issuer, &oidc.Options{OpenID: test.openID})
		if _, err := c.Metadata(t.Context(), test.issuer); err == nil {
			t.Errorf("%s: there is metadata", test.issuer)
		}
		for i, at := range test.want {
			test.want[i] = "GET as.example.com " + at
		}
		if got := w.requests(); !slices.Equal(got, test.want) {
			t.Errorf("%s: requests are %q, want %q", test.issuer, got, test.want)
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
