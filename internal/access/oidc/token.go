package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Tokens are what a token endpoint grants.
type Tokens struct {
	Access, Refresh, ID string

	// Type is "Bearer"; "N_A" if Access is no access token, as after a token exchange for a
	// token of another type, which is IssuedType.
	Type, IssuedType string

	// Scope is empty if the server did not say: then it is what was asked for.
	Scope string

	// Expires is when Access ends; zero if the server did not say.
	Expires time.Time
}

// Token makes a request to the token endpoint. The form has grant_type and what belongs to it;
// the client's authentication is added. A refusal is an *Error.
func (c *Client) Token(ctx context.Context, as *Metadata, who *Credentials, form url.Values) (*Tokens, error) {
	start := time.Now()
	doc, err := c.postForm(ctx, "token", as.TokenEndpoint, as, who, form)
	if err != nil {
		return nil, err
	}
	t := &Tokens{
		Access:     doc.visible("access_token", maxToken),
		Refresh:    doc.visible("refresh_token", maxToken),
		ID:         doc.visible("id_token", maxToken),
		Type:       doc.text("token_type"),
		IssuedType: doc.text("issued_token_type"),
		Scope:      doc.text("scope"),
	}
	if lifetime := doc.seconds("expires_in"); lifetime > 0 {
		t.Expires = start.Add(lifetime)
	}
	switch {
	case doc.err != nil:
	case t.Access == "":
		doc.err = errors.New(`member "access_token" is missing`)
	case t.Type == "" || strings.EqualFold(t.Type, "Bearer"):
		t.Type = "Bearer"
	case strings.EqualFold(t.Type, "N_A") && t.IssuedType != "":
		t.Type = "N_A"
	case strings.EqualFold(t.Type, "DPoP"):
		doc.err = errors.New("the server issued a DPoP token; only Bearer tokens are supported")
	default:
		doc.err = fmt.Errorf("the server issued a token of type %q; only Bearer tokens are supported", short(doc.hide.hide(printable(t.Type))))
	}
	if doc.err != nil {
		return nil, fmt.Errorf("token: %w", doc.err)
	}
	return t, nil
}

// A DeviceCode is what the user enters at another device (RFC 8628).
type DeviceCode struct {
	Code, UserCode                           string
	VerificationURI, VerificationURIComplete string
	Expires                                  time.Time // zero if the server did not say
	Interval                                 time.Duration
}

// Device asks for a device code. The error is errors.ErrUnsupported if the server has none.
func (c *Client) Device(ctx context.Context, as *Metadata, who *Credentials, form url.Values) (*DeviceCode, error) {
	start := time.Now()
	doc, err := c.postForm(ctx, "device authorization", as.DeviceAuthorizationEndpoint, as, who, form)
	if err != nil {
		return nil, err
	}
	d := &DeviceCode{
		Code:                    doc.visible("device_code", maxString),
		UserCode:                doc.text("user_code"),
		VerificationURI:         doc.url("verification_uri"),
		VerificationURIComplete: doc.url("verification_uri_complete"),
		Interval:                doc.seconds("interval"),
	}
	if d.VerificationURI == "" {
		d.VerificationURI = doc.url("verification_url") // as Google calls it
	}
	if lifetime := doc.seconds("expires_in"); lifetime > 0 {
		d.Expires = start.Add(lifetime)
	}
	if d.Interval == 0 {
		d.Interval = 5 * time.Second
	}
	switch {
	case doc.err != nil:
	case d.Code == "" || d.UserCode == "" || d.VerificationURI == "":
		doc.err = errors.New("one of device_code, user_code and verification_uri is missing")
	case len(d.UserCode) > maxShort || printable(d.UserCode) != d.UserCode:
		doc.err = errors.New(`member "user_code" cannot be shown`)
	case c.allowText(ctx, d.VerificationURI) != nil, c.allowText(ctx, d.VerificationURIComplete) != nil:
		doc.err = fmt.Errorf("verification_uri: %w", ErrAddress)
	}
	if doc.err != nil {
		return nil, fmt.Errorf("device authorization: %w", doc.err)
	}
	return d, nil
}

// Revoke ends a token (RFC 7009). The hint is "access_token", "refresh_token" or empty. The error
// is errors.ErrUnsupported if the server cannot.
func (c *Client) Revoke(ctx context.Context, as *Metadata, who *Credentials, token, hint string) error {
	form := url.Values{"token": {token}}
	if hint != "" {
		form.Set("token_type_hint", hint)
	}
	_, err := c.postForm(ctx, "revocation", as.RevocationEndpoint, as, who, form)
	return err
}

// A call is a request to an endpoint.
type call struct {
	endpoint, at string // what the endpoint is for, and where it is
	kind, body   string
	header       http.Header
	hide         secrets
	ok           []int // the statuses of success
	empty        bool  // there need not be a document
	limit        time.Duration
}

// postForm sends a form with the client's authentication.
func (c *Client) postForm(ctx context.Context, endpoint, at string, as *Metadata, who *Credentials, form url.Values) (*document, error) {
	limit := c.tokenTime
	if endpoint == "revocation" {
		limit = c.requestTime
	}
	form = maps.Clone(form)
	if form == nil {
		form = url.Values{}
	}
	header := http.Header{}
	if who != nil {
		if err := who.authenticate(as, form, header); err != nil {
			return nil, err
		}
	}
	return c.post(ctx, &call{
		endpoint: endpoint, at: at, kind: "application/x-www-form-urlencoded", body: form.Encode(), header: header,
		hide: secretsOf(form, who, header), ok: []int{http.StatusOK}, empty: endpoint == "revocation", limit: limit,
	})
}

// post makes a call and returns the document of its answer.
func (c *Client) post(ctx context.Context, q *call) (*document, error) {
	if q.at == "" {
		return nil, fmt.Errorf("the authorization server has no %s endpoint: %w", q.endpoint, errors.ErrUnsupported)
	}
	if _, err := CheckURL(q.at); err != nil {
		return nil, fmt.Errorf("%s endpoint: %w", q.endpoint, err)
	}
	req, err := http.NewRequest(http.MethodPost, q.at, strings.NewReader(q.body))
	if err != nil {
		return nil, fmt.Errorf("%s endpoint: %q is no URL", q.endpoint, short(q.at))
	}
	if q.header != nil {
		req.Header = q.header
	}
	req.Header.Set("Content-Type", q.kind)
	a, err := c.do(ctx, req, q.hide, q.limit, false)
	if err != nil {
		return nil, fmt.Errorf("%s endpoint: %w", q.endpoint, err)
	}
	return q.document(a)
}

// document reads an answer: JSON, or a form, which some servers send whatever is asked for.
func (q *call) document(a *answer) (*document, error) {
	success := slices.Contains(q.ok, a.status)
	if success && q.empty {
		return &document{}, nil
	}
	var doc *document
	if a.kind == "application/x-www-form-urlencoded" || a.kind == "text/plain" && !a.object() {
		doc = formDocument(a.body)
	} else {
		doc, _ = parseDocument(a.body)
	}
	if doc == nil {
		doc = &document{}
		if success {
			return nil, fmt.Errorf("%s endpoint: the answer is no JSON object", q.endpoint)
		}
	}
	// An error is read as far as it can be.
	var code, description string
	if json.Unmarshal(doc.members["error"], &code) == nil && code != "" || !success {
		_ = json.Unmarshal(doc.members["error_description"], &description)
		e := &Error{Endpoint: q.endpoint, Status: a.status, Code: q.hide.code(code), Description: q.hide.clean(description)}
		if e.Description == "" && a.status >= 300 && a.status < 400 {
			e.Description = "redirects of a POST are not followed"
		}
		return nil, e
	}
	doc.hide = q.hide
	return doc, nil
}

// formDocument reads a form as if its fields were the strings of an object.
func formDocument(body []byte) *document {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	doc := &document{members: make(map[string]json.RawMessage)}
	for name := range form {
		if text, err := json.Marshal(form.Get(name)); err == nil {
			doc.members[name] = text
		}
	}
	return doc
}
