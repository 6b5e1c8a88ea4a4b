//go:build npm

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// environment is that of processes that share the sign-ins of a test.
func (s *signIn) environment() []string {
	return append(s.browser.env(), oauth.DirVariable+"="+s.dir, "GORACE="+quickExit)
}

// connect starts `dragoman connect` for the protected server, as a host does, and calls
// a tool through it.
func (s *signIn) connect(tool string, flags ...string) (text string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 6*patience) // many start at once
	defer cancel()
	var mu sync.Mutex
	var said []string
	c, err := client.Connect(ctx, &client.Server{
		Command: slices.Concat([]string{dragomanProgram.in(s.t), "connect"}, flags, []string{s.server.url}),
		Env:     s.environment(),
		OnStderr: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, line)
		},
	}, &client.Options{Revision: protocol.V20251125, ConnectTimeout: 6 * patience})
	if err == nil {
		var result *client.ToolResult
		result, err = c.CallTool(ctx, tool, nil, nil)
		if err == nil {
			text = decode[struct{ Text string }](s.t, result.Content[0]).Text
		}
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		mu.Lock()
		defer mu.Unlock()
		err = fmt.Errorf("%w; dragoman connect wrote\n%s", err, strings.Join(said, "\n"))
	}
	return text, err
}

// connectAtOnce starts n processes at once, all of which have to get an answer.
func (s *signIn) connectAtOnce(n int) {
	s.t.Helper()
	var hosts sync.WaitGroup
	for range n {
		hosts.Go(func() {
			if text, err := s.connect("whoami"); err != nil || !strings.Contains(text, `"alice"`) {
				s.t.Errorf("%s, %v", text, err)
			}
		})
	}
	hosts.Wait()
}

func (s *signIn) wantPages(n int) {
	s.t.Helper()
	if pages := s.browser.pages(); len(pages) != n {
		s.t.Errorf("%d pages were opened, want %d", len(pages), n)
	}
}

func TestNpmConnectTwentyProcessesRefreshOnce(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, object{"accessTTL": 1}, nil)
	s.connectAtOnce(1)
	s.expire(s.source(nil))
	s.auth.set(object{"accessTTL": 600})
	before := s.auth.tally().Counts["refresh_token"]
	s.connectAtOnce(20)
	s.wantCounts(map[string]int{"registrations": 1, "authorizations": 1, "refresh_token": before + 1, "reuse": 0})
	s.wantPages(1)
}

func TestNpmConnectTwentyProcessesSignInOnce(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, nil, nil)
	s.connectAtOnce(20)
	s.wantCounts(map[string]int{"registrations": 1, "authorizations": 1, "authorization_code": 1, "refresh_token": 0})
	s.wantPages(1)
}

// The browser comes back to a port that its own process does not hold any more.
func TestNpmConnectSignsInThoughTheProcessThatAskedIsKilled(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, nil, nil)
	s.browser = newHeadless(t, true)
	first := exec.Command(dragomanProgram.in(t), "connect", s.server.url)
	first.Env = append(os.Environ(), s.environment()...)
	stdin, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`+"\n")
	if err != nil {
		t.Error(err)
	}
	s.until("a page is opened", func() bool { return len(s.browser.pages()) > 0 })
	page, err := url.Parse(s.browser.pages()[0])
	if err != nil {
		t.Fatal(err)
	}
	back, err := url.Parse(page.Query().Get("redirect_uri"))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = first.Wait() // it was killed
	var hosts sync.WaitGroup
	hosts.Go(func() { s.connectAtOnce(3) })
	s.until("another process listens", func() bool {
		conn, err := net.Dial("tcp", back.Host)
		return err == nil && conn.Close() == nil
	})
	s.browser.release()
	hosts.Wait()
	s.wantCounts(map[string]int{"registrations": 1, "authorizations": 1, "authorization_code": 1})
	s.wantPages(1)
}

// until waits for something that another process does.
func (s *signIn) until(what string, is func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("it takes too long until %s", what)
		}
	}
}

func TestNpmConnectStepsUp(t *testing.T) {
	t.Parallel()
	s := newSignIn(t, nil, object{"sdk": 2})
	s.connectAtOnce(1)
	if text, err := s.connect("write"); err != nil || text != "written" {
		t.Errorf("write: %q, %v", text, err)
	}
	s.wantPages(2)
	s.connectAtOnce(1)
	s.wantPages(2)
}
