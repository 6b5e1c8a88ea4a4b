package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// broken has a path for each way in which a server refuses.
func broken(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	refuse := func(path string, status int, header, value, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set(header, value)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	refuse("/401", 401, "X-None", "", "go away, api_key=sk-abcdefghijklmnop1234567890")
	refuse("/basic", 401, "WWW-Authenticate", `Basic realm="x"`, "")
	refuse("/403", 403, "X-None", "", "not your tenant "+strings.Repeat("x", 1000)+" end")
	refuse("/moved", 302, "Location", "https://user:hush@other.example.com/mcp?token=hush", "")
	refuse("/slash", 301, "Location", "/slash/", "")
	refuse("/429", 429, "Retry-After", "7", "slow down")
	refuse("/503", 503, "Retry-After", "3600", "")
	refuse("/expired", 401, "WWW-Authenticate", `Bearer error="invalid_token", error_description="the token has expired"`, "")
	refuse("/scope", 403, "WWW-Authenticate", `Bearer error="insufficient_scope", scope="files:write"`, "")
	refuse("/scopes", 403, "WWW-Authenticate", `Bearer error="insufficient_scope", scope="files:read files:write", error_description="this needs to write"`, "")
	refuse("/page", 200, "Content-Type", "text/html; charset=utf-8", "<!doctype html><title>Welcome\n to us</title><p>hello")
	refuse("/other", 200, "Content-Type", "application/json", `{"hello":"world","token":"hush"}`)
	refuse("/lost", 401, "WWW-Authenticate", `Bearer error_description="who are you?", resource_metadata="http://127.0.0.1:1/metadata"`, "")
	mux.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return web.URL
}

// certified serves TLS with a certificate for a name, until a time.
func certified(t *testing.T, subject string, until time.Time, names ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	web.StartTLS()
	t.Cleanup(web.Close)
	return web.URL
}

// silent takes connections, and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // those that wait in it go with it
	return "http://" + l.Addr().String()
}

// TestErrorsAdvise has servers that are broken on purpose reached by connect, which answers the
// host, and by run, which tells the user.
func TestErrorsAdvise(t *testing.T) {
	t.Parallel()
	at, tomorrow := broken(t), time.Now().Add(24*time.Hour)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := "http://" + gone.Addr().String()
	_ = gone.Close()
	const authority = "trust its authority: by --ca-file FILE, tls.ca in a configuration, or the variable SSL_CERT_FILE"
	private, plain := certified(t, "private.example", tomorrow, "127.0.0.1", "a.example"), strings.TrimPrefix(at, "http")
	for name, test := range map[string]struct {
		url   string
		flags []string
		code  int
		want  []string // besides, run says it too
	}{
		"401": {at + "/401", nil, protocol.CodeUnavailable, []string{
			"requires authentication, and advertises no authorization server (401 Unauthorized: go away, api_key=[redacted])", "-H 'Authorization: Bearer TOKEN'", "dragoman login " + at + "/401",
		}},
		"401, a header was sent":          {at + "/401", []string{"-H", "Authorization: Bearer hush"}, protocol.CodeUnavailable, []string{"refuses the Authorization header that is configured", "correct it"}},
		"401, another kind":               {at + "/basic", nil, protocol.CodeUnavailable, []string{"requires an Authorization header of the scheme Basic"}},
		"401, a header was sent, expired": {at + "/expired", []string{"-H", "Authorization: Bearer hush"}, protocol.CodeUnavailable, []string{"(401 Unauthorized: the token has expired)"}},
		"401, and no way to sign in":      {at + "/lost", nil, protocol.CodeUnavailable, []string{"401 Unauthorized: who are you?; how to sign in at 127.0.0.1:", "cannot be found out: ", "-H 'Authorization: Bearer TOKEN'"}},
		"403, a scope":                    {at + "/scope", []string{"-H", "Authorization: Bearer hush"}, protocol.CodeUnavailable, []string{"(403 Forbidden: the scope files:write is needed)"}},
		"a web page":                      {at + "/page", nil, protocol.CodeLost, []string{"the server's answer is a web page (Welcome to us), and no message"}},
		"other JSON":                      {at + "/other", nil, protocol.CodeLost, []string{`the server's answer is no message: {"hello":"world","token":`}},
		"403":                             {at + "/403", nil, protocol.CodeUnavailable, []string{"does not allow this (403 Forbidden: not your tenant xxx", "…)", "ask its owner for access, or sign in as somebody who has it: dragoman login " + at + "/403"}},
		"redirect to a host":              {at + "/moved", nil, protocol.CodeUnavailable, []string{"redirects to https://other.example.com/mcp, which is not followed; use that URL"}},
		"redirect to a path":              {at + "/slash", nil, protocol.CodeUnavailable, []string{"redirects to " + at + "/slash/, which is not followed; use that URL"}},
		"not found":                       {at + "/nothing", nil, protocol.CodeUnavailable, []string{"404 Not Found", "check the path of the URL"}},
		"rate":                            {at + "/429", nil, protocol.CodeOverloaded, []string{"429 Too Many Requests: slow down; it asks to wait 7s"}},
		"overload":                        {at + "/503", nil, protocol.CodeOverloaded, []string{"503 Service Unavailable; it asks to wait 1h0m0s"}},
		"no answer":                       {at + "/cut", nil, protocol.CodeLost, []string{"closed the connection without an answer", "if it speaks TLS, begin the URL with https://"}},
		"unknown authority":               {private, nil, protocol.CodeUnavailable, []string{"signed by an unknown authority; it shows one of CN=private.example, signed by itself, for a.example, 127.0.0.1, valid until " + tomorrow.UTC().Format(time.DateOnly), authority}},
		"unknown authority, WebSocket":    {"wss" + strings.TrimPrefix(private, "https"), nil, protocol.CodeUnavailable, []string{"signed by an unknown authority; it shows one of CN=private.example", authority}},
		"wrong name":                      {certified(t, "wrong.example", tomorrow, "wrong.example"), nil, protocol.CodeUnavailable, []string{"its certificate is not for 127.0.0.1; it shows one of CN=wrong.example", "use a name of the certificate in the URL"}},
		"expired":                         {certified(t, "old.example", time.Now().Add(-24*time.Hour), "127.0.0.1"), nil, protocol.CodeUnavailable, []string{"its certificate has expired, on ", "CN=old.example", "have the server renew it"}},
		"plain HTTP where TLS is":         {"http" + strings.TrimPrefix(private, "https"), nil, protocol.CodeUnavailable, []string{"speaks TLS, but the URL says http://; begin the URL with https://"}},
		"TLS where plain HTTP is":         {"https" + plain, nil, protocol.CodeUnavailable, []string{"speaks plain HTTP, but the URL says https://; begin the URL with http://"}},
		"TLS where a plain socket is":     {"wss" + plain, nil, protocol.CodeUnavailable, []string{"speaks plain HTTP, but the URL says wss://; begin the URL with ws://"}},
		"unknown host":                    {"http://no-such-host.invalid/mcp", []string{"--allow-http"}, protocol.CodeUnavailable, []string{"no-such-host.invalid", "DNS of this machine"}},
		"no listener":                     {free, nil, protocol.CodeUnavailable, []string{"nothing listens at " + strings.TrimPrefix(free, "http://") + " (connection refused); check that the server is running, and the host and the port"}},
		"no proxy":                        {"http://mcp.example.com", []string{"--allow-http", "--proxy", free}, protocol.CodeUnavailable, []string{"the proxy cannot be reached", "check the proxy: --proxy"}},
		"no answer in time":               {silent(t), []string{"--connect-timeout", "1"}, protocol.CodeTimeout, []string{"does not answer within 1s; allow more time by --connect-timeout, or by connectTimeout in a configuration"}},
		"no answer in time, of a child":   {"", []string{"--connect-timeout", "1s", "--", "sleep", "100"}, protocol.CodeTimeout, []string{"does not answer within 1s; allow more time by --connect-timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"connect"}, test.flags...)
			if test.url != "" {
				args = append(args, test.url)
			}
			p := startMain(t, args...)
			var answer struct {
				Error struct {
					Code    int
					Message string
				}
			}
			got := p.say(peertest.Hello(t).String())
			if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.Error.Code != test.code {
				t.Errorf("connect answers %s, want %d", got, test.code)
			}
			checkAdvice(t, "connect", answer.Error.Message, test.want)
			if test.code == protocol.CodeTimeout { // run waits as long as it takes, or ends
				return
			}
			args = slices.DeleteFunc(args[1:], func(arg string) bool { return arg == "--allow-http" }) // of connect
			q := startMain(t, append([]string{"run", "--listen", "0"}, args...)...)
			checkAdvice(t, "run", q.await("serving it anyway"), test.want)
			if strings.Contains(q.said()+p.said()+got, "hush") {
				t.Error("a secret is told")
			}
		})
	}
}

func checkAdvice(t *testing.T, command, text string, want []string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%s says %q, want %q", command, text, part)
		}
	}
}

func TestWhereASignInIsNeededTheCommandIsNamed(t *testing.T) {
	t.Parallel()
	server, _ := protected(t, nil)
	issuer := strings.TrimSuffix(server.URL, "/mcp")
	p := startMain(t, "run", "--listen", "0", "--no-browser", server.URL)
	advice := "sign-in needed at " + strings.TrimPrefix(issuer, "http://") + ", by " + issuer + ": the code to enter is on the standard error of dragoman; or run dragoman login " + server.URL
	answer := postModern(t, p.place("http://"), peertest.Echo(t, protocol.Modern).String())
	checkAdvice(t, "run", answer, []string{`"code":-31007,"message":"` + advice})
	checkAdvice(t, "run", p.said(), []string{"warning: localhost: " + advice})
}

func TestAdviceForWhoUsesAServerNamesCommands(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		http.StatusUnauthorized:   "-H 'Authorization: Bearer TOKEN' (headers in a configuration), or --server-token-file; if it has a sign-in: dragoman login ",
		http.StatusNotImplemented: "it may be no MCP server, or the path of the URL is another one; to see what is there: dragoman probe ",
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		defer web.Close()
		_, stderr, status := runMain(t, "", "tools", web.URL+"/mcp")
		if status == 0 || !strings.Contains(stderr, want+web.URL) || strings.Contains(stderr, "package") || strings.Contains(stderr, "later") {
			t.Errorf("%d: status %d, %s, want %s", code, status, stderr, want)
		}
	}
}

func TestScopesThatAreMissingAreNamedWithWhatToDo(t *testing.T) {
	t.Parallel()
	at := broken(t) + "/scopes"
	const reason = "127.0.0.1: connection failed: the server answers 403 Forbidden: the scope files:read files:write is needed; this needs to write"
	hint := "ask its owner for a token that has the scope; if it has a sign-in: dragoman login " + at
	for _, command := range [][]string{{"tools"}, {"tools", "-H", "Authorization: Bearer hush"}} {
		_, stderr, status := runMain(t, "", append(command, at)...)
		if want := "dragoman: " + reason + "\n" + hint + "\n"; status != term.ExitAuthorization || stderr != want {
			t.Errorf("%q: status %d\n%swant\n%s", command, status, stderr, want)
		}
		_, stderr, status = runMain(t, "", append(command, "-o", "json", at)...)
		var told struct {
			Error struct{ Code, Message, Hint string }
		}
		if err := json.Unmarshal([]byte(stderr), &told); err != nil || status != term.ExitAuthorization || told.Error.Code != "authorization" || told.Error.Message != reason || told.Error.Hint != hint {
			t.Errorf("%q: status %d, %v, a program gets %s", command, status, err, stderr)
		}
	}
	// Of a refusal that is about something else does not lead to a sign-in.
	if _, stderr, status := runMain(t, "", "tools", strings.TrimSuffix(at, "scopes")+"403"); status != term.ExitAuthorization || !strings.Contains(stderr, "403 Forbidden: not your tenant") || strings.Contains(stderr, "scope") {
		t.Errorf("403 without a challenge: status %d, %s", status, stderr)
	}
}

func TestWhoIsRefusedAndCannotSignInIsToldThatItIsRefused(t *testing.T) {
	t.Parallel()
	at := broken(t) + "/lost"
	for _, command := range []string{"tools", "probe", "check"} {
		stdout, stderr, status := runMain(t, "", command, at)
		if text := stdout + stderr; status != 3 || !strings.Contains(text, "401") || !strings.Contains(text, "cannot be found out") || strings.Contains(text, "no answer") {
			t.Errorf("%s: status %d: %s", command, status, text)
		}
	}
}
