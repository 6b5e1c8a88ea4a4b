package oidc_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

const (
	prm    = "/.well-known/oauth-protected-resource"
	asMeta = "/.well-known/oauth-authorization-server"
	openID = "/.well-known/openid-configuration"
)

// resourceDoc and serverDoc are what well-behaved servers publish.
func resourceDoc(resource, issuer string) string {
	return fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q],"scopes_supported":["a","b"],"x":{"y":1}}`, resource, issuer)
}

func serverDoc(issuer string, members ...string) string {
	return fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":"%[2]s/authorize","token_endpoint":"%[2]s/token","code_challenge_methods_supported":["plain","S256"]%[3]s}`,
		issuer, strings.TrimSuffix(issuer, "/"), strings.Join(append([]string{""}, members...), ","))
}

// public gives names addresses that everybody can reach.
func (w *world) public(names ...string) {
	for _, name := range names {
		w.names[name] = []string{"8.8.4.4"}
	}
}

func TestDiscoveryAsksInOrder(t *testing.T) {
	const server, as = "https://mcp.example.com", "https://as.example.com"
	for _, test := range []struct {
		name      string
		server    string
		announced string
		mcp, as   map[string]string
		asked     []string
		resource  string
		issuer    string
		fallback  bool
	}{
		{
			name: "announced", server: server + "/mcp", announced: server + "/custom.json",
			mcp: map[string]string{"/custom.json": resourceDoc(server+"/mcp", as)}, as: map[string]string{asMeta: serverDoc(as)},
			asked:    []string{"mcp /custom.json", "as " + asMeta},
			resource: server + "/mcp", issuer: as,
		},
		{
			name: "announced on another host", server: server + "/mcp", announced: as + "/prm",
			as:       map[string]string{asMeta: serverDoc(as), "/prm": resourceDoc(server+"/mcp", as)},
			asked:    []string{"as /prm", "as " + asMeta},
			resource: server + "/mcp", issuer: as,
		},
		{
			name: "announced, but not there", server: server + "/mcp", announced: server + "/custom.json",
			mcp: map[string]string{prm + "/mcp": resourceDoc(server+"/mcp", as)}, as: map[string]string{asMeta: serverDoc(as)},
			asked:    []string{"mcp /custom.json", "mcp " + prm + "/mcp", "as " + asMeta},
			resource: server + "/mcp", issuer: as,
		},
		{
			name: "at the path", server: server + "/mcp/", mcp: map[string]string{prm + "/mcp": resourceDoc(server+"/mcp", as)}, as: map[string]string{openID: serverDoc(as)},
			asked:    []string{"mcp " + prm + "/mcp", "as " + asMeta, "as " + openID},
			resource: server + "/mcp", issuer: as,
		},
		{
			name: "at the root, issuer with a path", server: server + "/mcp",
			mcp: map[string]string{prm: resourceDoc(server, as+"/tenant1")}, as: map[string]string{asMeta + "/tenant1": serverDoc(as + "/tenant1")},
			asked:    []string{"mcp " + prm + "/mcp", "mcp " + prm, "as " + asMeta + "/tenant1"},
			resource: server, issuer: as + "/tenant1",
		},
		{
			name: "OpenID Connect behind the path", server: server,
			mcp: map[string]string{prm: resourceDoc(server+"/", as+"/t/v2")}, as: map[string]string{"/t/v2" + openID: serverDoc(as + "/t/v2")},
			asked:    []string{"mcp " + prm, "as " + asMeta + "/t/v2", "as " + openID + "/t/v2", "as /t/v2" + openID},
			resource: server + "/", issuer: as + "/t/v2",
		},
		{
			name: "OpenID Connect before the path, query kept", server: server + "/a/b?key=1",
			mcp: map[string]string{prm + "/a/b": resourceDoc(server+"/a", as+"/t")}, as: map[string]string{openID + "/t": serverDoc(as + "/t")},
			asked:    []string{"mcp " + prm + "/a/b?key=1", "as " + asMeta + "/t", "as " + openID + "/t"},
			resource: server + "/a", issuer: as + "/t",
		},
		{
			name: "issuer with a slash", server: server + "/mcp",
			mcp: map[string]string{prm + "/mcp": resourceDoc("https://MCP.example.com:443/mcp/", as+"/")}, as: map[string]string{asMeta: serverDoc(as + "/")},
			asked:    []string{"mcp " + prm + "/mcp", "as " + asMeta},
			resource: "https://MCP.example.com:443/mcp/", issuer: as + "/",
		},
		{
			name: "no resource metadata", server: server + "/mcp", mcp: map[string]string{asMeta: serverDoc(server + "/")},
			asked:  []string{"mcp " + prm + "/mcp", "mcp " + prm, "mcp " + asMeta},
			issuer: server + "/",
		},
		{
			name: "no metadata at all", server: server + "/mcp",
			asked:  []string{"mcp " + prm + "/mcp", "mcp " + prm, "mcp " + asMeta, "mcp " + openID},
			issuer: server, fallback: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com", "as.example.com")
			w.hosts["mcp.example.com"], w.hosts["as.example.com"] = docs(test.mcp), docs(test.as)
			var ch *oidc.Challenge
			if test.announced != "" {
				ch = &oidc.Challenge{ResourceMetadata: test.announced}
			}
			d, err := w.client(t, test.server, nil).Discover(t.Context(), ch, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range test.asked {
				test.asked[i] = "GET " + strings.Replace(test.asked[i], " ", ".example.com ", 1)
			}
			if asked := w.requests(); !reflect.DeepEqual(asked, test.asked) {
				t.Errorf("asked\n%s, want\n%s", strings.Join(asked, "\n"), strings.Join(test.asked, "\n"))
			}
			if d.Resource != test.resource || d.Server.Issuer != test.issuer || d.Fallback != test.fallback {
				t.Errorf("resource %q, issuer %q, fallback %v", d.Resource, d.Server.Issuer, d.Fallback)
			}
			if want := strings.TrimSuffix(test.issuer, "/") + "/token"; d.Server.TokenEndpoint != want {
				t.Errorf("token endpoint %q, want %q", d.Server.TokenEndpoint, want)
			}
			if hasScopes := test.resource != ""; hasScopes != reflect.DeepEqual(d.Scopes, []string{"a", "b"}) {
				t.Errorf("scopes %q", d.Scopes)
			}
		})
	}
}

func TestFallbackHasTheDefaultEndpoints(t *testing.T) {
	w := newWorld(t)
	w.public("mcp.example.com")
	d, err := w.client(t, "https://mcp.example.com/v1/mcp", nil).Discover(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &oidc.Metadata{Issuer: "https://mcp.example.com", AuthorizationEndpoint: "https://mcp.example.com/authorize",
		TokenEndpoint: "https://mcp.example.com/token", RegistrationEndpoint: "https://mcp.example.com/register"}
	if !d.Fallback || !reflect.DeepEqual(d.Server, want) {
		t.Errorf("fallback %v: %+v", d.Fallback, d.Server)
	}
}

func TestMetadataIsReadWholeAndSurvivesStorage(t *testing.T) {
	const as = "https://as.example.com"
	w := newWorld(t)
	w.public("as.example.com")
	w.hosts["as.example.com"] = docs(map[string]string{asMeta: serverDoc(as, `"registration_endpoint":"https://as.example.com/r","revocation_endpoint":"https://as.example.com/v","userinfo_endpoint":"https://as.example.com/u"`,
		`"device_authorization_endpoint":"https://as.example.com/d","scopes_supported":["s"],"response_types_supported":["code"],"grant_types_supported":["g"]`,
		`"token_endpoint_auth_methods_supported":["none"],"token_endpoint_auth_signing_alg_values_supported":["ES256"]`,
		`"client_id_metadata_document_supported":true,"authorization_response_iss_parameter_supported":true`)})
	m, err := w.client(t, "https://mcp.example.com", nil).Metadata(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	want := &oidc.Metadata{Issuer: as, AuthorizationEndpoint: as + "/authorize", TokenEndpoint: as + "/token", RegistrationEndpoint: as + "/r", RevocationEndpoint: as + "/v", UserinfoEndpoint: as + "/u",
		DeviceAuthorizationEndpoint: as + "/d", ScopesSupported: []string{"s"}, ResponseTypes: []string{"code"}, GrantTypes: []string{"g"}, TokenAuthMethods: []string{"none"},
		TokenAuthAlgorithms: []string{"ES256"}, ChallengeMethods: []string{"plain", "S256"}, ClientIDDocuments: true, IssParameter: true}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("metadata %+v, want %+v", m, want)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var stored oidc.Metadata
	if err := json.Unmarshal(text, &stored); err != nil || !reflect.DeepEqual(&stored, m) {
		t.Errorf("stored and read: %+v, %v", stored, err)
	}
}

func TestConfiguredIssuerAndResourceComeFirst(t *testing.T) {
	const server, as = "https://mcp.example.com/mcp", "https://as.example.com"
	for _, test := range []struct {
		name     string
		prm      string
		o        oidc.DiscoverOptions
		resource string
		scopes   int
	}{
		{"issuer, no resource metadata", "", oidc.DiscoverOptions{Issuer: as}, "", 0},
		{"issuer in place of the published one", resourceDoc(server, "https://other.example.com"), oidc.DiscoverOptions{Issuer: as}, server, 2},
		{"issuer, none published", `{"resource":"` + server + `"}`, oidc.DiscoverOptions{Issuer: as}, server, 0},
		{"resource in place of one that does not match", resourceDoc("http://inside/mcp", as), oidc.DiscoverOptions{Resource: "api://mcp"}, "api://mcp", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com", "as.example.com")
			if test.prm != "" {
				w.hosts["mcp.example.com"] = docs(map[string]string{prm + "/mcp": test.prm})
			}
			w.hosts["as.example.com"] = docs(map[string]string{asMeta: serverDoc(as)})
			d, err := w.client(t, server, nil).Discover(t.Context(), nil, &test.o)
			if err != nil {
				t.Fatal(err)
			}
			if d.Resource != test.resource || d.Server.Issuer != as || len(d.Scopes) != test.scopes || d.Fallback {
				t.Errorf("%+v of %+v", d, d.Server)
			}
		})
	}
}

func TestAnswersThatMeanNotThere(t *testing.T) {
	const server = "https://mcp.example.com"
	for name, answer := range map[string]http.HandlerFunc{
		"401":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(401) },
		"403":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(403) },
		"405":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(405) },
		"410":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(410) },
		"204":    func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) },
		"a page": func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<!DOCTYPE html><p>Hello") },
		"text":   func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "OK") },
		"a way off": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://www.example.com/", http.StatusFound)
		},
		"a page of { }": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(rw, "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com", "www.example.com")
			w.hosts["mcp.example.com"] = answer
			d, err := w.client(t, server+"/mcp", nil).Discover(t.Context(), nil, nil)
			if err != nil || !d.Fallback {
				t.Fatalf("%+v, %v", d, err)
			}
			if asked := w.requests(); len(asked) != 4 {
				t.Errorf("asked %q, want all four places", asked)
			}
		})
	}
}

func TestAnswersThatMeanFailure(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"answered 500": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) },
		"answered 503": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) },
		"answered 429": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(429) },
		"EOF":          func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no JSON object": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, "[1]")
		},
		"is no JSON object": func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, `{"resource":`) },
		"more than 1048576": func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, `{"x":"`+strings.Repeat("y", 50<<20)+`"}`)
		},
		"than 1048576 bytes": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(rw)
			_, _ = io.WriteString(z, `{"x":"`+strings.Repeat("y", 4<<20)+`"}`)
			_ = z.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com")
			w.hosts["mcp.example.com"] = answer
			d, err := w.client(t, "https://mcp.example.com/mcp", nil).Discover(t.Context(), nil, nil)
			if d != nil {
				t.Errorf("discovered %+v", d)
			}
			wantError(t, err, name, "protected resource metadata")
			if asked := w.requests(); len(asked) > 2 || asked[0] != asked[len(asked)-1] { // net/http may repeat a GET
				t.Errorf("asked %q, want one place", asked)
			}
		})
	}
}

func TestResourceMustBeTheServer(t *testing.T) {
	const as = "https://as.example.com"
	for _, test := range []struct {
		server, resource string
		ok               bool
	}{
		{"https://mcp.example.com/mcp", "https://mcp.example.com/mcp", true},
		{"https://mcp.example.com/mcp", "https://mcp.example.com/mcp/", true},
		{"https://mcp.example.com/mcp/", "https://mcp.example.com/mcp", true},
		{"https://mcp.example.com/mcp", "https://mcp.example.com", true},
		{"https://mcp.example.com/mcp/v1", "https://mcp.example.com/mcp", true},
		{"https://mcp.example.com/mcp", "https://Mcp.Example.Com/mcp", true},
		{"https://mcp.example.com/mcp?a=1", "https://mcp.example.com/mcp?a=1", true},
		{"https://mcp.example.com/mcp?a=1", "https://mcp.example.com/mcp?a=2", false},
		{"https://mcp.example.com/mcp2", "https://mcp.example.com/mcp", false},
		{"https://mcp.example.com/mcp", "https://mcp.example.com/mcp2", false},
		{"https://mcp.example.com/mcp", "https://mcp.example.com/other", false},
		{"https://mcp.example.com/mcp", "https://mcp.example.com/mcp/deeper", false},
		{"https://mcp.example.com/mcp", "http://mcp.example.com/mcp", false},
		{"https://mcp.example.com/mcp", "https://mcp.example.com:8443/mcp", false},
		{"https://mcp.example.com/mcp", "https://evil.example.com/mcp", false},
		{"https://mcp.example.com/mcp", "https://user@mcp.example.com/mcp", false},
		{"https://mcp.example.com/mcp", "https://mcp.example.com/mcp#x", false},
		{"https://mcp.example.com/mcp", "mcp.example.com/mcp", false},
		{"https://mcp.example.com/mcp", "", false},
	} {
		t.Run(test.server+" "+test.resource, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com", "as.example.com")
			w.hosts["mcp.example.com"] = docs(map[string]string{"/prm": resourceDoc(test.resource, as)})
			w.hosts["as.example.com"] = docs(map[string]string{asMeta: serverDoc(as)})
			d, err := w.client(t, test.server, nil).Discover(t.Context(), &oidc.Challenge{ResourceMetadata: "https://mcp.example.com/prm"}, nil)
			if test.ok {
				if err != nil || d.Resource != test.resource {
					t.Fatalf("%+v, %v, want the resource byte for byte", d, err)
				}
				return
			}
			wantError(t, err, "protected resource metadata", "resource")
			if asked := w.requests(); len(asked) != 1 {
				t.Errorf("asked %q, want nothing after the document that does not match", asked)
			}
		})
	}
}

// The documents of CVE-2025-6514 and its neighbors.
func TestS29_HostileServerMetadataIsRefused(t *testing.T) {
	const as = "https://as.example.com"
	endpoints := []string{"authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint", "device_authorization_endpoint"}
	hostile := []string{
		"javascript:alert(document.cookie)", "file:///etc/passwd", "--upload-pack=x", "http://a/$(touch m)", "https://a/$(touch m)", "https://a/`id`", "ftp://a/", "data:text/html,x",
		"//a/b", "/relative", "https:a", "https://", "https://user:password@a/", "https://a/#f", "https://a/\nb", "https://a:0/", "https://a:99999/", "https://a$(id)/", "vscode://x", " https://a/",
		"http://169.254.169.254/", "http://127.0.0.1:99/", "http://localhost/", "http://[::ffff:127.0.0.1]:99/", "http://0x7f000001:99/", "http://[2002:7f00:1::]/", "http://[64:ff9b::7f00:1]/",
		"https://169.254.169.254/", "https://127.0.0.1:99/", "https://localhost/", "https://[::ffff:127.0.0.1]:99/", "https://0x7f000001:99/", "https://017700000001/", "https://127.1/", "https://2130706433/",
		"https://[2002:7f00:1::]/", "https://[64:ff9b::7f00:1]/", "https://[::127.0.0.1]/", "https://10.0.0.1/", "https://[fd00::1]/", "https://[fe80::1%25eth0]/", "https://0.0.0.0/", "https://[::]/",
		"https://１２７.0.0.1/", "https://a/" + strings.Repeat("x", 9<<10),
	}
	for _, name := range endpoints {
		w := newWorld(t)
		w.public("mcp.example.com", "as.example.com", "a")
		c := w.client(t, "https://mcp.example.com/mcp", nil)
		for _, value := range hostile {
			t.Run(name+" "+value[:min(len(value), 40)], func(t *testing.T) {
				var doc map[string]any
				if err := json.Unmarshal([]byte(serverDoc(as)), &doc); err != nil {
					t.Fatal(err)
				}
				doc[name] = value
				text, _ := json.Marshal(doc)
				w.hosts["as.example.com"] = docs(map[string]string{asMeta: string(text)})
				m, err := c.Metadata(t.Context(), as)
				if m != nil {
					t.Errorf("accepted %+v", m)
				}
				wantError(t, err, "authorization server metadata", name)
				if len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\r") || strings.Contains(err.Error(), "password@") && len(value) > 40 {
					t.Errorf("the error repeats too much: %q", err)
				}
				// Twice if the connection of the request before is not idle yet.
				if dials := slices.Compact(w.dials()); len(dials) != 1 {
					t.Errorf("dialed %q, want the authorization server only", dials)
				}
			})
		}
	}
}

func TestWrongServerMetadataIsRefused(t *testing.T) {
	const as = "https://as.example.com"
	for _, test := range []struct{ name, doc, want string }{
		{"other issuer", serverDoc("https://evil.example.com"), "its issuer is"},
		{"issuer with a slash more", serverDoc(as + "/"), "its issuer is"},
		{"issuer in other case", serverDoc("https://AS.example.com"), "its issuer is"},
		{"no issuer", `{"token_endpoint":"https://as.example.com/t"}`, "its issuer is"},
		{"no token endpoint", `{"issuer":"https://as.example.com"}`, `"token_endpoint" is missing`},
		{"PKCE without S256", `{"issuer":"https://as.example.com","token_endpoint":"https://as.example.com/t","authorization_endpoint":"https://as.example.com/a","code_challenge_methods_supported":["plain"]}`, "PKCE with S256"},
		{"no PKCE at all", `{"issuer":"https://as.example.com","token_endpoint":"https://as.example.com/t","authorization_endpoint":"https://as.example.com/a","code_challenge_methods_supported":[]}`, "PKCE with S256"},
		{"issuer that is a number", `{"issuer":1}`, `"issuer" is not a string`},
		{"endpoint that is a list", `{"issuer":"https://as.example.com","token_endpoint":["https://as.example.com/t"]}`, `"token_endpoint" is not a string`},
		{"scopes that are a string", serverDoc(as, `"scopes_supported":"a b"`), `"scopes_supported" is not a list of strings`},
		{"flag that is a string", serverDoc(as, `"client_id_metadata_document_supported":"yes"`), `"client_id_metadata_document_supported" is not true or false`},
		{"long string", serverDoc(as, `"scopes_supported":["`+strings.Repeat("x", 8<<10+1)+`"]`), `"scopes_supported" has a string of more than 8192 bytes`},
		{"long issuer", `{"issuer":"` + strings.Repeat("x", 8<<10+1) + `"}`, `"issuer" has more than 8192 bytes`},
		{"deep", `{"issuer":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "no JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.public("as.example.com")
			w.hosts["as.example.com"] = docs(map[string]string{asMeta: test.doc, openID: serverDoc(as)})
			m, err := w.client(t, "https://mcp.example.com/mcp", nil).Metadata(t.Context(), as)
			if m != nil {
				t.Errorf("accepted %+v", m)
			}
			wantError(t, err, "authorization server metadata", test.want)
		})
	}
}

func TestMetadataWithoutPKCEIsAcceptedAndSaysSo(t *testing.T) {
	const as = "https://as.example.com"
	w := newWorld(t)
	w.public("as.example.com")
	w.hosts["as.example.com"] = docs(map[string]string{openID: `{"issuer":"https://as.example.com","token_endpoint":"https://as.example.com/t","authorization_endpoint":"https://as.example.com/a"}`})
	m, err := w.client(t, "https://mcp.example.com/mcp", nil).Metadata(t.Context(), as)
	if err != nil || m.ChallengeMethods != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestS29_HostileResourceMetadataIsRefused(t *testing.T) {
	for _, test := range []struct{ name, doc, want string }{
		{"no servers", `{"resource":"https://mcp.example.com/mcp"}`, "authorization_servers"},
		{"empty list", `{"resource":"https://mcp.example.com/mcp","authorization_servers":[]}`, "authorization_servers"},
		{"empty name", `{"resource":"https://mcp.example.com/mcp","authorization_servers":[""]}`, "authorization_servers"},
		{"a string", `{"resource":"https://mcp.example.com/mcp","authorization_servers":"https://as.example.com"}`, "authorization_servers"},
		{"a number", `{"resource":7,"authorization_servers":["https://as.example.com"]}`, `"resource" is not a string`},
		{"javascript:", resourceDoc("https://mcp.example.com/mcp", "javascript:x"), "must be an https URL"},
		{"plain http", resourceDoc("https://mcp.example.com/mcp", "http://as.example.com"), "must be an https URL"},
		{"metadata service", resourceDoc("https://mcp.example.com/mcp", "http://169.254.169.254/"), "must be an https URL"},
		{"metadata service by https", resourceDoc("https://mcp.example.com/mcp", "https://169.254.169.254/"), "reserved"},
		{"this machine", resourceDoc("https://mcp.example.com/mcp", "http://127.0.0.1:99"), "must be an https URL"},
		{"this machine by https", resourceDoc("https://mcp.example.com/mcp", "https://localhost:99"), "loopback"},
		{"query", resourceDoc("https://mcp.example.com/mcp", "https://as.example.com/?x=1"), "query"},
		{"inside", resourceDoc("https://mcp.example.com/mcp", "https://inside.example.com"), "private"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.public("mcp.example.com", "as.example.com")
			w.names["inside.example.com"] = []string{"10.0.0.9"}
			w.hosts["mcp.example.com"] = docs(map[string]string{prm + "/mcp": test.doc})
			_, err := w.client(t, "https://mcp.example.com/mcp", nil).Discover(t.Context(), nil, nil)
			wantError(t, err, test.want)
			if dials := w.dials(); len(dials) != 1 {
				t.Errorf("dialed %q, want the server only", dials)
			}
		})
	}
}

func TestAnnouncedMetadataIsLookedForInNoOtherPlaces(t *testing.T) {
	for _, server := range []string{"https://mcp.example.com/mcp", "http://127.0.0.1:3000/mcp"} {
		for _, announced := range []string{
			"http://169.254.169.254/", "http://127.0.0.1:99/", "http://[::ffff:127.0.0.1]:99/", "http://0x7f000001:99/", "http://[2002:7f00:1::]/", "http://[64:ff9b::7f00:1]/",
			"http://localhost:99/x", "http://as.example.com/", "file:///etc/passwd", "javascript:x", "https://169.254.169.254/", "https://[fe80::1]/", "https://link.evil.test/", "relative", "https://u:p@mcp.example.com/",
		} {
			t.Run(server+" "+announced, func(t *testing.T) {
				w := newWorld(t)
				w.public("mcp.example.com", "as.example.com")
				w.names["link.evil.test"] = []string{"169.254.1.1", "fe80::1", "::ffff:169.254.1.1"}
				_, err := w.client(t, server, nil).Discover(t.Context(), &oidc.Challenge{ResourceMetadata: announced}, nil)
				wantError(t, err)
				if dials := w.dials(); len(dials) != 0 {
					t.Errorf("dialed %q", dials)
				}
			})
		}
	}
}

func TestAnnouncedMetadataThatIsNowhereIsAnError(t *testing.T) {
	w := newWorld(t)
	w.public("mcp.example.com")
	_, err := w.client(t, "https://mcp.example.com/mcp", nil).Discover(t.Context(), &oidc.Challenge{ResourceMetadata: "https://mcp.example.com/prm"}, nil)
	wantError(t, err, "announces", "https://mcp.example.com/prm answered 404")
}

func TestAuthorizationServerWithoutMetadataIsAnError(t *testing.T) {
	w := newWorld(t)
	w.public("mcp.example.com", "as.example.com")
	w.hosts["mcp.example.com"] = docs(map[string]string{prm: resourceDoc("https://mcp.example.com", "https://as.example.com")})
	_, err := w.client(t, "https://mcp.example.com/mcp", nil).Discover(t.Context(), nil, nil)
	wantError(t, err, `"https://as.example.com"`, asMeta+" answered 404", openID+" answered 404")
	if errors.Is(err, oidc.ErrAddress) {
		t.Errorf("%v is no matter of addresses", err)
	}
}
