package flags

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestTargetsAreReachedByTheirScheme(t *testing.T) {
	t.Setenv("SET_HERE", "1")
	for _, test := range []struct {
		settings Settings
		want     string // the dialer, or the error
	}{
		{Settings{URL: "http://localhost/mcp"}, "*streamable.Client"},
		{Settings{URL: "https://h/mcp/", Order: "http-only"}, "*streamable.Client"},
		{Settings{URL: "https://h/x/sse"}, "*target.sseFirst"},
		{Settings{URL: "https://h/x/sse/?a=b"}, "*target.sseFirst"},
		{Settings{URL: "https://h/x/sse", Order: "http-first"}, "*streamable.Client"},
		{Settings{URL: "https://h/x", Order: "sse-only"}, "*sse.Client"},
		{Settings{URL: "ws://localhost/ws"}, "*ws.Client"},
		{Settings{URL: "wss://h/ws"}, "*ws.Client"},
		{Settings{URL: "unix:/run/s"}, "*stdio.Address"},
		{Settings{URL: "unix:relative"}, "*stdio.Address"},
		{Settings{URL: "tcp:localhost:1"}, "*stdio.Address"},
		{Settings{URL: "tcp://localhost:1"}, "*stdio.Address"},
		{Settings{URL: "unix:///run/s:/mcp"}, "*streamable.Client"},
		{Settings{URL: "http+unix:s"}, "*streamable.Client"},
		{Settings{Command: []string{"x"}, env: []string{"A=b", "SET_HERE"}}, "*stdio.Command"},
		{Settings{URL: "ftp://h"}, `unknown scheme "ftp": use http, https, ws, wss, unix or tcp`},
		{Settings{URL: "http://:secret@/x"}, "the URL of the server cannot be read"},
		{Settings{URL: "ws://"}, "the URL of the server cannot be read"},
		{Settings{URL: "unix:"}, "needs the path of a socket"},
		{Settings{URL: "unix://relative"}, "needs an absolute path"},
		{Settings{URL: "tcp:localhost"}, "needs a host and a port"},
		{Settings{URL: "http://h", Order: "pigeon"}, `unknown transport "pigeon"`},
		{Settings{URL: "http://h", Headers: []string{"x"}}, "header 1"},
		{Settings{Command: []string{"x"}, env: []string{"=secret"}}, "-e 1 has no name"},
		{Settings{Command: []string{"x"}, env: []string{"NOT_SET_HERE"}}, "-e NOT_SET_HERE: it is not set here"},
	} {
		got, err := test.settings.Server("auto", term.ConsoleOn(io.Discard))
		text := fmt.Sprint(err)
		if err == nil {
			text = fmt.Sprintf("%T", got.Dialer)
		}
		if !strings.Contains(text, test.want) || strings.Contains(text, "secret") {
			t.Errorf("%s%s: %s, want %s", test.settings.URL, test.settings.Command, text, test.want)
		}
	}
}

func TestHeadersReachTheServer(t *testing.T) {
	t.Setenv("SECRET_HERE", "t0p")
	for _, scheme := range []string{"http", "ws"} {
		for _, order := range target.Orders {
			if scheme == "ws" && order != target.Orders[0] {
				continue
			}
			seen := make(chan string, 100)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Header.Get("Authorization")
				w.WriteHeader(http.StatusTeapot)
			}))
			s := &Settings{URL: scheme + strings.TrimPrefix(web.URL, "http") + "/mcp", Headers: []string{"Authorization: Bearer ${SECRET_HERE}"}, Era: "auto"}
			if scheme == "http" {
				s.Order = order
			}
			o, err := s.Server("auto", term.ConsoleOn(io.Discard))
			if err != nil {
				t.Fatal(err)
			}
			g, err := o.Open("", term.ConsoleOn(io.Discard))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Upstreams()[0].Start(t.Context()); err == nil {
				t.Errorf("%s: a teapot is taken for a server", s.URL)
			}
			select {
			case got := <-seen:
				if got != "Bearer t0p" {
					t.Errorf("%s %s: Authorization is %q", scheme, order, got)
				}
			default:
				t.Errorf("%s %s: nothing was asked", scheme, order)
			}
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			web.Close()
		}
	}
}

func TestPlainConnectionsToOtherMachinesAreWarnedOf(t *testing.T) {
	for url, want := range map[string]bool{
		"http://mcp.example.com/mcp": true, "ws://10.0.0.1/ws": true,
		"https://mcp.example.com/mcp": false, "http://127.0.0.1:1/mcp": false, "http://[::1]/mcp": false, "http://localhost/mcp": false,
	} {
		var said bytes.Buffer
		v := term.ConsoleOn(&said)
		if _, err := (&Settings{URL: url}).Server("auto", v); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(said.String(), "not encrypted"); got != want {
			t.Errorf("%s: %q", url, said.String())
		}
		said.Reset()
		if _, err := (&Settings{URL: url, allowHTTP: true}).Server("auto", v); err != nil || said.Len() > 0 {
			t.Errorf("%s, allowed: %q, %v", url, said.String(), err)
		}
	}
}

func TestRevisionsAreChosenByEraAndByName(t *testing.T) {
	for _, test := range []struct {
		era   string
		names []string
		want  string
	}{
		{"both", nil, "[2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05]"},
		{"modern", nil, "[2026-07-28]"},
		{"legacy", nil, "[2025-11-25 2025-06-18 2025-03-26 2024-11-05]"},
		{"both", []string{"2025-03-26"}, "[2025-03-26]"},
		{"both", []string{"2025-03-26", "2026-07-28"}, "[2026-07-28 2025-03-26]"},
		{"old", nil, `unknown era "old": use legacy, modern or both`},
		{"both", []string{"1999-01-01"}, `unknown revision "1999-01-01": use 2026-07-28, 2025-11-25`},
		{"legacy", []string{"2026-07-28"}, `unknown revision "2026-07-28": use 2025-11-25`},
	} {
		got, err := ChooseRevisions(test.era, "both", test.names)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, test.want) {
			t.Errorf("%s %s: %s, want %s", test.era, test.names, text, test.want)
		}
	}
	if speaksEra([]protocol.Revision{protocol.Latest}, protocol.Legacy) || !speaksEra([]protocol.Revision{protocol.Latest}, protocol.Modern) {
		t.Error("the newest revision is not of the modern era alone")
	}
}

func TestS56_LinesOfServersAreRepeatedWithoutSecretsAndTricks(t *testing.T) {
	var said bytes.Buffer
	v := term.ConsoleOn(&said)
	for _, line := range []string{"up", "\x1b[31mred\x1b[0m\ttab\x07", "\x1b]0;title\x07x\x1b", "Authorization: Bearer abcdefgh12345", "a\xffb"} {
		v.Stderr("weather", line)
	}
	const want = "[weather] up\n[weather] red\ttab\n[weather] x\n[weather] Authorization: Bearer [redacted]\n[weather] ab\n"
	if got := regexp.MustCompile(`(?m)^..:..:.. `).ReplaceAllString(said.String(), ""); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}
