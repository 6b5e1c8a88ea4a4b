package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/authtest"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/everything"
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
	s := &protectedServer{}
	inner := everything.New(nil)
	door := &streamable.Server{Sessions: inner, Requests: inner.Requests()}
	s.Server = authtest.New(t, &authtest.Options{Resource: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.sent = append(s.sent, r.Header.Get("Authorization"))
		s.mu.Unlock()
		door.ServeHTTP(w, r)
	})})
	store := oauth.NewMemory()
	opts.Store = func() *oauth.Store { return store }
	m := New(&Options{SignIn: &opts})
	t.Cleanup(func() {
		_ = m.Shutdown(context.Background())
		_ = door.Close()
		inner.Close()
	})
	m.Apply([]*config.Server{{Name: "s", URL: s.URL, Auth: auth}})
	s.up = m.Upstream("s")
	return s
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
	resp, err := call(t.Context(), s.up.Requests(), "echo", `{"text":"x"}`)
	if code := outcome(resp, err); code != protocol.CodeSignIn {
		t.Fatalf("got %d, want %d", code, protocol.CodeSignIn)
	}
	e := resp.RPCError()
	if where := string(dragoman.Member(e.Data, "url")); !strings.Contains(where, "/authorize") || !strings.Contains(e.Message, "dragoman login s") {
		t.Errorf("the error is %s", resp)
	}
	visit(t, p.URL)
	awaits(t, s.up, Ready)
	echo(t, s.up.Requests())
}

func TestS23_EachCallerHasASignInOfItsOwn(t *testing.T) {
	s := protect(t, config.ServerAuth{SignIn: "caller"}, SignInOptions{Prompt: noPrompt})
	tokens := make(map[string]string)
	for _, name := range []string{"alice", "bob", "alice", "bob"} {
		ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: name})
		resp, err := call(ctx, s.up.Requests(), "echo", `{"text":"x"}`)
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
				resp, err = call(ctx, s.up.Requests(), "echo", `{"text":"x"}`)
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
	resp, err := call(t.Context(), s.up.Requests(), "echo", `{"text":"x"}`)
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
		resp, err := s.up.Requests().Call(t.Context(), req, nil)
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
	peer, err := s.up.Accept(t.Context(), conn)
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
