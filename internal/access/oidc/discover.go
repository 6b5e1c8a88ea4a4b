package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
)

// DiscoverOptions says what the user has configured.
type DiscoverOptions struct {
	// Issuer is the authorization server, in place of the one that the resource names.
	Issuer string

	// Resource is the resource identifier, in place of the published one.
	Resource string
}

// A Discovery says who issues tokens for a server.
type Discovery struct {
	Resource string    // the resource identifier, byte for byte; empty if the server publishes none
	Scopes   []string  // scopes_supported of the resource
	Server   *Metadata // the authorization server
	Fallback bool      // it publishes no metadata: its endpoints are /authorize, /token and /register
}

// Metadata is what an authorization server says of itself (RFC 8414).
type Metadata struct {
	Issuer                      string   `json:"issuer"`
	AuthorizationEndpoint       string   `json:"authorization_endpoint,omitempty"`
	TokenEndpoint               string   `json:"token_endpoint"`
	RegistrationEndpoint        string   `json:"registration_endpoint,omitempty"`
	RevocationEndpoint          string   `json:"revocation_endpoint,omitempty"`
	UserinfoEndpoint            string   `json:"userinfo_endpoint,omitempty"` // checked when it is used
	DeviceAuthorizationEndpoint string   `json:"device_authorization_endpoint,omitempty"`
	ScopesSupported             []string `json:"scopes_supported,omitempty"`
	ResponseTypes               []string `json:"response_types_supported,omitempty"`
	GrantTypes                  []string `json:"grant_types_supported,omitempty"`
	TokenAuthMethods            []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	TokenAuthAlgorithms         []string `json:"token_endpoint_auth_signing_alg_values_supported,omitempty"`
	ChallengeMethods            []string `json:"code_challenge_methods_supported,omitempty"`
	ClientIDDocuments           bool     `json:"client_id_metadata_document_supported,omitempty"`
	IssParameter                bool     `json:"authorization_response_iss_parameter_supported,omitempty"`
}

const (
	resourceMetadata = "protected resource metadata"
	serverMetadata   = "authorization server metadata"

	wellKnownResource = "/.well-known/oauth-protected-resource"
)

// Discover finds out who issues tokens for the server, from the challenge that it answered with
// or from what it publishes. ch and o may be nil.
func (c *Client) Discover(ctx context.Context, ch *Challenge, o *DiscoverOptions) (*Discovery, error) {
	if o == nil {
		o = &DiscoverOptions{}
	}
	r, err := c.findResource(ctx, ch, o)
	if err != nil {
		return nil, err
	}
	d := &Discovery{Resource: r.resource, Scopes: r.scopes}
	if o.Resource != "" {
		d.Resource = o.Resource
	}
	switch {
	case o.Issuer != "":
		d.Server, err = c.Metadata(ctx, o.Issuer)
	case r.issuer != "":
		d.Server, err = c.Metadata(ctx, r.issuer)
	default:
		err = c.discoverAtOrigin(ctx, d)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// A resource is what a resource server says of itself (RFC 9728). Empty if it says nothing.
type resource struct {
	resource, issuer string
	scopes           []string
}

func (c *Client) findResource(ctx context.Context, ch *Challenge, o *DiscoverOptions) (*resource, error) {
	announced := ch != nil && ch.ResourceMetadata != ""
	var places []string
	if announced {
		if err := c.checkAnnounced(ch.ResourceMetadata); err != nil {
			return nil, fmt.Errorf("resource_metadata in the server's challenge: %w", err)
		}
		places = append(places, ch.ResourceMetadata)
	}
	if path := strings.TrimSuffix(c.server.EscapedPath(), "/"); path != "" {
		inserted := origin(c.server) + wellKnownResource + path
		if c.server.RawQuery != "" {
			inserted += "?" + c.server.RawQuery
		}
		places = append(places, inserted)
	}
	places = append(places, origin(c.server)+wellKnownResource)
	doc, notes, err := c.find(ctx, resourceMetadata, places)
	switch {
	case err != nil:
		return nil, err
	case doc == nil && announced:
		return nil, fmt.Errorf("%s: the server announces it, but there is none (%s)", resourceMetadata, notes)
	case doc == nil:
		return &resource{}, nil
	}
	r, err := c.parseResource(doc, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", resourceMetadata, err)
	}
	return r, nil
}

// checkAnnounced returns an error unless a challenge may send us to text: to the server itself, or
// by https to wherever addresses are allowed.
func (c *Client) checkAnnounced(text string) error {
	u, err := url.Parse(text)
	if err == nil && httpclient.SameOrigin(u, c.server) && u.User == nil {
		return nil
	}
	if u, err = CheckURL(text); err != nil {
		return err
	}
	if host, port := hostPort(u); u.Scheme != "https" && !c.exempt(host, port) {
		return fmt.Errorf("%q must be on the server itself, or an https URL", short(text))
	}
	return nil
}

func (c *Client) parseResource(doc *document, o *DiscoverOptions) (*resource, error) {
	r := &resource{resource: doc.text("resource"), scopes: doc.list("scopes_supported")}
	issuers := doc.list("authorization_servers")
	switch {
	case doc.err != nil:
		return nil, doc.err
	case o.Resource != "": // whatever it says of itself
	case r.resource == "":
		return nil, errors.New(`member "resource" is missing`)
	case !covers(r.resource, c.server):
		return nil, fmt.Errorf("it is about %q, which is not the server %q", short(r.resource), place(c.server))
	}
	if o.Issuer != "" {
		return r, nil
	}
	if len(issuers) == 0 || issuers[0] == "" {
		return nil, errors.New(`member "authorization_servers" names none`)
	}
	r.issuer = issuers[0]
	return r, nil
}

// Metadata returns what the authorization server with that issuer identifier publishes.
func (c *Client) Metadata(ctx context.Context, id string) (*Metadata, error) {
	doc, err := c.published(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.parseMetadata(ctx, doc, func(got string) bool { return got == id }, id)
}

// KeysURL returns where the issuer has its keys, as its metadata says. The rest of that is not
// read: an issuer that only signs has no endpoints.
func (c *Client) KeysURL(ctx context.Context, id string) (string, error) {
	doc, err := c.published(ctx, id)
	if err != nil {
		return "", err
	}
	issuer, keys := doc.text("issuer"), doc.url("jwks_uri")
	switch {
	case doc.err != nil:
	case issuer != id:
		doc.err = wrongIssuer(issuer, id)
	case keys == "":
		doc.err = errors.New(`member "jwks_uri" is missing`)
	}
	if doc.err != nil {
		return "", fmt.Errorf("%s: %w", serverMetadata, doc.err)
	}
	return keys, nil
}

// published returns the metadata of an issuer, which have not been checked.
func (c *Client) published(ctx context.Context, id string) (*document, error) {
	u, err := CheckURL(id)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = fmt.Errorf("%q must not have a query", short(id))
	}
	if err != nil {
		return nil, fmt.Errorf("authorization server: %w", err)
	}
	doc, notes, err := c.find(ctx, serverMetadata, metadataPlaces(u, c.openID))
	if err == nil && doc == nil {
		err = fmt.Errorf("%s of %q: not found (%s)", serverMetadata, short(id), notes)
	}
	return doc, err
}

func wrongIssuer(got, want string) error {
	return fmt.Errorf("its issuer is %q, not %q", short(got), short(want))
}

// discoverAtOrigin does what clients did before resources had metadata: the server's origin is
// the authorization server, and need not say anything of itself.
func (c *Client) discoverAtOrigin(ctx context.Context, d *Discovery) error {
	at := origin(c.server)
	doc, _, err := c.find(ctx, serverMetadata, metadataPlaces(&url.URL{Scheme: c.server.Scheme, Host: c.server.Host}, c.openID))
	if err != nil {
		return err
	}
	if doc != nil {
		d.Server, err = c.parseMetadata(ctx, doc, func(got string) bool { return strings.TrimSuffix(got, "/") == at }, at)
		return err
	}
	if _, err := CheckURL(at); err != nil {
		return fmt.Errorf("authorization server: %w", err)
	}
	d.Fallback = true
	d.Server = &Metadata{Issuer: at, AuthorizationEndpoint: at + "/authorize", TokenEndpoint: at + "/token", RegistrationEndpoint: at + "/register"}
	return nil
}

// parseMetadata checks everything that will be used: the issuer, by is, and each endpoint.
func (c *Client) parseMetadata(ctx context.Context, doc *document, is func(string) bool, want string) (*Metadata, error) {
	m := readMetadata(doc)
	switch {
	case doc.err != nil:
	case !is(m.Issuer):
		doc.err = wrongIssuer(m.Issuer, want)
	case m.TokenEndpoint == "":
		doc.err = errors.New(`member "token_endpoint" is missing`)
	case m.AuthorizationEndpoint != "" && m.ChallengeMethods != nil && !slices.Contains(m.ChallengeMethods, "S256"):
		doc.err = errors.New("the server does not offer PKCE with S256 (code_challenge_methods_supported)")
	}
	for _, e := range m.endpoints() {
		if doc.err == nil && *e.url != "" {
			if err := c.allowText(ctx, *e.url); err != nil {
				doc.err = fmt.Errorf("member %q: %w", e.name, err)
			}
		}
	}
	if doc.err != nil {
		return nil, fmt.Errorf("%s: %w", serverMetadata, doc.err)
	}
	return m, nil
}

func readMetadata(doc *document) *Metadata {
	m := &Metadata{
		Issuer:              doc.text("issuer"),
		UserinfoEndpoint:    doc.text("userinfo_endpoint"),
		ScopesSupported:     doc.list("scopes_supported"),
		ResponseTypes:       doc.list("response_types_supported"),
		GrantTypes:          doc.list("grant_types_supported"),
		TokenAuthMethods:    doc.list("token_endpoint_auth_methods_supported"),
		TokenAuthAlgorithms: doc.list("token_endpoint_auth_signing_alg_values_supported"),
		ChallengeMethods:    doc.list("code_challenge_methods_supported"),
		ClientIDDocuments:   doc.flag("client_id_metadata_document_supported"),
		IssParameter:        doc.flag("authorization_response_iss_parameter_supported"),
	}
	for _, e := range m.endpoints() {
		*e.url = doc.url(e.name)
	}
	return m
}

type endpoint struct {
	name string
	url  *string
}

func (m *Metadata) endpoints() []endpoint {
	return []endpoint{
		{"authorization_endpoint", &m.AuthorizationEndpoint},
		{"token_endpoint", &m.TokenEndpoint},
		{"registration_endpoint", &m.RegistrationEndpoint},
		{"revocation_endpoint", &m.RevocationEndpoint},
		{"device_authorization_endpoint", &m.DeviceAuthorizationEndpoint},
	}
}

// find returns the first document that is at one of the places, or nil and what was there.
func (c *Client) find(ctx context.Context, what string, places []string) (*document, string, error) {
	var notes []string
	for i, at := range places {
		if slices.Contains(places[:i], at) {
			continue
		}
		doc, note, err := c.get(ctx, at)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", what, err)
		}
		if doc != nil {
			return doc, "", nil
		}
		notes = append(notes, note)
	}
	return nil, strings.Join(notes, "; "), nil
}

// get returns the document at a place, or nil and what is there instead.
func (c *Client) get(ctx context.Context, at string) (*document, string, error) {
	req, err := http.NewRequest(http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, "", fmt.Errorf("%q is no URL", short(at))
	}
	a, err := c.do(ctx, req, nil, c.requestTime, true)
	if err != nil {
		return nil, "", err
	}
	where := place(req.URL)
	switch {
	case a.unavailable():
		return nil, "", fmt.Errorf("%s answered %d", where, a.status)
	case a.status >= 300 && a.status < 400:
		return nil, where + " leads elsewhere", nil
	case a.status != http.StatusOK:
		return nil, fmt.Sprintf("%s answered %d", where, a.status), nil
	case a.kind == "text/html", !a.object() && !strings.HasSuffix(a.kind, "json"):
		return nil, where + " is no JSON", nil
	}
	doc, err := parseDocument(a.body)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", where, err)
	}
	return doc, "", nil
}
