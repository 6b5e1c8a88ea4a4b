//go:build npm || browser

package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// startFront starts a gateway whose users sign in at an authorization server that registers
// nobody. It returns both.
func startFront(t *testing.T, settings object) (gateway string, auth *authServer) {
	t.Helper()
	return startFrontOf(t, settings, object{})
}

// startFrontOf is startFront with more servers.
func startFrontOf(t *testing.T, settings, servers object) (gateway string, auth *authServer) {
	t.Helper()
	at := "127.0.0.1:" + freePort(t) // the authorization server is told it before the gateway is there
	gateway = "http://" + at
	settings["registration"], settings["refresh"] = false, "always"
	settings["clients"] = []object{{
		"client_id": "dragoman", "client_secret": "the secret of the gateway", "redirect_uris": []string{gateway + "/oauth/callback"},
		"grant_types": []string{"authorization_code", "refresh_token"},
	}}
	auth = startAuthServer(t, settings)
	server := builtin.New(nil)
	endpoint := &streamable.Server{Sessions: server, Requests: server.Requests()}
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		_ = server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = endpoint.Shutdown(ctx) // it ends with the test
		web.Close()
	})
	servers["a"] = object{"url": web.URL}
	file := gatewayFile(t, "dragoman.json", object{
		"auth": object{
			"url": gateway, "provider": object{"url": auth.issuer, "scopes": []string{"openid", "offline_access"}},
			"client": object{"id": "dragoman", "secret": "the secret of the gateway"},
		},
		"rules":   []string{"allow user:alice, user:bob"},
		"servers": servers,
	})
	serveUntil(t, gatewayCommand(t, file, "--listen", at), gatewayURL)
	return gateway, auth
}

// A signingIn is a client that waits for its user.
type signingIn struct {
	t     *testing.T
	lines *bufio.Scanner
	cmd   *exec.Cmd
}

// signsIn starts a client, and returns the page that it wants its user to go to.
func signsIn(t *testing.T, cmd *exec.Cmd) (*signingIn, string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	cmd.Stderr = t.Output()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it has not ended
	s := &signingIn{t, bufio.NewScanner(out), cmd}
	return s, decode[struct{ Page string }](t, s.line()).Page
}

func (s *signingIn) line() json.RawMessage {
	s.t.Helper()
	if !s.lines.Scan() {
		s.t.Fatalf("the client says nothing: %v, %v", s.lines.Err(), s.cmd.Wait())
	}
	return json.RawMessage(strings.Clone(s.lines.Text()))
}

// wantEcho reads what the client says at last.
func (s *signingIn) wantEcho() {
	s.t.Helper()
	got := decode[struct {
		Texts []string
		Pages int
	}](s.t, s.line())
	if err := s.cmd.Wait(); err != nil || got.Pages != 1 || !slices.Equal(got.Texts, []string{"hello", "hello"}) {
		s.t.Errorf("the client says %+v, %v", got, err)
	}
}

// typeScript is a client of the TypeScript SDK that signs in.
func typeScript(t *testing.T, version, server string) *exec.Cmd {
	return exec.Command(node22(t), filepath.Join("ts", "signin.mjs"), filepath.Dir(npmFolder(t)), version, server)
}

func TestNpmFrontSignsInClientsOfTheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	gateway, auth := startFront(t, object{})
	for _, version := range []string{"1", "2"} {
		t.Run("SDK "+version, func(t *testing.T) {
			client, page := signsIn(t, typeScript(t, version, gateway+"/servers/a/mcp"))
			b := authtest.NewBrowser(&http.Transport{DisableKeepAlives: true})
			end, err := b.Visit(page)
			if err != nil || !strings.Contains(end.Body, "You can close this page.") {
				t.Fatalf("the browser ends at %+v, %v", end, err)
			}
			client.wantEcho()
		})
	}
	if got := auth.tally(); got.Counts["registrations"] != 0 || got.Counts["authorizations"] != 2 || got.Counts["authorization_code"] != 2 {
		t.Errorf("the provider counts %v and %v", got.Counts, got.Failures)
	}
}

func TestNpmFrontSignsInClientsOfTheGoSDK(t *testing.T) {
	t.Parallel()
	gateway, auth := startFront(t, object{})
	const redirect = "http://127.0.0.1:45679/callback"
	handler, err := sdkauth.NewAuthorizationCodeHandler(&sdkauth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &sdkauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "Go SDK", RedirectURIs: []string{redirect}}},
		RequestRefreshToken:             true,
		AuthorizationCodeFetcher: func(_ context.Context, args *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
			b := authtest.NewBrowser(&http.Transport{DisableKeepAlives: true})
			b.Stop = func(u *url.URL) bool { return strings.HasPrefix(u.String(), redirect) }
			page, err := b.Visit(args.URL)
			if err != nil {
				return nil, err
			}
			q := page.URL.Query()
			return &sdkauth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := connections(t)
	transport := &mcp.StreamableClientTransport{Endpoint: gateway + "/servers/a/mcp", OAuthHandler: handler, HTTPClient: web}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "signs-in", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: object{"text": "hello"}})
	if err != nil || len(result.Content) != 1 || result.Content[0].(*mcp.TextContent).Text != "hello" {
		t.Errorf("echo: %+v, %v", result, err)
	}
	if got := auth.tally(); got.Counts["registrations"] != 0 || got.Counts["authorization_code"] != 1 {
		t.Errorf("the provider counts %v and %v", got.Counts, got.Failures)
	}
}

// The server is one of the TypeScript SDK, with an authorization server of its own, which registers
// the gateway with the URL that the user's browser comes back to.
func TestNpmFrontSignsCallersInAtAServerEachForItself(t *testing.T) {
	t.Parallel()
	own := startAuthServer(t, object{})
	server := startProtected(t, own, object{})
	gateway, _ := startFrontOf(t, object{}, object{"s": object{"url": server.url, "auth": object{"signIn": "caller"}}})
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		b := authtest.NewBrowser(&http.Transport{DisableKeepAlives: true})
		var visits sync.WaitGroup
		defer visits.Wait()
		visit := func(page string) {
			visits.Go(func() { // ends with the last page
				if end, err := b.Visit(page); err != nil || end.Status != http.StatusOK {
					t.Errorf("the browser ends at %+v, %v", end, err)
				}
			})
		}
		source, err := oauth.New(&oauth.Config{Server: gateway + "/mcp", Wait: true, Prompt: func(p oauth.Prompt) bool { visit(p.URL); return true }})
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		asked := make(chan string, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		c, err := client.Connect(ctx, &client.Server{URL: gateway + "/mcp", Wrap: source.Transport}, &client.Options{Era: &era, ElicitationURL: func(_ context.Context, params json.RawMessage) (any, error) {
			page := decode[struct{ URL string }](t, params).URL
			asked <- page
			visit(page)
			return object{"action": "accept"}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		result, err := c.CallTool(ctx, "s_whoami", nil, nil)
		if err != nil || result.IsError || !strings.Contains(result.Text(), `"sub"`) {
			t.Fatalf("%s era: %+v, %v", era, result, err)
		}
		if era == protocol.Legacy {
			if page := <-asked; !strings.HasPrefix(page, gateway+"/oauth/servers/s/sign-in?id=") {
				t.Errorf("the user is sent to %s", page)
			}
		}
	}
	// Both clients are of one user, who was asked once.
	if got := own.tally(); got.Counts["registrations"] != 1 || got.Counts["authorization_code"] != 1 {
		t.Errorf("the server's authorization server counts %v and %v", got.Counts, got.Failures)
	}
}
