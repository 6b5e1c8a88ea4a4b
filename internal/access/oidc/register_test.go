package oidc_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

func TestRegistrationSaysWhoWeAre(t *testing.T) {
	w, c, as := authorizationServer(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/register" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
		}
		says(201, "application/json", `{"client_id":"c","redirect_uris":["x"]}`)(rw, r)
	})
	_, err := c.Register(t.Context(), as, &oidc.Registration{Name: "Dragoman", URI: "https://d.example.com", RedirectURIs: []string{"http://127.0.0.1/callback"},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, Scope: "a b", AuthMethod: "none", ApplicationType: "native"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"client_name":"Dragoman","client_uri":"https://d.example.com","redirect_uris":["http://127.0.0.1/callback"],"grant_types":["authorization_code","refresh_token"],` +
		`"response_types":["code"],"scope":"a b","token_endpoint_auth_method":"none","application_type":"native"}`
	if body := w.lastBody(); body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
}

func TestRegistrationGivesCredentials(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		text   string
		want   oidc.Credentials
	}{
		{"public", 201, `{"client_id":"c"}`, oidc.Credentials{ID: "c", Method: "none"}},
		{"public, said so", 200, `{"client_id":"c","token_endpoint_auth_method":"none"}`, oidc.Credentials{ID: "c", Method: "none"}},
		{"secret", 201, `{"client_id":"c","client_secret":"s","client_secret_expires_at":0,"token_endpoint_auth_method":"client_secret_post"}`, oidc.Credentials{ID: "c", Secret: "s", Method: "client_secret_post"}},
		{"secret that ends", 201, `{"client_id":"c","client_secret":"s","client_secret_expires_at":1800000000,"token_endpoint_auth_method":"client_secret_basic"}`,
			oidc.Credentials{ID: "c", Secret: "s", Method: "client_secret_basic", SecretExpires: time.Unix(1800000000, 0)}},
		{"secret that ends, in a string", 201, `{"client_id":"c","client_secret":"s","client_secret_expires_at":"1800000000"}`, oidc.Credentials{ID: "c", Secret: "s", SecretExpires: time.Unix(1800000000, 0)}},
		{"secret, but no method", 201, `{"client_id":"c","client_secret":"s"}`, oidc.Credentials{ID: "c", Secret: "s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, c, as := authorizationServer(t, says(test.status, "application/json", test.text))
			got, err := c.Register(t.Context(), as, &oidc.Registration{})
			if err != nil || *got != test.want {
				t.Errorf("%+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestRegistrationThatFails(t *testing.T) {
	for _, test := range []struct {
		status     int
		text, want string
	}{
		{201, `{}`, `"client_id" is missing`},
		{201, `{"client_id":1}`, `"client_id" is not a string`},
		{201, `{"client_id":"a b"}`, `"client_id" has characters`},
		{201, `{"client_id":"` + strings.Repeat("x", 9<<10) + `"}`, `"client_id" has more than`},
		{201, `{"client_id":"c","token_endpoint_auth_method":"client_secret_basic"}`, `"client_secret" is missing`},
		{201, `{"client_id":"c","token_endpoint_auth_method":"private_key_jwt"}`, "private_key_jwt"},
		{201, `{"client_id":"c","client_secret":"s","client_secret_expires_at":"never"}`, `"client_secret_expires_at" is not a number`},
		{400, `{"error":"invalid_redirect_uri","error_description":"no"}`, "the registration endpoint answered 400 invalid_redirect_uri: no"},
		{403, `no`, "the registration endpoint answered 403 Forbidden"},
		{200, `no`, "no JSON object"},
	} {
		_, c, as := authorizationServer(t, says(test.status, "application/json", test.text))
		got, err := c.Register(t.Context(), as, &oidc.Registration{})
		if got != nil {
			t.Errorf("%s gave %+v", test.text, got)
		}
		wantError(t, err, test.want)
		if e := (*oidc.Error)(nil); errors.As(err, &e) != (test.status >= 400) {
			t.Errorf("%#v", err)
		}
	}
}
