package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A protected server is the built-in one, for those who sign in.
type protectedServer struct {
	*authtest.Server
	up *Upstream

	mu   sync.Mutex
	sent []string // the tokens that came
}

// protect manages a protected server. opts.Store is made here.
func protect(t *testing.T, auth config.ServerAuth, opts SignInOptions) *protectedServer {
	t.Helper()
	s := newProtected(t, &authtest.Options{})
	s.manage(t, &config.Server{Name: "s", URL: s.URL, Auth: auth}, opts)
	return s
}

func newProtected(t *testing.T, opts *authtest.Options) *protectedServer {
	t.Helper()
	s := &protectedServer{}
	inner := builtin.New(nil)
	endpoint := &streamable.Server{Sessions: inner, Requests: inner.Requests()}
	opts.Resource = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.sent = append(s.sent, r.Header.Get("Authorization"))
		s.mu.Unlock()
		endpoint.ServeHTTP(w, r)
	})
	s.Server = authtest.New(t, opts)
	t.Cleanup(func() {
		_ = endpoint.Close()
		inner.Close()
	})
	return s
}

// manage has the server managed.
func (s *protectedServer) manage(t *testing.T, c *config.Server, opts SignInOptions) {
	t.Helper()
	store := oauth.NewMemory()
	opts.Store = func() *oauth.Store { return store }
	m := New(&Options{SignIn: &opts})
	t.Cleanup(func() { _ = m.Shutdown(context.Background()) })
	m.Apply([]*config.Server{c})
	s.up = m.Upstream(c.Name)
}

// last returns the token that came last.
func (s *protectedServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[len(s.sent)-1]
}

// visit is a user who goes to a page.
func visit(t *testing.T, page string) {
	t.Helper()
	resp, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the page answers %d", resp.StatusCode)
	}
}

func noPrompt(string, oauth.Prompt) bool { return false }

func TestAServerThatWantsASignInAnswersAtOnceAndIsUsedAfterIt(t *testing.T) {
	told := make(chan oauth.Prompt, 1)
	s := protect(t, config.ServerAuth{}, SignInOptions{
		Prompt:  func(_ string, p oauth.Prompt) bool { told <- p; return false },
		Command: func(c *config.Server) string { return "dragoman login " + c.Name },
	})
	awaits(t, s.up, SignIn)
	p := <-told
	if st := s.up.Status(); st.SignIn != p.URL || st.Public().SignIn != "" {
		t.Errorf("the status is %+v, want the page %s for the owner alone", st, p.URL)
	}
	resp, err := call(t.Context(), s.up.Service().Requests(), "echo", `{"text":"x"}`)
	if code := outcome(resp, err); code != protocol.CodeSignIn {
		t.Fatalf("got %d, want %d", code, protocol.CodeSignIn)
	}
	e := resp.RPCError()
	if where := string(dragoman.Member(e.Data, "url")); !strings.Contains(where, "/authorize") || !strings.Contains(e.Message, "dragoman login s") {
		t.Errorf("the error is %s", resp)
	}
	visit(t, p.URL)
	awaits(t, s.up, Ready)
	echo(t, s.up.Service().Requests())
}

// Where no browser can be opened it is a code, unless a browser is configured. That of a
// sign-in for everybody is for the owner: a caller could sign everybody in as somebody else.
func TestTheCodeOfASignInForEverybodyIsToldToNoCaller(t *testing.T) {
	for grant, byCode := range map[string]bool{"": true, "browser": false, "device-code": true} {
		told := make(chan oauth.Prompt, 1)
		s := protect(t, config.ServerAuth{Grant: grant}, SignInOptions{
			NoBrowser: true, Prompt: func(_ string, p oauth.Prompt) bool { told <- p; return false },
			Command: func(c *config.Server) string { return "dragoman login " + c.Name },
		})
		awaits(t, s.up, SignIn)
		p := <-told
		if (p.Code != "") != byCode {
			t.Errorf("with the grant %q the prompt is %+v", grant, p)
		}
		if st := s.up.Status(); st.SignInCode != p.Code || st.SignIn != p.URL || st.Public().SignInCode != "" {
			t.Errorf("with the grant %q the status is %+v", grant, st)
		}
		resp, err := call(t.Context(), s.up.Service().Requests(), "echo", `{"text":"x"}`)
		if code := outcome(resp, err); code != protocol.CodeSignIn {
			t.Fatalf("got %d, want %d", code, protocol.CodeSignIn)
		}
		text := resp.String()
		if byCode && (strings.Contains(text, p.Code) || strings.Contains(text, "/enter") || s.up.questionOf(resp, nil) != nil) ||
			!strings.Contains(text, "dragoman login s") || strings.Contains(text, errCode.Error()) != byCode {
			t.Errorf("with the grant %q the caller is told %s", grant, text)
		}
	}
}

// Nor is it to who comes while the server is not known to want one.
func TestACodeIsToldToNoCallerOfAServerThatStandsAlone(t *testing.T) {
	s := newProtected(t, &authtest.Options{})
	m := New(&Options{Unsupervised: true, SignIn: &SignInOptions{Store: sync.OnceValue(oauth.NewMemory), NoBrowser: true, Prompt: noPrompt}})
	t.Cleanup(func() { _ = m.Shutdown(context.Background()) })
	m.Apply([]*config.Server{{Name: "s", URL: s.URL}})
	for range 2 {
		resp, err := call(t.Context(), m.Upstream("s").Service().Requests(), "echo", `{"text":"x"}`)
		text := fmt.Sprint(resp, err)
		if outcome(resp, err) != protocol.CodeSignIn || strings.Contains(text, "/enter") || !strings.Contains(text, errCode.Error()) {
			t.Errorf("the caller is told %s", text)
		}
	}
}

// The code of a caller's own sign-in is told to that caller, whose client asks for it.
func TestTheCodeOfACallersOwnSignInIsToldToIt(t *testing.T) {
	s := protect(t, config.ServerAuth{SignIn: "caller"}, SignInOptions{NoBrowser: true, Prompt: noPrompt})
	ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: "alice"})
	resp, err := call(ctx, s.up.Service().Requests(), "echo", `{"text":"x"}`)
	if got := outcome(resp, err); got != protocol.CodeSignIn {
		t.Fatalf("got %d (%s), want %d", got, resp, protocol.CodeSignIn)
	}
	if err == nil {
		err = resp.RPCError()
	}
	e, _ := errors.AsType[*dragoman.Error](err)
	code, _ := dragoman.Text(dragoman.Member(e.Data, "code"))
	if q := s.up.questionOf(resp, err); code == "" || !strings.Contains(e.Message, code) || q == nil || !strings.Contains(q.Message, code) {
		t.Errorf("the error is %v %s, the question %+v", e, e.Data, q)
	}
	s.Approve(code)
	eventually(t, "alice is signed in", func() bool {
		resp, err = call(ctx, s.up.Service().Requests(), "echo", `{"text":"x"}`)
		return outcome(resp, err) == 0
	})
}

// A company's identity provider decides who may use what: a file has the ID token, which the
// provider exchanges for an assertion, which the server's own takes for a token.
func TestTheIdentityProviderOfACompanyLetsUsIn(t *testing.T) {
	dir, number := t.TempDir(), new(atomic.Int32)
	current := func() string { return fmt.Sprint("id-token-", number.Load()) }
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	provider := authtest.New(t, &authtest.Options{NoRegistration: true, Secret: "sekret-idp", IDToken: current})
	s := newProtected(t, &authtest.Options{NoRegistration: true, Provider: provider, Needs: "read"})
	write("id-token", current()+"\n")
	write("secret", "sekret-idp\n")
	file, report := config.Load(nil, write("dragoman.yaml", fmt.Sprintf(`
servers:
  example:
    url: %s
    auth:
      grant: jwt-bearer
      clientId: client
      clientSecret: secret
      assertion: id-token
      exchange: {tokenEndpoint: "%s/token", clientId: client, clientSecret: "${file:%s}"}
`, s.URL, provider.Issuer, filepath.Join(dir, "secret"))))
	c := file.Servers["example"]
	if c == nil {
		t.Fatal(report.Error())
	}
	s.manage(t, c, SignInOptions{Prompt: func(string, oauth.Prompt) bool { t.Error("somebody is asked"); return false }})
	echo(t, s.up.Service().Requests())
	if provider.Count("exchange") != 1 || s.Count("assertion") != 1 || s.Count("authorize") != 0 {
		t.Errorf("%d exchanges, %d assertions, %d windows", provider.Count("exchange"), s.Count("assertion"), s.Count("authorize"))
	}
	// The next ID token is in the file when the next one is needed.
	number.Add(1)
	write("id-token", current())
	s.Expire()
	echo(t, s.up.Service().Requests())
	if provider.Count("exchange") != 2 || s.Count("assertion") != 2 {
		t.Errorf("then %d exchanges, %d assertions", provider.Count("exchange"), s.Count("assertion"))
	}
	// Somebody who has left the company.
	number.Add(1)
	s.Expire()
	resp, err := call(t.Context(), s.up.Service().Requests(), "echo", `{"text":"x"}`)
	if text := fmt.Sprint(resp, err); outcome(resp, err) == 0 || !strings.Contains(text, "the identity provider does not exchange the token") || strings.Contains(text, "sekret") || strings.Contains(text, "id-token-1") {
		t.Errorf("an ID token that has ended: %s", text)
	}
}

func TestS23_EachCallerHasASignInOfItsOwn(t *testing.T) {
	s := protect(t, config.ServerAuth{SignIn: "caller"}, SignInOptions{Prompt: noPrompt})
	tokens := make(map[string]string)
	for _, name := range []string{"alice", "bob", "alice", "bob"} {
		ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: name})
		resp, err := call(ctx, s.up.Service().Requests(), "echo", `{"text":"x"}`)
		if tokens[name] == "" {
			if code := outcome(resp, err); code != protocol.CodeSignIn {
				t.Fatalf("%s: got %d (%s), want %d", name, code, resp, protocol.CodeSignIn)
			}
			var page string
			if err == nil {
				err = resp.RPCError()
			}
			if e, ok := errors.AsType[*dragoman.Error](err); ok {
				_ = json.Unmarshal(dragoman.Member(e.Data, "url"), &page)
			}
			visit(t, page)
			eventually(t, name+" is signed in", func() bool {
				resp, err = call(ctx, s.up.Service().Requests(), "echo", `{"text":"x"}`)
				return outcome(resp, err) == 0
			})
			tokens[name] = s.last()
		}
		if outcome(resp, err) != 0 || s.last() != tokens[name] {
			t.Errorf("%s: %v %v, with another token", name, resp, err)
		}
	}
	if tokens["alice"] == tokens["bob"] || s.Count("authorize") != 2 {
		t.Errorf("%d sign-ins", s.Count("authorize"))
	}
	resp, err := call(t.Context(), s.up.Service().Requests(), "echo", `{"text":"x"}`)
	if code := outcome(resp, err); code == 0 || s.last() != tokens["bob"] {
		t.Errorf("somebody who has not proven to be anybody: %d", code)
	}
}

func TestAModernClientIsAskedToSignIn(t *testing.T) {
	s := protect(t, config.ServerAuth{}, SignInOptions{Prompt: noPrompt})
	awaits(t, s.up, SignIn)
	ask := func(params string) *dragoman.Message {
		t.Helper()
		req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodCallTool, json.RawMessage(params))
		if err == nil {
			req, err = protocol.Envelope{Version: protocol.Latest.String(), Capabilities: json.RawMessage(`{"elicitation":{"url":{}}}`)}.Put(req)
		}
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.up.Service().Requests().Call(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	resp := ask(`{"name":"echo","arguments":{"text":"x"}}`)
	var asked struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]struct {
			Method string
			Params struct{ Mode, URL string }
		}
	}
	if err := resp.Decode(&asked); err != nil || asked.ResultType != protocol.ResultInputRequired || len(asked.InputRequests) != 1 {
		t.Fatalf("the answer is %s", resp)
	}
	for key, q := range asked.InputRequests {
		if q.Method != protocol.MethodElicit || q.Params.Mode != "url" {
			t.Fatalf("the question is %+v", q)
		}
		again := `{"name":"echo","arguments":{"text":"x"},"requestState":%q,"inputResponses":{%q:{"action":%q}}}`
		if resp = ask(fmt.Sprintf(again, asked.RequestState, key, "decline")); outcome(resp, nil) != protocol.CodeSignIn {
			t.Errorf("who declines gets %s", resp)
		}
		go func() {
			if r, err := http.Get(q.Params.URL); err == nil {
				_ = r.Body.Close()
			}
		}()
		if resp = ask(fmt.Sprintf(again, asked.RequestState, key, "accept")); outcome(resp, nil) != 0 || resp.Get("content") == nil {
			t.Errorf("who accepts gets %s", resp)
		}
	}
}

func TestALegacyClientIsAskedToSignIn(t *testing.T) {
	s := protect(t, config.ServerAuth{}, SignInOptions{Prompt: noPrompt})
	awaits(t, s.up, SignIn)
	visit(t, s.up.Status().SignIn)
	awaits(t, s.up, Ready)
	pages := make(chan string, 1)
	client := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		var params struct{ Mode, URL string }
		if err := req.Decode(&params); err != nil || req.Method() != protocol.MethodElicit || params.Mode != "url" {
			t.Errorf("the client is asked %s", req)
		}
		pages <- params.URL
		return req.Reply(map[string]string{"action": "accept"})
	}}
	_, conn := dragoman.Pipe(client, nil)
	defer conn.Close()
	peer, err := s.up.Service().Accept(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(id int64, method, params string) *dragoman.Message {
		t.Helper()
		req, err := dragoman.NewRequest(dragoman.IntID(id), method, json.RawMessage(params))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := peer.Call(t.Context(), req, client)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	ask(1, protocol.MethodInitialize, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"elicitation":{"url":{}}},"clientInfo":{"name":"c","version":"1"}}`, protocol.LatestLegacy))
	s.Revoke()
	done := make(chan *dragoman.Message)
	go func() { done <- ask(2, protocol.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`) }()
	visit(t, <-pages)
	if resp := <-done; outcome(resp, nil) != 0 {
		t.Errorf("the call gets %s", resp)
	}
	if s.Count("authorize") != 2 {
		t.Errorf("%d sign-ins", s.Count("authorize"))
	}
}
