package diagnose_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// unspoken is an error of a client.
type unspoken struct{ protocol.Revision }

func (u unspoken) Error() string               { return "the server speaks another" }
func (u unspoken) Unspoken() protocol.Revision { return u.Revision }

func TestFailuresAreExplained(t *testing.T) {
	client, err := httpclient.NewClient("test", &httpclient.ClientOptions{URL: "https://mcp.example.com/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	at, _ := url.Parse("https://mcp.example.com/mcp")
	exit := &stdio.ExitError{Command: "npx", Status: 1, Stderr: "no KEY", Withheld: []string{"KEY", "TOKEN"}}
	scope := []string{`Bearer error="insufficient_scope", scope="write"`}
	terminal := diagnose.Subject{Command: "npx server", Login: "LOGIN", Probe: "PROBE", Timeout: "--timeout", CommandLine: true}
	for name, test := range map[string]struct {
		err            error
		reason, advice string // parts of them
		terminal       string // part of the advice at a command line
	}{
		"no program":   {&stdio.StartError{Command: "npx", Err: exec.ErrNotFound, Advice: "install it"}, `cannot start "npx": executable file not found`, "install it", "install it"},
		"a URL":        {&stdio.StartError{Command: "host:1/mcp", Err: exec.ErrNotFound, Advice: "install it"}, "cannot start", "begin it with http://", "begin it with http://"},
		"no advice":    {&stdio.StartError{Command: "x", Err: errors.New("odd")}, "odd", "check the command", "check the command"},
		"exit":         {exit, "exited with status 1: stderr: no KEY", "run its command yourself", "run it yourself to see what it does: npx server; not passed on to it: KEY, TOKEN; to pass on: -e KEY -e TOKEN"},
		"exit 0":       {&stdio.ExitError{Command: "true"}, "status 0", "runs until its standard input ends", "runs until its standard input ends"},
		"quiet exit":   {&stdio.ExitError{Command: "x", Status: 2}, "status 2", "wrote nothing to standard error", "wrote nothing to standard error"},
		"plain HTTP":   {client.Explained(http.ErrSchemeMismatch, at), "speaks plain HTTP, but the URL says https://", "http://", "http://"},
		"401":          {&protocol.StatusError{Status: 401}, "401", "requires authentication", "if it has a sign-in: LOGIN"},
		"403":          {&protocol.StatusError{Status: 403}, "403", "ask its owner for access", "ask its owner for access"},
		"403, a scope": {&protocol.StatusError{Status: 403, Challenges: scope}, "403", "ask its owner for access", "a token that has the scope; if it has a sign-in: LOGIN"},
		"404":          {&protocol.StatusError{Status: 404}, "404", "/mcp or /sse", "/mcp or /sse"},
		"407":          {&protocol.StatusError{Status: 407}, "407", "the proxy requires", "the proxy requires"},
		"500":          {&protocol.StatusError{Status: 500}, "500", "try again later", "try again later"},
		"501":          {&protocol.StatusError{Status: 501}, "501", "no MCP server", "PROBE"},
		"400":          {&protocol.StatusError{Status: 400}, "400", "check the URL", "check the URL"},
		"revision":     {unspoken{protocol.Latest}, "speaks another", "ask for a revision", "--era modern"},
		"overload":     {dragoman.ErrOverloaded, "", "fewer", "fewer"},
		"large":        {dragoman.ErrTooLarge, "", "allow larger messages, or", "--max-message"},
		"late":         {fmt.Errorf("slow: %w", context.DeadlineExceeded), "slow", "allow more time, or have the server report progress", "allow more time by --timeout, or see what the server does: PROBE"},
		"wrapped":      {fmt.Errorf("x: %w", &protocol.StatusError{Status: 404}), "404", "/mcp or /sse", "/mcp or /sse"},
	} {
		reason, advice, known := diagnose.Explain(test.err)
		if !known || !strings.Contains(reason, test.reason) || !strings.Contains(advice, test.advice) || strings.Contains(advice, "--") || strings.Contains(advice, "TOKEN") {
			t.Errorf("%s: %q, %q, %v", name, reason, advice, known)
		}
		again, advice, _ := terminal.Explain(test.err)
		if again != reason || !strings.Contains(advice, test.terminal) {
			t.Errorf("%s, at a command line: %q, %q", name, again, advice)
		}
	}
	if reason, advice, known := diagnose.Explain(errors.New("odd")); known || reason != "odd" || advice != "" {
		t.Errorf("an unknown error: %q, %q, %v", reason, advice, known)
	}
	for _, quiet := range []error{&protocol.StatusError{Status: 302, Text: "it redirects"}, &protocol.StatusError{Status: 503, RetryAfter: 1}} {
		if _, advice, known := diagnose.Explain(quiet); advice != "" || !known {
			t.Errorf("%v has its advice in its text, and gets %q", quiet, advice)
		}
	}
	if got := (diagnose.Subject{}).Withheld(exit); got != "; not passed on to it: KEY, TOKEN; to pass on: inherit: [KEY, TOKEN]" {
		t.Errorf("in a configuration: %q", got)
	}
}
