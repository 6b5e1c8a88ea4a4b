package oidc_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

const issuer = "https://as.example.com"

// authorizationServer returns a client of a server that answers every POST so.
func authorizationServer(t testing.TB, answer http.HandlerFunc) (*world, *oidc.Client, *oidc.Metadata) {
	w := newWorld(t)
	w.public("as.example.com", "mcp.example.com")
	w.hosts["as.example.com"] = answer
	c := w.client(t, "https://mcp.example.com/mcp", nil)
	return w, c, &oidc.Metadata{Issuer: issuer, TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register",
		RevocationEndpoint: issuer + "/revoke", DeviceAuthorizationEndpoint: issuer + "/device"}
}

// says answers with a status, a media type and a text.
func says(status int, kind, text string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", kind)
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, text)
	}
}

func TestTokensAreReadAsServersWriteThem(t *testing.T) {
	certificate(t)
	const jsonKind = "application/json;charset=UTF-8"
	for _, test := range []struct {
		name, kind, text string
		want             oidc.Tokens
		lifetime         time.Duration
	}{
		{"whole", jsonKind, `{"access_token":"A","refresh_token":"R","id_token":"I","token_type":"Bearer","scope":"a b","expires_in":3600,"x":[1]}`,
			oidc.Tokens{Access: "A", Refresh: "R", ID: "I", Type: "Bearer", Scope: "a b"}, time.Hour},
		{"any case", jsonKind, `{"access_token":"A","token_type":"bearer"}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 0},
		{"no type", jsonKind, `{"access_token":"A"}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 0},
		{"nulls", jsonKind, `{"access_token":"A","refresh_token":null,"scope":null,"expires_in":null,"error":null}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 0},
		{"a lifetime in a string", jsonKind, `{"access_token":"A","expires_in":"90"}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 90 * time.Second},
		{"a lifetime with a point", jsonKind, `{"access_token":"A","expires_in":1.5}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 1500 * time.Millisecond},
		{"no lifetime", jsonKind, `{"access_token":"A","expires_in":0}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 0},
		{"a negative lifetime", jsonKind, `{"access_token":"A","expires_in":-5}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 0},
		{"an endless lifetime", jsonKind, `{"access_token":"A","expires_in":1e300}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 10 * 365 * 24 * time.Hour},
		{"a form", "application/x-www-form-urlencoded", "access_token=A&scope=a%2Cb&token_type=bearer&expires_in=60", oidc.Tokens{Access: "A", Type: "Bearer", Scope: "a,b"}, time.Minute},
		{"JSON that is called text", "text/plain", ` {"access_token":"A"}`, oidc.Tokens{Access: "A", Type: "Bearer"}, 0},
		{"an exchanged token", jsonKind, `{"access_token":"J","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag","token_type":"N_A"}`,
			oidc.Tokens{Access: "J", Type: "N_A", IssuedType: "urn:ietf:params:oauth:token-type:id-jag"}, 0},
		{"a long token", jsonKind, `{"access_token":"` + strings.Repeat("x", 20<<10) + `"}`, oidc.Tokens{Access: strings.Repeat("x", 20<<10), Type: "Bearer"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c, as := authorizationServer(t, says(200, test.kind, test.text))
				if test.lifetime != 0 {
					test.want.Expires = time.Now().Add(test.lifetime)
				}
				got, err := c.Token(t.Context(), as, &oidc.Credentials{ID: "me"}, url.Values{"grant_type": {"x"}})
				if err != nil || *got != test.want {
					t.Errorf("%+v, %v, want %+v", got, err, test.want)
				}
			})
		})
	}
}

func TestTokensThatAreNoneAreRefused(t *testing.T) {
	for _, test := range []struct{ name, kind, text, want string }{
		{"no token", "application/json", `{"token_type":"Bearer"}`, `"access_token" is missing`},
		{"a number", "application/json", `{"access_token":7}`, `"access_token" is not a string`},
		{"a header in it", "application/json", `{"access_token":"a\r\nX: y"}`, `"access_token" has characters`},
		{"a space in it", "application/json", `{"access_token":"a b"}`, `"access_token" has characters`},
		{"too long", "application/json", `{"access_token":"` + strings.Repeat("x", 65<<10) + `"}`, `"access_token" has more than`},
		{"DPoP", "application/json", `{"access_token":"a","token_type":"DPoP"}`, "DPoP token"},
		{"MAC", "application/json", `{"access_token":"a","token_type":"mac"}`, `type "mac"`},
		{"N_A, of no type", "application/json", `{"access_token":"a","token_type":"N_A"}`, `type "N_A"`},
		{"a lifetime in words", "application/json", `{"access_token":"a","expires_in":"soon"}`, `"expires_in" is not a number`},
		{"a lifetime that is no number", "application/json", `{"access_token":"a","expires_in":"NaN"}`, `"expires_in" is not a number`},
		{"a page", "text/html", "<html>", "no JSON object"},
		{"nothing", "application/json", "", "no JSON object"},
		{"a list", "application/json", "[]", "no JSON object"},
		{"null", "application/json", "null", "no JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, c, as := authorizationServer(t, says(200, test.kind, test.text))
			got, err := c.Token(t.Context(), as, nil, url.Values{"grant_type": {"x"}})
			if got != nil {
				t.Errorf("accepted %+v", got)
			}
			wantError(t, err, "token", test.want)
			if e := (*oidc.Error)(nil); errors.As(err, &e) {
				t.Errorf("%v is not what the server said", e)
			}
		})
	}
}

func TestRefusalsAreErrors(t *testing.T) {
	for _, test := range []struct {
		name      string
		status    int
		kind      string
		text      string
		want      oidc.Error
		temporary bool
	}{
		{"JSON", 400, "application/json", `{"error":"invalid_grant","error_description":"It has\nexpired."}`, oidc.Error{Code: "invalid_grant", Description: "It has expired."}, false},
		{"401", 401, "application/json", `{"error":"invalid_client"}`, oidc.Error{Code: "invalid_client"}, false},
		{"a form", 400, "application/x-www-form-urlencoded", "error=slow_down&error_description=a+b", oidc.Error{Code: "slow_down", Description: "a b"}, false},
		{"a form as text", 400, "text/plain; charset=utf-8", "error=slow_down", oidc.Error{Code: "slow_down"}, false},
		{"200 with an error", 200, "application/json", `{"error":"authorization_pending","error_uri":"x"}`, oidc.Error{Code: "authorization_pending"}, false},
		{"200 with a form", 200, "application/x-www-form-urlencoded", "error=bad_verification_code&error_description=The+code", oidc.Error{Code: "bad_verification_code", Description: "The code"}, false},
		{"a page", 403, "text/html", "<html>no", oidc.Error{}, false},
		{"a page, and down", 503, "text/html", "<html>no", oidc.Error{}, true},
		{"busy", 429, "application/json", `{}`, oidc.Error{}, true},
		{"later", 400, "application/json", `{"error":"temporarily_unavailable"}`, oidc.Error{Code: "temporarily_unavailable"}, true},
		{"wrong types", 400, "application/json", `{"error":{"code":1},"error_description":["x"]}`, oidc.Error{}, false},
		{"201", 201, "application/json", `{"access_token":"a"}`, oidc.Error{}, false},
		{"a redirect", 307, "text/html", "", oidc.Error{Description: "redirects of a POST are not followed"}, false},
		{"long", 400, "application/json", `{"error":"x","error_description":"` + strings.Repeat("ä", 1000) + `"}`, oidc.Error{Code: "x", Description: strings.Repeat("ä", 150) + "…"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, c, as := authorizationServer(t, func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Location", "/trap")
				says(test.status, test.kind, test.text)(rw, r)
			})
			test.want.Endpoint, test.want.Status = "token", test.status
			_, err := c.Token(t.Context(), as, nil, url.Values{"grant_type": {"x"}})
			var e *oidc.Error
			if !errors.As(err, &e) || *e != test.want {
				t.Fatalf("%#v, want %#v", err, test.want)
			}
			if e.Temporary() != test.temporary {
				t.Errorf("Temporary is %v", e.Temporary())
			}
			if asked := w.requests(); len(asked) != 1 {
				t.Errorf("asked %q", asked)
			}
		})
	}
}

func TestErrorsRepeatNoSecret(t *testing.T) {
	names := []string{"code", "code_verifier", "refresh_token", "assertion", "subject_token", "actor_token", "token", "device_code", "password"}
	form := url.Values{"grant_type": {"x"}}
	var sent []string
	for _, name := range names {
		secret := "s3cr3t/" + name + `+"` + strings.Repeat("=", 3) + strings.Repeat("z", 300)
		form.Set(name, secret)
		sent = append(sent, "s3cr3t/"+name, "s3cr3t%2F"+name)
	}
	sent = append(sent, "hush/hush", "hush%2Fhush", base64.StdEncoding.EncodeToString([]byte("me:hush%2Fhush-hush")))
	for _, method := range []string{oidc.MethodBasic, oidc.MethodPost} {
		for name, answer := range map[string]func(rw http.ResponseWriter, echo string){
			"description": func(rw http.ResponseWriter, echo string) {
				says(400, "application/json", fmt.Sprintf(`{"error":"e","error_description":%q}`, echo))(rw, nil)
			},
			"code": func(rw http.ResponseWriter, echo string) {
				says(400, "application/json", fmt.Sprintf(`{"error":%q}`, echo))(rw, nil)
			},
			"form": func(rw http.ResponseWriter, echo string) {
				says(400, "application/x-www-form-urlencoded", url.Values{"error": {echo}, "error_description": {echo}}.Encode())(rw, nil)
			},
			"type": func(rw http.ResponseWriter, echo string) {
				says(200, "application/json", fmt.Sprintf(`{"access_token":"a","token_type":%q}`, echo))(rw, nil)
			},
			"number": func(rw http.ResponseWriter, echo string) {
				says(200, "application/json", fmt.Sprintf(`{"access_token":"a","expires_in":%q}`, echo))(rw, nil)
			},
			"url": func(rw http.ResponseWriter, echo string) {
				says(200, "application/json", fmt.Sprintf(`{"device_code":"a","user_code":"b","verification_uri":%q}`, echo))(rw, nil)
			},
			"no HTTP": func(rw http.ResponseWriter, echo string) {
				conn, _, err := http.NewResponseController(rw).Hijack()
				if err == nil {
					_, _ = io.WriteString(conn, echo+"\r\n\r\n")
					_ = conn.Close()
				}
			},
			"a bad header": func(rw http.ResponseWriter, echo string) {
				conn, _, err := http.NewResponseController(rw).Hijack()
				if err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+echo+"\r\n\r\n")
					_ = conn.Close()
				}
			},
			"a bad location": func(rw http.ResponseWriter, echo string) {
				rw.Header().Set("Location", "https://a/%zz"+echo)
				rw.WriteHeader(302)
			},
		} {
			for _, field := range append(names, "Authorization", "client_secret", "body") {
				t.Run(method+" "+name+" "+field, func(t *testing.T) {
					w := newWorld(t)
					w.hosts["localhost:4000"] = func(rw http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						values, _ := url.ParseQuery(string(body))
						echo := values.Get(field) + strings.TrimPrefix(r.Header.Get(field), "Basic ")
						if field == "body" {
							echo = string(body)
						}
						answer(rw, echo)
					}
					c := w.client(t, "http://localhost:3000/mcp", nil)
					as := &oidc.Metadata{Issuer: "http://localhost:4000", TokenEndpoint: "http://localhost:4000/token", DeviceAuthorizationEndpoint: "http://localhost:4000/device"}
					who := &oidc.Credentials{ID: "me", Secret: "hush/hush-hush", Method: method}
					_, err := c.Token(t.Context(), as, who, form)
					if err == nil && name != "url" && (field != "client_secret" && field != "Authorization") {
						t.Fatal("no error")
					}
					_, deviceErr := c.Device(t.Context(), as, who, form)
					text := fmt.Sprint(err, deviceErr)
					for _, secret := range sent {
						if strings.Contains(text, secret) {
							t.Fatalf("%q has %q", text, secret)
						}
					}
				})
			}
		}
	}
}

func TestShortSecretsHideWordsButNotKnownCodes(t *testing.T) {
	_, c, as := authorizationServer(t, says(400, "application/json", `{"error":"invalid_grant","error_description":"the pin 1234 is wrong"}`))
	_, err := c.Token(t.Context(), as, &oidc.Credentials{ID: "me", Secret: "grant"}, url.Values{"code": {"1234"}})
	var e *oidc.Error
	if !errors.As(err, &e) || e.Code != "invalid_grant" || strings.Contains(e.Description, "1234") {
		t.Errorf("%#v", err)
	}
}

func TestTokenRequestIsTheForm(t *testing.T) {
	w, c, as := authorizationServer(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("header %v", r.Header)
		}
		says(200, "application/json", `{"access_token":"A"}`)(rw, r)
	})
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"R"}, "resource": {"https://mcp.example.com"}}
	if _, err := c.Token(t.Context(), as, &oidc.Credentials{ID: "me"}, form); err != nil {
		t.Fatal(err)
	}
	if body, want := w.lastBody(), "client_id=me&grant_type=refresh_token&refresh_token=R&resource=https%3A%2F%2Fmcp.example.com"; body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
	if len(form) != 3 {
		t.Errorf("the caller's form has become %v", form)
	}
}

func TestStoredEndpointsAreCheckedAgain(t *testing.T) {
	w, c, _ := authorizationServer(t, nil)
	for _, at := range []string{"http://169.254.169.254/", "https://10.0.0.1/token", "javascript:x", "http://mcp.example.com/token", "https://u:p@as.example.com/"} {
		as := &oidc.Metadata{Issuer: issuer, TokenEndpoint: at, RevocationEndpoint: at, RegistrationEndpoint: at, DeviceAuthorizationEndpoint: at}
		_, err := c.Token(t.Context(), as, nil, nil)
		wantError(t, err, "token endpoint")
		_, err = c.Device(t.Context(), as, nil, nil)
		wantError(t, err, "device authorization endpoint")
		_, err = c.Register(t.Context(), as, &oidc.Registration{})
		wantError(t, err, "registration endpoint")
		wantError(t, c.Revoke(t.Context(), as, nil, "t", ""), "revocation endpoint")
	}
	if dials := w.dials(); len(dials) > 0 {
		t.Errorf("dialed %q", dials)
	}
}

func TestEndpointThatIsMissingIsUnsupported(t *testing.T) {
	_, c, _ := authorizationServer(t, nil)
	as := &oidc.Metadata{Issuer: issuer}
	_, register := c.Register(t.Context(), as, &oidc.Registration{})
	_, device := c.Device(t.Context(), as, nil, nil)
	for _, err := range []error{register, device, c.Revoke(t.Context(), as, nil, "t", "")} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
}

func TestDeviceCodes(t *testing.T) {
	certificate(t)
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			text string
			want oidc.DeviceCode
		}{
			{`{"device_code":"D","user_code":"WDJB-MJHT","verification_uri":"https://as.example.com/d","verification_uri_complete":"https://as.example.com/d?c=1","expires_in":600,"interval":7}`,
				oidc.DeviceCode{Code: "D", UserCode: "WDJB-MJHT", VerificationURI: "https://as.example.com/d", VerificationURIComplete: "https://as.example.com/d?c=1", Expires: time.Now().Add(10 * time.Minute), Interval: 7 * time.Second}},
			{`{"device_code":"D","user_code":"U V","verification_url":"https://as.example.com/d"}`,
				oidc.DeviceCode{Code: "D", UserCode: "U V", VerificationURI: "https://as.example.com/d", Interval: 5 * time.Second}},
		} {
			w, c, as := authorizationServer(t, says(200, "application/json", test.text))
			got, err := c.Device(t.Context(), as, &oidc.Credentials{ID: "me"}, url.Values{"scope": {"a"}})
			if err != nil || *got != test.want {
				t.Errorf("%+v, %v, want %+v", got, err, test.want)
			}
			if body := w.lastBody(); body != "client_id=me&scope=a" {
				t.Errorf("sent %s", body)
			}
		}
	})
}

func TestHostileDeviceCodesAreRefused(t *testing.T) {
	for _, text := range []string{
		`{"device_code":"D","user_code":"U","verification_uri":"javascript:x"}`,
		`{"device_code":"D","user_code":"U","verification_uri":"http://as.example.com/"}`,
		`{"device_code":"D","user_code":"U","verification_uri":"https://192.168.0.1/"}`,
		`{"device_code":"D","user_code":"U","verification_uri":"https://as.example.com/","verification_uri_complete":"file:///x"}`,
		`{"device_code":"D","user_code":"U","verification_uri":"https://as.example.com/","verification_uri_complete":"https://localhost/"}`,
		`{"device_code":"D","user_code":"\u001b[2J","verification_uri":"https://as.example.com/"}`,
		`{"device_code":"D","user_code":"` + strings.Repeat("x", 100) + `","verification_uri":"https://as.example.com/"}`,
		`{"device_code":"D","verification_uri":"https://as.example.com/"}`,
		`{"user_code":"U","verification_uri":"https://as.example.com/"}`,
		`{"device_code":"D","user_code":"U"}`,
	} {
		_, c, as := authorizationServer(t, says(200, "application/json", text))
		if got, err := c.Device(t.Context(), as, nil, nil); err == nil {
			t.Errorf("%s is %+v", text, got)
		}
	}
}

func TestRevocation(t *testing.T) {
	for _, test := range []struct {
		status int
		ok     bool
	}{{200, true}, {400, false}, {503, false}} {
		w, c, as := authorizationServer(t, says(test.status, "text/html", ""))
		err := c.Revoke(t.Context(), as, &oidc.Credentials{ID: "me"}, "T", "refresh_token")
		if (err == nil) != test.ok {
			t.Errorf("%d: %v", test.status, err)
		}
		if body := w.lastBody(); body != "client_id=me&token=T&token_type_hint=refresh_token" {
			t.Errorf("sent %s", body)
		}
	}
}

func TestOneClientServesManyAtOnce(t *testing.T) {
	_, c, as := authorizationServer(t, func(rw http.ResponseWriter, r *http.Request) {
		says(200, "application/json", `{"access_token":"`+r.PostFormValue("code")+`"}`)(rw, r)
	})
	who := &oidc.Credentials{ID: "me", Secret: "s"}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			code := fmt.Sprint("code", i)
			if got, err := c.Token(t.Context(), as, who, url.Values{"code": {code}}); err != nil || got.Access != code {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
}
