package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Registration is what we say of ourselves to be registered (RFC 7591).
type Registration struct {
	Name            string   `json:"client_name,omitempty"`
	URI             string   `json:"client_uri,omitempty"`
	LogoURI         string   `json:"logo_uri,omitempty"`
	RedirectURIs    []string `json:"redirect_uris,omitempty"`
	GrantTypes      []string `json:"grant_types,omitempty"`
	ResponseTypes   []string `json:"response_types,omitzero"`
	Scope           string   `json:"scope,omitempty"`
	AuthMethod      string   `json:"token_endpoint_auth_method,omitempty"`
	ApplicationType string   `json:"application_type,omitempty"`
	SoftwareID      string   `json:"software_id,omitempty"`
	SoftwareVersion string   `json:"software_version,omitempty"`
}

// Register registers a client. The error is errors.ErrUnsupported if the server registers nobody.
func (c *Client) Register(ctx context.Context, as *Metadata, r *Registration) (*Credentials, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	doc, err := c.post(ctx, &call{endpoint: "registration", at: as.RegistrationEndpoint, kind: "application/json", body: string(body), limit: c.tokenTime, ok: []int{http.StatusCreated, http.StatusOK}})
	if err != nil {
		return nil, err
	}
	who := &Credentials{
		ID:     doc.visible("client_id", maxString),
		Secret: doc.visible("client_secret", maxString),
		Method: doc.text("token_endpoint_auth_method"),
	}
	if at := doc.number("client_secret_expires_at"); at > 0 {
		who.SecretExpires = time.Unix(int64(min(at, 1<<40)), 0)
	}
	switch {
	case doc.err != nil:
	case who.ID == "":
		doc.err = errors.New(`member "client_id" is missing`)
	case who.Method == MethodBasic || who.Method == MethodPost:
		if who.Secret == "" {
			doc.err = errors.New(`member "client_secret" is missing`)
		}
	case who.Method == "" && who.Secret == "":
		who.Method = MethodNone
	case who.Method != "" && who.Method != MethodNone:
		doc.err = fmt.Errorf("the client was registered for authentication by %q, which it did not ask for", short(who.Method))
	}
	if doc.err != nil {
		return nil, fmt.Errorf("registration: %w", doc.err)
	}
	return who, nil
}
