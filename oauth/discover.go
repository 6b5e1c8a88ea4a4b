package oauth

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// A Discovery is what a server and its authorization server publish about signing in.
type Discovery struct {
	// Announced is where the server's challenge says that its metadata is; empty if it does
	// not. Resource is what tokens are asked for; empty if the server publishes no metadata.
	Announced string `json:"announced,omitempty"`
	Resource  string `json:"resource,omitempty"`

	// Scopes are those that the challenge wants, or else those that there are.
	Scopes []string `json:"scopes,omitempty"`

	// Issuer is the authorization server. Guessed says that it publishes nothing of itself.
	Issuer  string `json:"issuer"`
	Guessed bool   `json:"guessed,omitempty"`

	// PKCE reports whether it knows S256 challenges, Registration whether clients can
	// register by themselves, Documents whether a client id may be the URL of a document, and
	// Device whether a code can be entered elsewhere.
	PKCE         bool `json:"pkce"`
	Registration bool `json:"registration"`
	Documents    bool `json:"clientIdDocuments"`
	Device       bool `json:"deviceCode"`
}

// Discover finds out how to sign in to the server of a Config, from the headers of an answer
// that refuses a request. Nobody is signed in or registered.
func Discover(ctx context.Context, c *Config, refusal http.Header) (*Discovery, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ch := oidc.ParseChallenge(refusal)
	found, err := s.wire.Discover(ctx, ch, &oidc.DiscoverOptions{Issuer: c.Issuer, Resource: c.Resource})
	if err != nil {
		return nil, err
	}
	d := &Discovery{
		Resource: found.Resource, Scopes: found.Scopes, Issuer: found.Server.Issuer, Guessed: found.Fallback,
		PKCE: slices.Contains(found.Server.ChallengeMethods, "S256"), Registration: found.Server.RegistrationEndpoint != "",
		Documents: found.Server.ClientIDDocuments, Device: found.Server.DeviceAuthorizationEndpoint != "",
	}
	if ch != nil {
		d.Announced = ch.ResourceMetadata
		if ch.Scope != "" {
			d.Scopes = strings.Fields(ch.Scope)
		}
	}
	return d, nil
}
