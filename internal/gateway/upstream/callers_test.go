package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// mirrors manages a server in memory that says which headers it is sent.
func mirrors(t *testing.T, c *config.Server) *Upstream {
	t.Helper()
	m := New(nil)
	m.target = func(s *target.Spec) (*target.Target, error) {
		header := fmt.Sprint(s.Header)
		return &target.Target{Name: s.Name, Dialer: dragoman.Local(dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
			return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodDiscover {
					return req.Reply(json.RawMessage(fmt.Sprintf(
						`{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}`, protocol.Latest)))
				}
				return req.Reply(map[string]any{"resultType": "complete", "header": header, "tools": []any{}, "ttlMs": 60000, "cacheScope": "public"})
			}}, nil
		}))}, nil
	}
	t.Cleanup(func() { _ = m.Shutdown(context.Background()) })
	c.Name, c.URL = "s", "http://127.0.0.1:1/mcp"
	m.Apply([]*config.Server{c})
	return m.Upstream("s")
}

func TestS28_HeadersArePassedOnOnlyAsConfiguredAndToNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := mirrors(t, &config.Server{
			Headers: map[string]string{"X-Ours": "configured"}, PassHeaders: map[string]string{"x-user-token": "Authorization"},
		})
		var busy sync.WaitGroup
		for n := range 40 {
			busy.Go(func() {
				who := fmt.Sprintf("caller-%d", n%4)
				token := "token-of-" + who
				h := http.Header{"X-User-Token": {token}, "Cookie": {"CANARY"}, "Authorization": {"Bearer CANARY"}}
				ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: who, Header: h})
				for _, method := range []string{protocol.MethodCallTool, protocol.MethodListTools} {
					resp, err := ask(ctx, u.Service().Requests(), method, `{"name":"x","arguments":{}}`)
					if err != nil {
						t.Errorf("%s: %v", who, err)
						return
					}
					got := resp.String()
					if !strings.Contains(got, token) || !strings.Contains(got, "configured") || strings.Contains(got, "CANARY") || strings.Count(got, "token-of-") != 1 {
						t.Errorf("%s: the server was sent %s", who, got)
					}
				}
			})
		}
		busy.Wait()
		s := u.Status()
		if s.Instances != 4 || s.State != Ready {
			t.Errorf("status: %+v, want four instances", s)
		}
		text, _ := json.Marshal(s)
		if shown := string(text) + fmt.Sprint(u.Logs()); strings.Contains(shown, "token-of-") || strings.Contains(shown, "configured") {
			t.Errorf("a value is shown: %s", shown)
		}
		resp, err := ask(dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "stranger"}), u.Service().Requests(), protocol.MethodListTools, `{}`)
		if err != nil || strings.Contains(resp.String(), "token-of-") {
			t.Errorf("a caller without a value: %v %v", resp, err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := u.Status(); s.Instances != 0 {
			t.Errorf("status: %+v, want no instance that nobody uses", s)
		}
	})
}

func TestSetsOfPassedValuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := mirrors(t, &config.Server{PassHeaders: map[string]string{"X-Token": "X-Token"}, Sessions: 64})
		for n := range 64 + 20 {
			ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "a", Header: http.Header{"X-Token": {fmt.Sprint("value-", n)}}})
			if resp, err := ask(ctx, u.Service().Requests(), protocol.MethodListTools, `{}`); codeOf(resp, err) != 0 || err != nil {
				t.Fatalf("caller %d: %v %v", n, resp, err)
			}
			time.Sleep(time.Millisecond)
		}
		if s := u.Status(); s.Instances != 64 {
			t.Errorf("there are %d instances, want 64", s.Instances)
		}
	})
}

func TestVariablesArePassedOnToAProcessOfTheCallersOwn(t *testing.T) {
	m := manage(t, nil, nil)
	conf := child(t, fault.Legacy, "")
	conf.Name, conf.PassEnv, conf.Isolation = "s", map[string]string{"X-Key": "USER_KEY"}, "client"
	m.Apply([]*config.Server{conf})
	u := m.Upstream("s")
	var busy sync.WaitGroup
	for n := range 2 {
		busy.Go(func() {
			value := fmt.Sprint("value-of-", n)
			ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: fmt.Sprint(n), Header: http.Header{"X-Key": {value}, "X-Other": {"CANARY"}}})
			for range 3 {
				resp, err := call(ctx, u.Service().Requests(), "whoami", `{}`)
				if err != nil || strings.Count(resp.String(), "value-of-") != 1 || !strings.Contains(resp.String(), "USER_KEY="+value) || strings.Contains(resp.String(), "CANARY") {
					t.Errorf("caller %d: %v %v", n, resp, err)
				}
			}
		})
	}
	busy.Wait()
	if s := u.Status(); s.Instances != 2 {
		t.Errorf("status: %+v, want two instances", s)
	}
}
