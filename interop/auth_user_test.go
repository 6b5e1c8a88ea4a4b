//go:build npm || browser

package interop_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A plainClient is an OAuth client of plain requests, to show what an authServer does.
type plainClient struct {
	t        *testing.T
	at       object // the server's metadata
	id       string
	resource string
	redirect string
	verifier string // of the authorization in progress
}

// register has a server register a client that listens on loopback.
func register(t *testing.T, a *authServer, resource string) *plainClient {
	t.Helper()
	c := &plainClient{t: t, at: a.metadata(), resource: resource, redirect: "http://127.0.0.1:45678/callback"}
	body, err := json.Marshal(object{
		"client_name": "plain", "application_type": "native", "token_endpoint_auth_method": "none",
		"redirect_uris": []string{"http://127.0.0.1/callback"},
		"grant_types":   []string{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		ID string `json:"client_id"`
	}
	fetch(t, http.MethodPost, c.at["registration_endpoint"].(string), "application/json", strings.NewReader(string(body)), &made)
	c.id = made.ID
	return c
}

// authorizationURL is where the user has to go.
func (c *plainClient) authorizationURL(scope string) string {
	c.verifier = rand.Text()
	sum := sha256.Sum256([]byte(c.verifier + c.verifier)) // 43 characters at least
	c.verifier += c.verifier
	return c.at["authorization_endpoint"].(string) + "?" + url.Values{
		"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {c.redirect}, "scope": {scope}, "resource": {c.resource},
		"state": {"some state"}, "prompt": {"consent"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()
}

// checkCallback checks what the user brings back, and returns the code.
func (c *plainClient) checkCallback(callback *url.URL) string {
	c.t.Helper()
	q := callback.Query()
	if q.Get("state") != "some state" || q.Get("iss") != c.at["issuer"] || q.Get("code") == "" {
		c.t.Fatalf("the user comes back with %s", callback)
	}
	return q.Get("code")
}

// redeem turns a code into tokens.
func (c *plainClient) redeem(code string) tokens {
	c.t.Helper()
	return c.want(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {c.verifier}, "redirect_uri": {c.redirect}})
}

func (c *plainClient) refresh(token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
}

// device asks for a device code. It returns the form that asks for its tokens, and the
// page where the user goes.
func (c *plainClient) device(scope string) (form url.Values, page string) {
	c.t.Helper()
	_, answer := postForm(c.t, http.DefaultClient, c.at["device_authorization_endpoint"].(string), url.Values{
		"client_id": {c.id}, "scope": {scope}, "resource": {c.resource},
	})
	got := decode[struct {
		Code string `json:"device_code"`
		Page string `json:"verification_uri_complete"`
	}](c.t, json.RawMessage(answer))
	return url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {got.Code}}, got.Page
}

type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
	Expires int    `json:"expires_in"`
	Error   string `json:"error"`
}

// token asks for tokens for the resource, as a client without a secret unless the
// form has one.
func (c *plainClient) token(form url.Values) tokens {
	c.t.Helper()
	form.Set("resource", c.resource)
	if !form.Has("client_id") {
		form.Set("client_id", c.id)
	}
	_, got := postForm(c.t, http.DefaultClient, c.at["token_endpoint"].(string), form)
	return decode[tokens](c.t, json.RawMessage(got))
}

func (c *plainClient) want(form url.Values) tokens {
	c.t.Helper()
	got := c.token(form)
	if got.Error != "" || got.Access == "" {
		c.t.Fatalf("%s: %+v", form.Get("grant_type"), got)
	}
	return got
}

func (c *plainClient) wantError(reason string, form url.Values) {
	c.t.Helper()
	if got := c.token(form); got.Error != reason || got.Access != "" {
		c.t.Errorf("%s: %+v, want the error %s", form.Get("grant_type"), got, reason)
	}
}

func postForm(t *testing.T, client *http.Client, to string, form url.Values) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, _, body := do(t, client, req)
	return status, body
}

// assertion is a signed statement by which a client shows who it is (RFC 7523).
func assertion(t *testing.T, key *rsa.PrivateKey, client, audience string) string {
	t.Helper()
	now := time.Now()
	part := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(data)
	}
	signed := part(object{"alg": "RS256", "typ": "JWT"}) + "." + part(object{
		"iss": client, "sub": client, "aud": audience, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	})
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// A person follows redirects and keeps cookies, as a browser does, without running scripts.
type person struct {
	t    *testing.T
	http *http.Client
}

func newPerson(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{t: t, http: &http.Client{Jar: jar}}
}

// signIn opens an authorization URL of a server that needs no click, and returns
// where it leads in the end: to the redirect URI, which is not visited.
func (p *person) signIn(authorization string) *url.URL {
	p.t.Helper()
	at, err := url.Parse(authorization)
	if err != nil {
		p.t.Fatal(err)
	}
	redirect := at.Query().Get("redirect_uri")
	var callback *url.URL
	client := *p.http
	client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), redirect) {
			callback = req.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, authorization, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	status, _, body := do(p.t, &client, req)
	if callback == nil {
		p.t.Fatalf("the sign-in ends with status %d: %s", status, body)
	}
	return callback
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	formField  = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

// approveDevice opens the page of a device code and submits its forms, on a server
// that needs no click besides.
func (p *person) approveDevice(page string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, page, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	_, _, body := do(p.t, p.http, req)
	for range 2 { // the code, and that it is the one
		form := url.Values{}
		for _, field := range formField.FindAllStringSubmatch(string(body), -1) {
			form.Set(field[1], html.UnescapeString(field[2]))
		}
		action := formAction.FindStringSubmatch(string(body))
		if action == nil {
			p.t.Fatalf("no form: %s", body)
		}
		_, body = postForm(p.t, p.http, html.UnescapeString(action[1]), form)
	}
	if !strings.Contains(string(body), "Signed in") {
		p.t.Fatalf("the device is not signed in: %s", body)
	}
}
