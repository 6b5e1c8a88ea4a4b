//go:build npm || browser

package interop_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// An authServer is an authorization server: ts/oidc.mjs, which says what its
// settings are. Its state is in files, so it can be started again.
type authServer struct {
	t        *testing.T
	issuer   string
	settings object
	stop     func()
}

// The client as which a protected server asks an authServer about tokens.
const resourceClient, resourceSecret = "resource-server", "the secret of the resource server"

// startAuthServer starts an authorization server. What settings leaves out has
// its default, but sign-ins need no click unless it says so.
func startAuthServer(t *testing.T, settings object) *authServer {
	t.Helper()
	all := object{"interaction": "auto", "dir": filepath.Join(t.TempDir(), "state"), "jwks": filepath.Join(t.TempDir(), "jwks.json")}
	maps.Copy(all, settings)
	clients, _ := all["clients"].([]object)
	all["clients"] = append([]object{{
		"client_id": resourceClient, "client_secret": resourceSecret,
		"grant_types": []string{}, "response_types": []string{}, "redirect_uris": []string{},
	}}, clients...)
	a := &authServer{t: t, settings: all}
	a.start()
	return a
}

func (a *authServer) start() {
	a.t.Helper()
	settings, err := json.Marshal(a.settings)
	if err != nil {
		a.t.Fatal(err)
	}
	cmd := exec.Command(node22(a.t), filepath.Join("ts", "oidc.mjs"), filepath.Dir(npmFolder(a.t)), string(settings))
	said, stop := serveUntil(a.t, cmd, `^{"issuer".*`)
	ready := decode[struct {
		Issuer string `json:"issuer"`
	}](a.t, json.RawMessage(said))
	a.issuer, a.stop = ready.Issuer, stop
}

// restart ends the server and starts it again with the same state, at the same
// address. Its counters begin at zero.
func (a *authServer) restart() {
	a.t.Helper()
	a.stop()
	at, err := url.Parse(a.issuer)
	if err != nil {
		a.t.Fatal(err)
	}
	a.settings["port"] = json.Number(at.Port())
	a.start()
}

// rotateKeys has the server sign by a new key from now on, which takes a restart.
// What was signed by the old ones stays good if they are kept.
func (a *authServer) rotateKeys(keepOld bool) {
	a.t.Helper()
	made, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		a.t.Fatal(err)
	}
	file := a.settings["jwks"].(string)
	old, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	set := struct {
		Keys []object `json:"keys"`
	}{Keys: []object{privateJWK(made)}}
	if keepOld {
		set.Keys = append(set.Keys, decode[struct {
			Keys []object `json:"keys"`
		}](a.t, json.RawMessage(old)).Keys...)
	}
	data, err := json.Marshal(set)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.restart()
}

// privateJWK is a key in the words of RFC 7517.
func privateJWK(key *rsa.PrivateKey) object {
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	return object{
		"kty": "RSA", "use": "sig", "alg": "RS256",
		"n": number(key.N), "e": number(big.NewInt(int64(key.E))), "d": number(key.D),
		"p": number(key.Primes[0]), "q": number(key.Primes[1]),
		"dp": number(key.Precomputed.Dp), "dq": number(key.Precomputed.Dq), "qi": number(key.Precomputed.Qinv),
	}
}

// publicJWK is the part of a key that others may know.
func publicJWK(key *rsa.PrivateKey) object {
	all := privateJWK(key)
	return object{"kty": all["kty"], "use": all["use"], "alg": all["alg"], "n": all["n"], "e": all["e"]}
}

// set changes settings of the running server. They hold for what is asked from now on.
func (a *authServer) set(settings object) {
	a.t.Helper()
	body, err := json.Marshal(settings)
	if err != nil {
		a.t.Fatal(err)
	}
	fetch(a.t, http.MethodPost, a.issuer+"/test/settings", "", bytes.NewReader(body), nil)
}

// revokeAll takes back all that was granted, as an administrator would.
func (a *authServer) revokeAll() {
	a.t.Helper()
	fetch(a.t, http.MethodPost, a.issuer+"/test/revoke", "", nil, nil)
}

// A tally is what a server of the tests was asked since it started. ts/oidc.mjs and
// ts/protected.mjs say what they count.
type tally struct {
	Counts   map[string]int `json:"counts"`
	Failures map[string]int `json:"failures"` // by kind and reason
	Requests []object       `json:"requests"` // without secrets
}

func (a *authServer) tally() tally {
	a.t.Helper()
	return tallyOf(a.t, a.issuer)
}

func tallyOf(t *testing.T, base string) (got tally) {
	t.Helper()
	fetch(t, http.MethodGet, base+"/test/counters", "", nil, &got)
	return got
}

// metadata is what the server says of itself.
func (a *authServer) metadata() object {
	a.t.Helper()
	var got object
	fetch(a.t, http.MethodGet, a.issuer+"/.well-known/oauth-authorization-server", "", nil, &got)
	return got
}

// fetch makes a request that must succeed, and decodes its answer unless into is nil.
func fetch(t *testing.T, method, url, contentType string, body io.Reader, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	status, _, answer := do(t, http.DefaultClient, req)
	if status >= http.StatusBadRequest {
		t.Fatalf("%s %s: status %d: %s", method, url, status, answer)
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			t.Fatalf("%s %s: %v: %s", method, url, err, answer)
		}
	}
}

// do makes a request on a connection of its own, so that none is left open.
func do(t *testing.T, client *http.Client, req *http.Request) (int, http.Header, []byte) {
	t.Helper()
	req.Close = true
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, body
}

// A protectedServer is an MCP server that wants tokens of an authServer:
// ts/protected.mjs, which says what its settings are.
type protectedServer struct {
	t    *testing.T
	url  string // which is the resource too
	stop func()
}

// startProtected starts a server of version 1 of the TypeScript SDK, unless the
// settings say 2 for "sdk".
func startProtected(t *testing.T, a *authServer, settings object) *protectedServer {
	t.Helper()
	all := object{"issuer": a.issuer, "client": resourceClient, "secret": resourceSecret}
	maps.Copy(all, settings)
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node22(t), filepath.Join("ts", "protected.mjs"), filepath.Dir(npmFolder(t)), string(data))
	said, stop := serveUntil(t, cmd, `^{"url".*`)
	ready := decode[struct {
		URL string `json:"url"`
	}](t, json.RawMessage(said))
	return &protectedServer{t: t, url: ready.URL, stop: stop}
}

func (p *protectedServer) tally() tally {
	p.t.Helper()
	at, err := url.Parse(p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	return tallyOf(p.t, "http://"+at.Host)
}
