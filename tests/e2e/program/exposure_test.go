package program

import (
	"crypto/tls"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// A secured is a certificate in files, and who has signed it.
type secured struct {
	*certtest.Authority
	cert, key string
}

func newSecured(t *testing.T, hosts ...string) *secured {
	t.Helper()
	dir := t.TempDir()
	s := &secured{certtest.New(t), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	s.Write(t, s.cert, s.key, "server", hosts...)
	return s
}

// client returns a client that speaks one version of HTTP.
func (s *secured) client(t *testing.T, two bool) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.Pool()}, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!two)
	tr.Protocols.SetHTTP2(two)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestC13_EveryEndpointIsServedOverTLSInBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "--tls-cert", s.cert, "--tls-key", s.key)
	base := strings.TrimSuffix(p.place("https://127.0.0.1:"), gateway.MCPPath)
	p.await(`"type":"http","url":"` + base + `/mcp"`)
	conf := &tls.Config{RootCAs: s.Pool()}
	peertest.CheckEcho(t, &ws.Client{URL: p.place("wss://127.0.0.1:"), TLS: conf}, protocol.Legacy)
	peertest.CheckEcho(t, &ws.Client{URL: p.place("wss://127.0.0.1:"), TLS: conf}, protocol.Modern)
	for _, two := range []bool{false, true} {
		c := s.client(t, two)
		for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
			peertest.CheckEcho(t, &streamable.Client{URL: base + "/mcp", HTTP: c}, era)
		}
		for era, d := range map[protocol.Era]dragoman.Dialer{
			protocol.Legacy: &sse.Client{URL: base + "/sse", HTTP: c}, protocol.Modern: &toolhttp.Client{URL: base + "/call", HTTP: c},
		} {
			peertest.CheckEcho(t, d, era)
		}
	}
	resp, err := s.client(t, true).Get(base + gateway.WSPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.ProtoMajor != 2 || resp.StatusCode != http.StatusUpgradeRequired || !strings.Contains(string(text), "HTTP/1.1") {
		t.Errorf("a WebSocket over HTTP/2: %s %d %s", resp.Proto, resp.StatusCode, text)
	}
	if status := p.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("the status is %d", status)
	}
}

func TestConnectOverTLSWithAPrivateAuthority(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	f := newFile(t, "listen: {address: '127.0.0.1:0', tls: {cert: "+s.cert+", key: "+s.key+", clientCA: "+s.File+", minVersion: 1.3}}\nservers: {a: "+child(t, "legacy")+"}")
	p := startMain(t, "serve", f.path)
	at := strings.TrimSuffix(p.place("https://127.0.0.1:"), "/mcp") + "/servers/a/mcp"
	mine, key := s.cert+".client", s.key+".client"
	s.Write(t, mine, key, "alice")
	useServer(t, startMain(t, "connect", at, "--ca-file", s.File, "--cert-file", mine, "--key-file", key))
	useServer(t, startMain(t, "connect", "wss"+strings.TrimPrefix(strings.Replace(at, "/mcp", "/ws", 1), "https"), "--ca-file", s.File, "--cert-file", mine, "--key-file", key))
	for want, args := range map[string][]string{`"error":{`: {"--ca-file", s.File}, "signed by CN=authority": nil} {
		q := startMain(t, append([]string{"connect", at}, args...)...)
		if got := q.say(peertest.Hello(t).String()); !strings.Contains(got, want) {
			t.Errorf("%v: %s, want %q", args, got, want)
		}
	}
}

// refusedLine begins what is said of an address that other machines can reach.
const refusedLine = "other machines can reach "

func TestExposureIsRefusedUnlessItIsSaid(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	secure := []string{"--tls-cert", s.cert, "--tls-key", s.key}
	servers := "\nservers: {a: {url: http://127.0.0.1:1}}"
	for _, test := range []struct {
		file string // of serve; run without one
		args []string
		want []string // none if it is served
	}{
		{"", []string{"--listen", "0.0.0.0:0"}, []string{"no authentication and no TLS", "127.0.0.1 or a Unix socket", "--token-file, --tls-cert and --tls-key", "--insecure-no-auth", "--insecure-no-tls"}},
		{"", []string{"--listen", "[::]:0"}, []string{"no authentication and no TLS"}},
		{"", []string{"--listen", ":0"}, []string{"no authentication and no TLS"}},
		{"", []string{"--listen", "127.0.0.1:0", "--listen", "tcp:0.0.0.0:0"}, []string{"tcp:0.0.0.0:0, and there is no authentication and no TLS", "listen on HOST:PORT"}},
		{"", []string{"--host", "0.0.0.0", "--port", "0"}, []string{"0.0.0.0:0, and there is no authentication"}},
		{"", []string{"--host", "::", "--port", "0", "--outputTransport", "sse"}, []string{"[::]:0, and there is no authentication"}},
		{"", append([]string{"--listen", "0.0.0.0:0"}, secure...), []string{"there is no authentication; choose", "--insecure-no-auth"}},
		{"", []string{"--listen", "0.0.0.0:0", "--insecure-no-auth"}, []string{"there is no TLS; choose", "--insecure-no-tls"}},
		{"", []string{"--listen", "0.0.0.0:0", "--insecure-no-auth", "--insecure-no-tls"}, nil},
		{"", append([]string{"--listen", "0.0.0.0:0", "--tls-client-ca", s.File}, secure...), nil},
		{"", []string{"--listen", "0.0.0.0:0", "--insecure-no-auth", "--trust-proxy", "10.0.0.0/8"}, nil},
		{"listen: '0.0.0.0:0'" + servers, nil, []string{"no authentication and no TLS", "--insecure-no-auth", "--insecure-no-tls"}},
		{"listen: {address: '0.0.0.0:0', insecure: no-auth}" + servers, nil, []string{"there is no TLS; choose"}},
		{"listen: {address: '0.0.0.0:0', insecure: [no-auth, no-tls]}" + servers, nil, nil},
		{"listen: {address: '0.0.0.0:0', insecure: no-auth, proxies: 10.0.0.0/8}" + servers, nil, nil},
		{"listen: {address: '0.0.0.0:0', insecure: no-auth}" + servers, secure, nil},
		{"listen: '0.0.0.0:0'" + servers, []string{"--listen", "127.0.0.1:0"}, nil},
		{"listen: '0.0.0.0:0'\nauth: a-token-that-is-long-enough" + servers, nil, []string{"there is no TLS; choose", "--insecure-no-tls"}},
		{"listen: '0.0.0.0:0'\nauth: a-token-that-is-long-enough" + servers, secure, nil},
		{"listen: {address: '0.0.0.0:0', auth: none}\nauth: a-token-that-is-long-enough" + servers, secure, []string{"there is no authentication; choose"}},
	} {
		args := append([]string{"run"}, test.args...)
		if test.file != "" {
			args = append([]string{"serve", newFile(t, test.file).path}, test.args...)
		}
		if test.want == nil {
			p := startMain(t, args...)
			p.place("http")
			p.stop(syscall.SIGTERM)
			continue
		}
		_, stderr, status := runMain(t, "", args...)
		if status == 0 || !strings.Contains(stderr, refusedLine) || strings.Contains(stderr, "ready") {
			t.Errorf("%q %q: status %d: %s", test.file, test.args, status, stderr)
		}
		_, stderr, _ = strings.Cut(stderr, "dragoman: "+refusedLine) // a file has been warned of before
		for _, want := range test.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%q %q: %s, want %q", test.file, test.args, stderr, want)
			}
		}
	}
}

func TestMistakesAboutTLSAreExplained(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--tls-cert", s.cert}, "belong together"},
		{[]string{"--tls-client-ca", s.File}, "needs --tls-cert"},
		{[]string{"--tls-cert", s.cert, "--tls-key", s.File}, "in PEM"},
		{[]string{"--tls-cert", s.cert + "x", "--tls-key", s.key}, s.cert + "x: no such file"},
		{[]string{"--trust-proxy", "proxy.example.com"}, "write it as 10.1.2.3"},
	} {
		if _, stderr, status := runMain(t, "", append([]string{"run", "--listen", "127.0.0.1:0"}, test.args...)...); status == 0 || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: status %d, %s, want %q", test.args, status, stderr, test.want)
		}
	}
	for want, list := range map[string][]config.Listen{
		"none is listened on": flags.ListensOn([]string{"tcp:127.0.0.1:0", "unix:/x"}),
		"choose one":          {{Address: "127.0.0.1:0", TLS: config.TLS{Cert: "a", Key: "b"}}},
	} {
		flags := flags.ListenFlags{TLS: config.TLS{Cert: s.cert, Key: s.key}}
		if _, err := flags.Apply(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What a proxy says of its client counts, what others say does not.
func TestS11_ForwardedHostCountsFromProxiesAlone(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		proxies := map[bool]string{true: "127.0.0.1", false: "10.0.0.0/8"}[trusted]
		f := newFile(t, "listen: {address: '127.0.0.1:0', hosts: [mcp.example.com], proxies: "+proxies+"}\nservers: {a: {url: http://127.0.0.1:1}}")
		p := startMain(t, "serve", f.path)
		base := strings.TrimSuffix(p.place("http://"), gateway.MCPPath)
		for _, test := range []struct {
			host, forwarded string
			proxy, other    int // what a proxy is answered, and another
		}{
			{"inner", "mcp.example.com", 200, 403},
			{"127.0.0.1", "evil.example", 403, 200},
			{"127.0.0.1", "a b", 400, 200},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+gateway.HealthPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = test.host
			req.Header.Set("X-Forwarded-Host", test.forwarded)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if want := map[bool]int{true: test.proxy, false: test.other}[trusted]; resp.StatusCode != want {
				t.Errorf("a proxy: %v, %+v: %d", trusted, test, resp.StatusCode)
			}
		}
	}
}

func TestReloadThatWouldOpenANetworkToEverybodyIsRefused(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	servers := "\nservers: {a: {url: http://127.0.0.1:1}}"
	file := newFile(t, "listen: '0.0.0.0:0'\nauth: a-token-that-is-long-enough"+servers)
	p := startMain(t, "serve", file.path, "--tls-cert", s.cert, "--tls-key", s.key)
	p.place("https")
	file.write("listen: '0.0.0.0:0'" + servers)
	p.await("the previous one stays in force")
	if !strings.Contains(p.said(), "there is no authentication") {
		t.Errorf("it says %s", p.said())
	}
	p.stop(syscall.SIGTERM)
}
