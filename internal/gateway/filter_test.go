package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

type object = map[string]any

// A fake is a server of the modern era behind a filter. It is a member of an aggregate.
type fake struct {
	name   string
	conf   config.Server
	tools  []string
	silent bool // it does not say what it has

	mu    sync.Mutex
	asked []*dragoman.Message
}

// A recorder is a server that has the catalog of its lists.
type recorder struct {
	dragoman.Peer
	*catalog.Catalog
}

// withLists returns a server, and its lists as a filter asks for them.
func withLists(p dragoman.Peer) (dragoman.Peer, func() lister) {
	r := &recorder{p, catalog.New(&catalog.Options{Announce: func(string) {}})}
	return r, func() lister { return r }
}

// List implements lister: the server itself is asked.
func (r *recorder) List(context.Context, *dragoman.Message) (*catalog.Offer, error) { return nil, nil }

// Call implements dragoman.Peer.
func (r *recorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	changes := r.Changes()
	resp, err := r.Peer.Call(ctx, req, from)
	r.Pass(catalog.View{Caller: dragoman.CallerOf(ctx), Session: !protocol.IsModern(req)}, changes, req, resp)
	return resp, err
}

func (s *fake) Name() string                 { return s.name }
func (s *fake) Prefix() *string              { return s.conf.Tools.Prefix }
func (s *fake) OnChange(func(string)) func() { return func() {} }
func (s *fake) Requests() dragoman.Peer {
	peer, lists := withLists(s)
	v := &views{server: s.name, config: func() *config.Server { return &s.conf }, lists: lists, rules: new(atomic.Pointer[rules.Set])}
	return event.Observe(&filter{Peer: peer, views: v, changes: new(subscription.Hub)}, new(event.Link), nil)
}

func (s *fake) Notify(context.Context, *dragoman.Message) error { return nil }

func (s *fake) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	s.mu.Lock()
	s.asked = append(s.asked, req)
	s.mu.Unlock()
	switch req.Method() {
	case protocol.MethodListTools:
		if s.silent {
			return req.Fail(&dragoman.Error{Code: protocol.CodeUnavailable, Message: "away"}), nil
		}
		list := []object{}
		for _, name := range s.tools {
			list = append(list, object{"name": name, "description": "of " + s.name})
		}
		return req.Reply(object{"tools": list})
	case protocol.MethodCallTool:
		if !slices.Contains(s.tools, req.Name()) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "the server has no such tool"}), nil
		}
		return req.Reply(object{"content": []object{{"type": "text", "text": s.name + "/" + req.Name()}}})
	case protocol.MethodListen:
		for _, uri := range []string{"x://a", "x://secret", "x://b"} {
			note, err := dragoman.NewNotification(protocol.NoteResourceUpdated, object{"uri": uri})
			if err != nil {
				return nil, err
			}
			_ = from.Notify(ctx, note)
		}
	}
	return req.Reply(object{})
}

// last returns what the server was asked last.
func (s *fake) last() *dragoman.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

// ask makes a request of the modern era. params is JSON text.
func ask(t *testing.T, p dragoman.Peer, method, params string, from dragoman.Peer) *dragoman.Message {
	t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(1), method, json.RawMessage(params))
	if err == nil {
		req, err = protocol.Envelope{Version: protocol.Latest.String()}.Put(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Call(t.Context(), req, from)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return resp
}

// listed returns the names of the tools.
func listed(t *testing.T, p dragoman.Peer) (names []string) {
	t.Helper()
	var result struct{ Tools []struct{ Name string } }
	resp := ask(t, p, protocol.MethodListTools, `{}`, nil)
	if err := resp.Decode(&result); err != nil {
		t.Fatal(err)
	}
	for _, tool := range result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// meaning returns what a call of a tool reaches, or the error.
func meaning(t *testing.T, p dragoman.Peer, name string) (string, *dragoman.Error) {
	t.Helper()
	resp := ask(t, p, protocol.MethodCallTool, fmt.Sprintf(`{"name":%q}`, name), nil)
	if resp.IsError() {
		return "", resp.RPCError()
	}
	var result struct{ Content []struct{ Text string } }
	if err := resp.Decode(&result); err != nil {
		t.Fatal(err)
	}
	return result.Content[0].Text, nil
}

func unionOf(t *testing.T, plain bool, members ...*fake) *aggregate.Aggregate {
	t.Helper()
	a := aggregate.New(&aggregate.Options{Plain: plain, PerMember: 20 * time.Second})
	t.Cleanup(func() { _ = a.Close() })
	var list []aggregate.Member
	for _, m := range members {
		list = append(list, m)
	}
	a.Set(list)
	return a
}

// The name that the configuration gives a tool is that tool's alone, at the server's own
// endpoints and in a union, also while its list is not known.
func TestARenamedToolHasItsNameAlone(t *testing.T) {
	prefix := "my."
	s := &fake{name: "a", tools: []string{"put", "write", "x.y", "x_y", "drop"}, conf: config.Server{
		Tools: config.Tools{Prefix: &prefix, Rename: map[string]string{"write": "put"}, Exclude: []string{"drop"}},
	}}
	if got := listed(t, s.Requests()); fmt.Sprint(got) != "[put x.y x_y]" {
		t.Errorf("the tools are %q", got)
	}
	if got := listed(t, unionOf(t, false, s)); len(got) != 3 || got[0] != "my_put" || got[2] != "my_x_y" {
		t.Errorf("in a union the tools are %q", got)
	}
	for _, s.silent = range []bool{false, true} {
		for before, p := range map[string]dragoman.Peer{"": s.Requests(), "my_": unionOf(t, false, s)} {
			for name, want := range map[string]string{"put": "a/write", "x_y": "a/x_y", "write": "", "drop": ""} {
				got, e := meaning(t, p, before+name)
				if got != want || want == "" && e.Code != protocol.CodeInvalidParams {
					t.Errorf("silent %t: %s%s is %q (%v), want %q", s.silent, before, name, got, e, want)
				}
			}
		}
	}
}

// For any group with any filters, and any part of it that is known, a name means what it
// means when all are known, or nothing.
func TestPain22_AFilteredNameMeansTheSameWhoeverIsKnown(t *testing.T) {
	for seed := range uint64(48) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		some := func(pool []string, n int) []string {
			pool = slices.Clone(pool)
			rnd.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
			return pool[:n]
		}
		var group []*fake
		for _, name := range some([]string{"a", "b", "a_b", "a.b"}, 1+rnd.IntN(3)) {
			s := &fake{name: name, tools: some([]string{"x", "y", "b_x", "b.x", "x.y", "x_y", "c", "put"}, rnd.IntN(7))}
			if rnd.IntN(2) == 0 {
				s.conf.Tools.Prefix = &some([]string{"", "a_", "a.", "a_b_"}, 1)[0]
			}
			s.conf.Tools.Rename = map[string]string{"x": some([]string{"put", "put.", "x_y", "y"}, 1)[0], "c": some([]string{"put_", "b_x", "z"}, 1)[0]}
			if rnd.IntN(3) == 0 {
				s.conf.Tools.Exclude = []string{"y"}
			}
			group = append(group, s)
		}
		with := func(known int) *aggregate.Aggregate {
			var members []*fake
			for i, s := range group {
				members = append(members, &fake{name: s.name, conf: s.conf, tools: s.tools, silent: known&(1<<i) == 0})
			}
			return unionOf(t, seed%3 == 0, members...)
		}
		all := with(-1)
		names := append([]string{"x", "y", "put", "x_y", "a_x", "a_y", "a_put", "a_put_", "a_b_x", "a_b_put", "b_y"}, listed(t, all)...)
		for known := range 1 << len(group) {
			a := with(known)
			there := listed(t, a)
			for _, name := range names {
				want, _ := meaning(t, all, name)
				got, e := meaning(t, a, name)
				switch where := fmt.Sprintf("seed %d, known %b: %s", seed, known, name); {
				case e == nil && got != want:
					t.Errorf("%s is %q, and %q when all are known", where, got, want)
				case e != nil && slices.Contains(there, name):
					t.Errorf("%s is listed, and refused: %v", where, e)
				}
			}
		}
	}
}

func TestOnlyTheListsAreAnnouncedThatAConfigurationChanges(t *testing.T) {
	prefix := "x"
	m := upstream.New(nil)
	defer m.Shutdown(t.Context())
	conf := config.Server{Name: "a", Command: "x", Disabled: true}
	m.Apply([]*config.Server{&conf})
	c := newChain(m.Upstream("a").Service(), new(atomic.Pointer[rules.Set]), nil, nil)
	var told []string
	stop := c.OnChange(func(note string) { told = append(told, note) })
	for _, step := range []struct {
		change func(*config.Server)
		want   string
	}{
		{func(*config.Server) {}, "[]"},
		{func(s *config.Server) { s.Tools.Exclude = []string{"t"} }, "[" + protocol.NoteToolsChanged + "]"},
		{func(s *config.Server) { s.Prompts.Include = []string{"p"} }, "[" + protocol.NotePromptsChanged + "]"},
		{func(s *config.Server) { s.Resources.Exclude = []string{"r"} }, "[" + protocol.NoteResourcesChanged + "]"},
		{func(s *config.Server) { s.Tools.Prefix, s.Tools.Timeout = &prefix, map[string]time.Duration{"t": 1} }, "[]"},
		{func(s *config.Server) { s.Prompts, s.Resources = config.Prompts{}, config.Resources{} }, "[" + protocol.NotePromptsChanged + " " + protocol.NoteResourcesChanged + "]"},
		{func(s *config.Server) { stop(); s.Tools.Exclude = nil }, "[]"},
	} {
		next := conf
		step.change(&next)
		conf, told = next, nil
		m.Apply([]*config.Server{&next})
		if c.announce(false); fmt.Sprint(told) != step.want {
			t.Errorf("told %v, want %s", told, step.want)
		}
	}
}

func TestWhatIsNotOfferedIsNotAskedFor(t *testing.T) {
	s := &fake{name: "a", conf: config.Server{
		Prompts: config.Prompts{Exclude: []string{"secret*"}}, Resources: config.Resources{Include: []string{"x://*"}, Exclude: []string{"x://secret*"}},
	}}
	p := s.Requests()
	ask(t, p, protocol.MethodListTools, `{}`, nil)
	for _, c := range []struct{ method, params string }{
		{protocol.MethodGetPrompt, `{"name":"secret"}`},
		{protocol.MethodReadResource, `{"uri":"x://secret/1"}`},
		{protocol.MethodReadResource, `{"uri":"y://a"}`},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"secret"}}`},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"secret","name":"open"}}`},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"open","Name":"secret"}}`},
		{protocol.MethodComplete, `{"ref":{"type":"ref/resource","uri":"x://secret/{id}"}}`},
	} {
		if resp := ask(t, p, c.method, c.params, nil); !resp.IsError() || resp.RPCError().Code != protocol.CodeInvalidParams {
			t.Errorf("%s %s: got %s", c.method, c.params, resp)
		}
		if s.last().Method() != protocol.MethodListTools {
			t.Fatalf("the server was asked %s", s.last())
		}
	}
	for _, c := range []struct{ method, params string }{
		{protocol.MethodGetPrompt, `{"name":"open"}`}, {protocol.MethodReadResource, `{"uri":"x://a"}`},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"open"}}`}, {protocol.MethodComplete, `{"ref":{"type":"ref/resource","uri":"x://{id}"}}`},
	} {
		if resp := ask(t, p, c.method, c.params, nil); resp.IsError() || s.last().Method() != c.method {
			t.Errorf("%s %s: got %s", c.method, c.params, resp)
		}
	}
}

func TestSubscriptionsAreToWhatIsOffered(t *testing.T) {
	s := &fake{name: "a", conf: config.Server{Resources: config.Resources{Exclude: []string{"x://secret"}}}}
	var told []string
	hear := dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
		told = append(told, note.URI())
		return nil
	}}
	for params, want := range map[string]string{
		`{"notifications":{"resourceSubscriptions":["x://a", "x://secret" ,"x://b"],"x-new":{"a" : 1}}}`:        `{"resourceSubscriptions":["x://a","x://b"],"x-new":{"a" : 1}}`,
		`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x://secret"]}}`:                    `{"toolsListChanged":true,"resourceSubscriptions":[]}`,
		`{"notifications":{"ResourceSubscriptions":["x://secret"],"resourceSubscriptions":["x://secret","b"]}}`: `{"ResourceSubscriptions":[],"resourceSubscriptions":["b"]}`,
		`{"notifications":{"toolsListChanged" : true}}`:                                                         `{"toolsListChanged" : true}`,
	} {
		told = nil
		ask(t, s.Requests(), protocol.MethodListen, params, hear)
		if got := string(s.last().Get("notifications")); got != want {
			t.Errorf("%s is passed on as %s, want %s", params, got, want)
		}
		if got := strings.Join(told, " "); got != "x://a x://b" {
			t.Errorf("%s: told of %s", params, got)
		}
	}
	s.conf.Resources.Exclude = nil
	ask(t, s.Requests(), protocol.MethodListen, `{"notifications":{"resourceSubscriptions":[ "x://secret" ]}}`, hear)
	if got := string(s.last().Get("notifications")); got != `{"resourceSubscriptions":[ "x://secret" ]}` {
		t.Errorf("without a filter: %s", got)
	}
}

// TestAnAnswerInHandDoesNotWaitForAList has a server that refuses a call. Nobody is to ask it
// for its tools to say it better.
func TestAnAnswerInHandDoesNotWaitForAList(t *testing.T) {
	for _, test := range []struct {
		name  string
		tools config.Tools
		want  string
	}{
		{"everything is offered", config.Tools{}, "Unknown tool: ecko, there is secret"},
		{"not everything is", config.Tools{Exclude: []string{"secret"}}, "Unknown tool, or arguments that do not fit it: ecko; tools/list names what there is"},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			server := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodListTools {
					asked++
					return req.Reply(map[string]any{"tools": []any{map[string]any{"name": "echo", "inputSchema": map[string]any{"type": "object"}}}})
				}
				return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown tool: ecko, there is secret"}), nil
			}}
			peer, lists := withLists(server)
			f := &filter{Peer: peer, views: &views{server: "s", config: func() *config.Server { return &config.Server{Tools: test.tools} }, lists: lists, rules: &atomic.Pointer[rules.Set]{}}}
			ask := func(method string, params any) string {
				t.Helper()
				req, err := dragoman.NewRequest(dragoman.IntID(1), method, params)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := f.Call(t.Context(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !resp.IsError() {
					return ""
				}
				return resp.RPCError().Message
			}
			call := map[string]string{"name": "ecko"}
			if text := ask(protocol.MethodCallTool, call); text != test.want || asked != 0 {
				t.Errorf("%q after %d lists, want %q", text, asked, test.want)
			}
			ask(protocol.MethodListTools, nil)
			if text := ask(protocol.MethodCallTool, call); !strings.HasSuffix(text, `did you mean "echo"?`) || asked != 1 {
				t.Errorf("with a known list: %q after %d lists", text, asked)
			}
		})
	}
}
