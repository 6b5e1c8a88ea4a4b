//go:build unix

package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

// exchange sends text on a connection of its own and returns the first answer, with its
// body, or nil if there is none. The connection ends with the test.
func exchange(t *testing.T, g *gatewaytest.Gateway, text string) (*http.Response, string) {
	t.Helper()
	c := dial(t, g)
	go func() { _, _ = io.WriteString(c, text) }() // ends with the connection, at the latest
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what came is all there is
	return resp, string(body)
}

// dial opens a connection to the HTTP endpoint.
func dial(t *testing.T, g *gatewaytest.Gateway) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(g.Base, "http://"), gatewaytest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * gatewaytest.Patience))
	return c
}

// counted is a call that leaves a trace when it is carried out.
const counted = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"key":"abuse"}}}`

// untouched fails the test if anything was carried out.
func untouched(t *testing.T, j fault.Journal) {
	t.Helper()
	if ran := j.Of(fault.Ran, ""); len(ran) > 0 {
		t.Errorf("what was refused was carried out: %v", ran)
	}
}

// TestS10_MethodsTypesAndPathsAreChecked sends requests that a page can make without being
// asked, and others that no client makes.
func TestS10_MethodsTypesAndPathsAreChecked(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: child(t, fault.Legacy, j)}}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, server)
	base := "/servers/" + server
	send := func(method, path string, header http.Header, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, g.Base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		resp, err := http.DefaultTransport.RoundTrip(req) // which follows nothing
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	for _, path := range []string{base + "/mcp", "/mcp", base + "/call/count"} {
		for _, method := range []string{"PUT", "PATCH", "TRACE", "HEAD", "OPTIONS", "CONNECT", "BREW"} {
			if method == "CONNECT" {
				continue // net/http sends it in another form
			}
			resp := send(method, path, v.header(), counted)
			if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" {
				t.Errorf("%s %s: %s, Allow %q", method, path, resp.Status, resp.Header.Get("Allow"))
			}
		}
	}
	for _, path := range []string{base + "/mcp", "/mcp", base + "/call/count", "/call/count"} {
		for _, kind := range []string{
			"text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/json; charset=utf-16",
			"application/octet-stream", "text/json", "application/jsonp", "application/json, text/plain", "*/*",
		} {
			h := v.header()
			h["Content-Type"] = []string{kind}
			h.Set("Accept", "application/json, text/event-stream")
			if resp := send(http.MethodPost, path, h, counted); resp.StatusCode != http.StatusUnsupportedMediaType {
				t.Errorf("POST %s of %q: %s", path, kind, resp.Status)
			}
		}
	}
	for _, accept := range []string{"", "application/json", "text/event-stream", "text/html", "application/*;q=0"} {
		h := v.header()
		h.Set("Content-Type", "application/json")
		h["Accept"] = []string{accept}
		if resp := send(http.MethodPost, base+"/mcp", h, counted); resp.StatusCode != http.StatusNotAcceptable && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("POST that accepts %q: %s", accept, resp.Status)
		}
	}
	for _, path := range []string{"//evil.example/", "//evil.example/%2e%2e", "/mcp/../admin", "/servers/../status", "/\\evil.example/", "//evil.example/mcp/", "/%2f%2fevil.example", "/http://evil.example/", "/sse//", "/sse/x", "/mcp//", "/mcp%2f"} {
		for _, method := range []string{"GET", "POST"} {
			resp, body := exchange(t, g, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if resp == nil {
				t.Errorf("%s %s: %s", method, path, body)
			} else if to := resp.Header.Get("Location"); resp.StatusCode < 400 || to != "" {
				t.Errorf("%s %s: %s, leads to %q", method, path, resp.Status, to)
			}
		}
	}
	untouched(t, j)
}

// TestS11_EveryEndpointKnowsItsOriginsAndHosts asks at each endpoint with each origin and host.
func TestS11_EveryEndpointKnowsItsOriginsAndHosts(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	tokens := t.TempDir() + "/tokens"
	writeFile(t, tokens, "a-token-of-some-length-0123456789\n")
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"auth":    object{"tokenFile": tokens},
		"servers": object{server: child(t, fault.Legacy, j)},
		"groups":  object{"all": []string{server}},
	}})
	g.Leave() // its probes have no token
	right := strings.TrimPrefix(g.Base, "http://")
	endpoints := []string{"POST /mcp", "GET /mcp", "DELETE /mcp", "OPTIONS /mcp", "GET /sse", "POST /messages", "POST /sse", "GET /ws", "POST /call/count", "GET /call", "GET /status", "GET /healthz", "GET /readyz", "GET /", "GET /reload"}
	for _, base := range []string{"/servers/" + server, "/groups/all"} {
		for _, d := range endpoints[:10] {
			endpoints = append(endpoints, strings.Replace(d, " ", " "+base, 1))
		}
	}
	foreign := []string{"http://evil.example", "null", "http://localhost.evil.com", "http://127.0.0.1.nip.io", "https://evil.example:8443", "http://[::1].evil.example", "file://", "chrome-extension://abc", "http://localhost@evil.example", "evil.example", ""}
	for _, d := range endpoints {
		method, path, _ := strings.Cut(d, " ")
		ask := func(host, origin string, present bool) (*http.Response, string) {
			t.Helper()
			head := method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nContent-Length: 0\r\nMcp-Session-Id: x\r\n"
			if present {
				head += "Origin: " + origin + "\r\n"
			}
			return exchange(t, g, head+"\r\n")
		}
		refused := func(resp *http.Response, what string) {
			t.Helper()
			if resp == nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %s: %v, want 403", d, what, resp)
			} else if resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s with %s: the refusal says %v", d, what, resp.Header)
			}
		}
		for _, origin := range foreign {
			resp, _ := ask(right, origin, true)
			refused(resp, "Origin "+origin)
		}
		for _, host := range []string{"evil.example", "127.0.0.1.nip.io", "localhost.evil.com", "0x7f000001", "2130706433", "127.1", "10.0.0.1"} {
			resp, body := ask(host, "", false)
			if resp != nil && resp.StatusCode == http.StatusBadRequest {
				continue // which is no host at all
			}
			if resp == nil {
				t.Errorf("%s with Host %s: %s", d, host, body)
				continue
			}
			refused(resp, "Host "+host)
		}
		resp, body := ask(right, "", false)
		if resp == nil || resp.StatusCode == http.StatusForbidden {
			t.Errorf("%s without an Origin: %v %s", d, resp, body)
		}
		if resp, body := ask(right, g.Base, true); resp == nil || resp.StatusCode == http.StatusForbidden {
			t.Errorf("%s with its own Origin: %v %s", d, resp, body)
		}
	}
	untouched(t, j)
}

// TestS11_PagesOfThisMachineCanBeKeptOut asks from another port of this machine.
func TestS11_PagesOfThisMachineCanBeKeptOut(t *testing.T) {
	t.Parallel() // with a gateway of its own
	g := gatewaytest.Run(t, append([]string{"--allow-origin", "none"}, runArguments(t, child(t, fault.Legacy, newJournal(t)))...)...)
	for origin, want := range map[string]bool{"http://127.0.0.1:1": true, "http://localhost:3000": true, "http://[::1]:80": true, "http://none": true, g.Base: false} {
		for _, path := range []string{"/mcp", "/sse", "/ws", "/call", "/status", "/healthz"} {
			resp, body := exchange(t, g, "POST "+path+" HTTP/1.1\r\nHost: "+strings.TrimPrefix(g.Base, "http://")+"\r\nOrigin: "+origin+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			if resp == nil || (resp.StatusCode == http.StatusForbidden) != want {
				t.Errorf("%s from %s: %v %s", path, origin, resp, body)
			}
		}
	}
}
