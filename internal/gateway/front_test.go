package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/authtest"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/peertest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A fronted is a gateway in front of an identity provider.
type fronted struct {
	*running
	provider *authtest.Server
	listener net.Listener
	web      *httptest.Server
	text     string // of the configuration
}

// inFront starts a gateway whose users sign in at a provider, with more in its configuration.
func inFront(t *testing.T, more string) *fronted {
	t.Helper()
	peertest.NoLeak(t)
	f := &fronted{running: &running{t: t, path: filepath.Join(t.TempDir(), "dragoman.yaml")}}
	f.provider = authtest.New(t, &authtest.Options{Identity: true})
	f.listener = listenAt(t, "127.0.0.1:0")
	f.url = "http://" + f.listener.Addr().String()
	f.text = fmt.Sprintf("auth:\n  url: %s\n  provider: {url: %q, scopes: [openid, offline_access]}\n  client: {id: client, secret: secret}\nservers:\n  a: {url: %q}\n%s",
		f.url, f.provider.Issuer, upstream(t, protocol.LatestLegacy), more)
	f.write(f.text)
	f.up(&gateway.Options{Name: "test", Version: "1"})
	return f
}

func listenAt(t *testing.T, at string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// up starts the gateway on its listener.
func (f *fronted) up(opts *gateway.Options) {
	f.t.Helper()
	opts.Load = f.load
	file, report := f.load()
	if report.Err() != nil {
		f.t.Fatal(report)
	}
	made, err := gateway.New(opts, file)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Gateway = made
	f.web = httptest.NewUnstartedServer(made.Handler(nil))
	_ = f.web.Listener.Close() // nobody has come
	f.web.Listener = f.listener
	f.web.Start()
	f.t.Cleanup(f.down)
}

// down stops the gateway.
func (f *fronted) down() {
	f.t.Helper()
	if f.Gateway == nil {
		return
	}
	if err := f.Gateway.Shutdown(within(f.t)); err != nil {
		f.t.Error(err)
	}
	f.web.Close()
	f.Gateway = nil
}

// A person has a program that signs in, and a browser.
type person struct {
	t       *testing.T
	source  *oauth.Source
	browser *authtest.Browser
	windows atomic.Int32
}

func (f *fronted) person(path string) *person {
	f.t.Helper()
	p := &person{t: f.t, browser: authtest.NewBrowser(nil)}
	source, err := oauth.New(&oauth.Config{Server: f.url + path, Name: "Guest", Wait: true, Prompt: func(at oauth.Prompt) bool {
		p.windows.Add(1)
		go func() { // ends with the page that the client shows
			if page, err := p.browser.Visit(at.URL); err != nil || page.Status != http.StatusOK {
				f.t.Logf("the browser: %v, %+v", err, page)
			}
		}()
		return true
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	p.source = source
	f.t.Cleanup(func() { _ = source.Close() })
	return p
}

// join connects the person's program.
func (p *person) join(f *fronted, path string, era protocol.Era) *client.Client {
	f.t.Helper()
	c, err := client.Connect(within(f.t), &client.Server{URL: f.url + path, Transport: "http-only", Wrap: p.source.Transport}, &client.Options{Name: "guest", Version: "1", Era: &era})
	if err != nil {
		f.t.Fatalf("%s, %s era: %v", path, era, err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestUsersSignInByAProviderThatKnowsNoClients(t *testing.T) {
	f := inFront(t, "")
	f.ready()
	for _, era := range eras {
		p := f.person("/servers/a/mcp")
		c := p.join(f, "/servers/a/mcp", era)
		echo(t, c, "echo")
		if n := p.windows.Load(); n != 1 {
			t.Errorf("%s era: %d windows were opened, want 1", era, n)
		}
	}
	if f.provider.Count("authorize") != 2 || f.provider.Count("register") != 0 {
		t.Errorf("the provider was asked to sign in %d times, and to register %d times", f.provider.Count("authorize"), f.provider.Count("register"))
	}
	_ = context.Background
	_ = io.EOF
	_ = strings.TrimSpace
}
