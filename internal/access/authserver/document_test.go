package authserver_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
)

// document has a client with a document.
func (w *world) document(id, more string) *program {
	w.docs[id] = fmt.Sprintf(`{"client_id":%q,"client_name":"Documented","redirect_uris":[%q,"http://127.0.0.1/cb"]%s}`, id, back, more)
	return &program{w: w, id: id, redirect: back, verifier: strings.Repeat("v", 43)}
}

func TestClientsMayHaveADocumentInPlaceOfARegistration(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	p := w.document("https://app.example.com/client.json", "")
	b := w.browser()
	have := p.signIn(b)
	if got := w.admit("/mcp", have.access); got != http.StatusOK {
		t.Errorf("the token: %d", got)
	}
	for _, want := range []string{"Documented", "It is published by</dt><dd>app.example.com"} {
		if !strings.Contains(b.Seen[0].Body, want) {
			t.Errorf("%q is not on the page:\n%s", want, b.Seen[0].Body)
		}
	}
	if status, doc := p.refresh(have.refresh); status != http.StatusOK {
		t.Errorf("refresh: %d %v", status, doc)
	}
	page := p.visit(w.browser(), url.Values{"redirect_uri": {"https://evil.example.com/callback"}})
	refused(t, page, nil, "a redirect URI that is not in the document")
	if _, doc, _ := w.do(http.MethodGet, "/.well-known/oauth-authorization-server", "", "", nil); doc["client_id_metadata_document_supported"] != true {
		t.Errorf("the metadata is %v", doc)
	}
}

func TestDocumentsThatCannotBeTrustedAreRefused(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	for name, p := range map[string]*program{
		"about another":        w.document("https://a.example.com/1", ""),
		"with a secret":        w.document("https://a.example.com/2", `,"token_endpoint_auth_method":"client_secret_post"`),
		"without its key":      w.document("https://a.example.com/3", `,"token_endpoint_auth_method":"private_key_jwt"`),
		"with no keys":         w.document("https://a.example.com/9", `,"token_endpoint_auth_method":"private_key_jwt","jwks":{"keys":[]}`),
		"with keys nowhere":    w.document("https://a.example.com/10", `,"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://a.example.com/none"`),
		"with keys by http":    w.document("https://a.example.com/11", `,"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"http://a.example.com/keys"`),
		"too large":            w.document("https://a.example.com/4", `,"x":"`+strings.Repeat("x", 64<<10)+`"`),
		"no document":          {w: w, id: "https://a.example.com/5", redirect: back},
		"a redirect":           {w: w, id: "https://a.example.com/6", redirect: back},
		"bad redirect URI":     w.document("https://a.example.com/7", `,"redirect_uris":["http://evil.example.com/"]`),
		"no path":              w.document("https://a.example.com", ""),
		"a path of nothing":    w.document("https://a.example.com/", ""),
		"a query":              w.document("https://a.example.com/8?x=1", ""),
		"a fragment":           w.document("https://a.example.com/8#x", ""),
		"a user":               w.document("https://u@a.example.com/8", ""),
		"dots":                 w.document("https://a.example.com/x/../8", ""),
		"by http":              w.document("http://a.example.com/8", ""),
		"by http on localhost": w.document("http://localhost/8", ""),
		"an odd address":       w.document("https://0x7f000001/8", ""),
		"very long":            w.document("https://a.example.com/"+strings.Repeat("a", 512), ""),
	} {
		switch name {
		case "about another":
			w.docs[p.id] = strings.Replace(w.docs[p.id], "/1", "/one", 1)
		case "a redirect":
			w.docs[p.id+"b"] = fmt.Sprintf(`{"client_id":%q,"redirect_uris":[%q]}`, p.id, back)
			w.docs[p.id] = "location " + p.id + "b"
		}
		page, err := w.browser().Visit(p.authorizeURL(nil))
		refused(t, page, err, name)
	}
}

func TestDocumentsAreFetchedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, authtest.Options{}, nil)
		p := w.document("https://app.example.com/client.json", "")
		p.code(w.browser(), nil)
		document := w.docs[p.id]
		delete(w.docs, p.id)
		p.code(w.browser(), nil)
		time.Sleep(10 * time.Minute)
		page, err := w.browser().Visit(p.authorizeURL(nil))
		refused(t, page, err, "when it is gone")
		w.docs[p.id] = document
		page, err = w.browser().Visit(p.authorizeURL(nil))
		refused(t, page, err, "right after that")
		time.Sleep(30 * time.Second)
		p.code(w.browser(), nil)
	})
}

func TestS29_DocumentsAreFetchedFromPublicAddressesAlone(t *testing.T) {
	w := newWorld(t, authtest.Options{}, nil)
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1", "inside.example.com"} {
		p := w.document("https://"+host+"/client.json", "")
		page, err := w.browser().Visit(p.authorizeURL(nil))
		refused(t, page, err, host)
	}
	if len(w.dialed) > 0 {
		t.Errorf("dialed %q", w.dialed)
	}
	w.document("https://app.example.com/client.json", "").code(w.browser(), nil)
	if !slices.Equal(w.dialed, []string{"8.8.4.4:443"}) {
		t.Errorf("a public document: dialed %q", w.dialed)
	}
}
