package aggregate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A name means one server or nothing, whoever is there.

// unavailable is what a server that is away says.
var unavailable = &dragoman.Error{Code: protocol.CodeUnavailable, Message: "down"}

// away is a peer that is not there.
var away = answers(map[string]any{
	protocol.MethodListTools: unavailable, protocol.MethodCallTool: unavailable,
	protocol.MethodListPrompts: unavailable, protocol.MethodGetPrompt: unavailable,
	protocol.MethodListResources: unavailable, protocol.MethodListTemplates: unavailable,
	protocol.MethodReadResource: unavailable, protocol.MethodComplete: unavailable,
})

var plain = &aggregate.Options{Plain: true}

// unavailableUntil wants the error for something that a server must answer first for.
func unavailableUntil(t *testing.T, a *aggregate.Aggregate, server, method string, params object) {
	t.Helper()
	if e := refusal(t, a, method, params); e.Code != protocol.CodeUnavailable || !strings.Contains(e.Message, "no answer from "+server) {
		t.Errorf("%s %v: got %v, want that %s must answer first", method, params, e, server)
	}
}

func TestPlain_AToolWaitsUntilTheServersBeforeItHaveSaidWhatTheyHave(t *testing.T) {
	for _, first := range []string{"deploy", "status"} {
		t.Run("the first has "+first, func(t *testing.T) {
			prod, staging := fake("prod", first), fake("staging", "deploy")
			there := prod.peer
			prod.becomes(away)
			a := of(t, plain, prod, staging)
			result := must(t, a, protocol.MethodListTools, nil)
			if got := texts(result, "tools", "name"); len(got) != 0 || fmt.Sprint(result["_meta"].(object)["dragoman/missing"]) != "[prod]" {
				t.Errorf("got %v", result)
			}
			unavailableUntil(t, a, "prod", protocol.MethodCallTool, call("deploy", nil))
			if n := staging.saw(protocol.MethodCallTool); n != 0 {
				t.Fatal("the tool of another server was called")
			}
			prod.becomes(there)
			prod.changed(protocol.NoteToolsChanged)
			want := map[string]string{"deploy": "prod/deploy", "status": "staging/deploy"}[first]
			if got := said(must(t, a, protocol.MethodCallTool, call("deploy", nil))); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			// What is known stays known while the server is away again.
			prod.becomes(away)
			prod.changed(protocol.NoteToolsChanged)
			names(t, a)
			resp := ask(t, a, protocol.MethodCallTool, call("deploy", nil))
			if resp.IsError() == (first == "status") {
				t.Errorf("while it is away again: got %s", resp)
			}
		})
	}
}

func TestPlain_APromptWaitsUntilTheServersBeforeItHaveSaidWhatTheyHave(t *testing.T) {
	prompter := func(name string) *server {
		return &server{name: name, peer: answers(map[string]any{
			protocol.MethodListPrompts: object{"prompts": []object{{"name": "p"}}},
			protocol.MethodGetPrompt:   object{"description": name},
			protocol.MethodComplete:    object{"completion": object{"values": []string{name}}},
		})}
	}
	first, second := prompter("first"), prompter("second")
	there := first.peer
	first.becomes(away)
	a := of(t, plain, first, second)
	if got := must(t, a, protocol.MethodListPrompts, nil); len(got["prompts"].([]any)) != 0 {
		t.Errorf("got %v", got)
	}
	complete := object{"ref": object{"type": "ref/prompt", "name": "p"}, "argument": object{"name": "x", "value": ""}}
	unavailableUntil(t, a, "first", protocol.MethodGetPrompt, object{"name": "p"})
	unavailableUntil(t, a, "first", protocol.MethodComplete, complete)
	if second.saw(protocol.MethodGetPrompt)+second.saw(protocol.MethodComplete) != 0 {
		t.Error("another server was asked")
	}
	first.becomes(there)
	first.changed(protocol.NotePromptsChanged)
	if got := must(t, a, protocol.MethodGetPrompt, object{"name": "p"}); got["description"] != "first" {
		t.Errorf("got %v", got)
	}
}

func TestPlain_AResourceWaitsUntilTheServersBeforeItHaveSaidWhatTheyHave(t *testing.T) {
	uris, templates := []string{"x://1"}, []string{"y://{id}"}
	first, second := library("first", uris, templates, []string{"y://1"}), library("second", uris, templates, []string{"y://1", "y://2", "x://hidden"})
	there := first.peer
	first.becomes(away)
	a := of(t, plain, first, second)
	for method, array := range map[string]string{protocol.MethodListResources: "resources", protocol.MethodListTemplates: "resourceTemplates"} {
		if got := must(t, a, method, nil); len(got[array].([]any)) != 0 {
			t.Errorf("got %v", got)
		}
	}
	for _, uri := range []string{"x://1", "x://hidden", "y://1"} {
		unavailableUntil(t, a, "first", protocol.MethodReadResource, object{"uri": uri})
	}
	for _, uri := range []string{"x://1", "y://{id}"} {
		unavailableUntil(t, a, "first", protocol.MethodComplete, object{"ref": object{"type": "ref/resource", "uri": uri}, "argument": object{"name": "id", "value": ""}})
	}
	if second.saw(protocol.MethodReadResource)+second.saw(protocol.MethodComplete) != 0 {
		t.Error("another server was asked")
	}
	first.becomes(there)
	first.changed(protocol.NoteResourcesChanged)
	for uri, want := range map[string]string{"x://1": "first", "x://hidden": "second", "y://1": "first"} {
		if got := whose(t, a, uri); got != want {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
	// A template of a server that is away now does not become another one's.
	first.becomes(away)
	if e := refusal(t, a, protocol.MethodReadResource, object{"uri": "y://2"}); e.Code != protocol.CodeUnavailable {
		t.Errorf("got %v", e)
	}
}

func TestPlain_AReadDoesNotWaitForServersThatAreAwayButKnownOrThatComeLater(t *testing.T) {
	first, second, third := library("first", []string{"x://1"}, nil, nil), library("second", []string{"x://2"}, nil, nil), library("third", nil, nil, nil)
	third.becomes(away)
	a := of(t, plain, first, second, third)
	must(t, a, protocol.MethodListResources, nil)
	first.becomes(away)
	first.changed(protocol.NoteResourcesChanged)
	must(t, a, protocol.MethodListResources, nil)
	if got := whose(t, a, "x://2"); got != "second" {
		t.Errorf("got %q", got)
	}
}

// Two servers whose prefixes look alike: which names are whose is a matter of the
// configuration.
func TestPain22_EqualPrefixesAreToldApartByTheConfigurationAlone(t *testing.T) {
	for _, order := range [][]string{{"a_b", "a.b"}, {"a.b", "a_b"}, {"a.b", "a b"}} {
		owner, other := fake("a_b", "x"), fake("a.b", "x")
		members := []*server{owner, other}
		switch order[1] {
		case "a_b":
			members = []*server{other, owner}
		case "a b": // neither is clean: the first has the names
			owner, other = fake("a.b", "x"), fake("a b", "x")
			members = []*server{owner, other}
		}
		marked := ""
		for _, name := range names(t, of(t, nil, members...)) {
			if name != "a_b_x" {
				marked = name
			}
		}
		for _, who := range []*server{owner, other} {
			there := who.peer
			who.becomes(away)
			a := of(t, nil, members...)
			want, wanted := map[string]string{marked: other.name + "/x"}, marked
			if who == other {
				want, wanted = map[string]string{"a_b_x": owner.name + "/x"}, "a_b_x"
			}
			if got := names(t, a); !slices.Equal(got, []string{wanted}) {
				t.Errorf("%q without %s: got %q, want %q", order, who.name, got, wanted)
			}
			for _, name := range []string{"a_b_x", marked} {
				resp := ask(t, a, protocol.MethodCallTool, call(name, nil))
				switch {
				case want[name] != "" && (resp.IsError() || said(decoded(t, resp)) != want[name]):
					t.Errorf("%q without %s: %s is %s", order, who.name, name, resp)
				case want[name] == "" && (!resp.IsError() || resp.RPCError().Code != protocol.CodeUnavailable):
					t.Errorf("%q without %s: %s is %s, want that it is away", order, who.name, name, resp)
				}
			}
			who.becomes(there)
		}
	}
}

// A name that a server can not have, by the configuration, is unknown even while
// that server is away.
func TestWhatNoServerThatIsAwayCanHaveIsUnknown(t *testing.T) {
	a := of(t, nil, &server{name: "a", peer: away}, fake("a_b", "x"))
	for name, want := range map[string]int{
		"a_b_none":                     protocol.CodeInvalidParams, // it would be a_b's
		"a_" + strings.Repeat("x", 70): protocol.CodeInvalidParams, // names are not as long
		"a_x.y":                        protocol.CodeInvalidParams, // nor have they such characters
		"a_b_c_abcdefgh":               protocol.CodeUnavailable,   // a's, with a digest
		"a_none":                       protocol.CodeUnavailable,
	} {
		if e := refusal(t, a, protocol.MethodCallTool, call(name, nil)); e.Code != want {
			t.Errorf("%s: got %v, want %d", name, e, want)
		}
	}
	unavailableUntil(t, a, "a", protocol.MethodCallTool, call("a_b_c_abcdefgh", nil)) // and it is not asked for b_c_abcdefgh
	// What either may have is asked of neither.
	a = of(t, nil, &server{name: "a_b", peer: away}, &server{name: "a", peer: away})
	unavailableUntil(t, a, "a_b, a", protocol.MethodCallTool, call("a_b_c_abcdefgh", nil))
}

func TestWhatATemplateMayStandForIsNotUnknownWhileTheListOfTemplatesIs(t *testing.T) {
	s := &server{name: "b", peer: answers(map[string]any{
		protocol.MethodListResources: `{"resources":[]}`, protocol.MethodListTemplates: unavailable,
	})}
	a := of(t, nil, library("a", []string{"y://1"}, nil, nil), s)
	unavailableUntil(t, a, "b", protocol.MethodReadResource, object{"uri": "z://1"})
	unavailableUntil(t, a, "b", protocol.MethodReadResource, object{"uri": "y://2"}) // a says that it has none
	// Nor is another server asked to complete what may be a template of that one.
	unavailableUntil(t, a, "b", protocol.MethodComplete, object{"ref": object{"type": "ref/resource", "uri": "y://{id}"}, "argument": object{"name": "id", "value": ""}})
	if whose(t, a, "y://1") != "a" {
		t.Error("not read")
	}
}

// What is called by a name has it before what would have to be changed for it, also
// while the list is not known.
func TestWhatIsCalledByANameHasIt(t *testing.T) {
	s := fake("a", "x.y", "x_y")
	prefix := "my."
	s.prefix = &prefix
	there := s.peer
	listless := answers(map[string]any{protocol.MethodListTools: unavailable, protocol.MethodCallTool: func(req *dragoman.Message) any {
		return object{"content": []object{{"text": "a/" + req.Name()}}}
	}})
	for what, peer := range map[string]dragoman.Peer{"known": there, "not known": listless} {
		s.becomes(peer)
		if got := said(must(t, of(t, nil, s), protocol.MethodCallTool, call("my_x_y", nil))); got != "a/x_y" {
			t.Errorf("list %s: got %q", what, got)
		}
	}
}

// A catalog is what a server offers in a random group. Calls are answered by the
// server even while its lists are not to be had.
type catalog struct {
	name       string
	prefix     *string
	owns, uris []string
}

const ownRefusal = "the server has no such thing"

func (c catalog) server(known bool) *server {
	list := func(array, key string, keys []string) any {
		elements := []object{}
		for _, k := range keys {
			elements = append(elements, object{key: k, "name": k})
		}
		return object{array: elements}
	}
	about := func(keys []string, key string) func(*dragoman.Message) any {
		return func(req *dragoman.Message) any {
			own := req.Name() + req.URI()
			if !slices.Contains(keys, own) {
				return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: ownRefusal + ", not found"}
			}
			return object{key: c.name + "/" + own}
		}
	}
	by := map[string]any{
		protocol.MethodListTools:     list("tools", "name", c.owns),
		protocol.MethodListPrompts:   list("prompts", "name", c.owns),
		protocol.MethodListResources: list("resources", "uri", c.uris),
		protocol.MethodCallTool:      about(c.owns, "is"),
		protocol.MethodGetPrompt:     about(c.owns, "is"),
		protocol.MethodReadResource:  about(c.uris, "is"),
	}
	if !known {
		for _, method := range []string{protocol.MethodListTools, protocol.MethodListPrompts, protocol.MethodListResources, protocol.MethodListTemplates} {
			by[method] = unavailable
		}
	}
	return &server{name: c.name, prefix: c.prefix, peer: answers(by)}
}

// randomGroup returns some servers with prefixes and tools that get into each
// other's way.
func randomGroup(rnd *rand.Rand) (group []catalog) {
	some := func(pool []string, n int) []string {
		pool = slices.Clone(pool)
		rnd.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		return pool[:min(n, len(pool))]
	}
	long := strings.Repeat("long_name_", 7)
	for _, name := range some([]string{"a", "b", "a_b", "a.b", "a b"}, 1+rnd.IntN(4)) {
		c := catalog{name: name,
			owns: some([]string{"x", "y", "b_x", "b.x", "x.y", "x_y", "c", "put", long + "1", long + "2", "b_" + long}, rnd.IntN(6)),
			uris: some([]string{"u://1", "u://2", "v://1", "v://2"}, rnd.IntN(4)),
		}
		if rnd.IntN(2) == 0 {
			c.prefix = &some([]string{"", "a_", "a.", "a_b_", "a.b_", "x", strings.Repeat("p.", 30)}, 1)[0]
		}
		group = append(group, c)
	}
	return group
}

// A meaning is what a name stands for: the text of the server that has it, or the
// error.
type meaning struct {
	text string
	err  *dragoman.Error
}

func meaningOf(t *testing.T, a *aggregate.Aggregate, method, key, name string) meaning {
	t.Helper()
	resp := ask(t, a, method, object{key: name})
	if resp.IsError() {
		return meaning{err: resp.RPCError()}
	}
	text, _ := decoded(t, resp)["is"].(string)
	return meaning{text: text}
}

// For any group and any part of it that is known, a name means what it means when
// all are known, or nothing.
func TestPain22_ANameMeansTheSameWhoeverIsKnown(t *testing.T) {
	for seed := range uint64(24) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		group := randomGroup(rnd)
		opts := aggregate.Options{Plain: seed%3 == 0, PerMember: patience}
		with := func(known int) *aggregate.Aggregate {
			var members []*server
			for i, c := range group {
				members = append(members, c.server(known&(1<<i) != 0))
			}
			return of(t, &opts, members...)
		}
		all := with(-1)
		for _, test := range []struct{ list, array, method, key string }{
			{protocol.MethodListTools, "tools", protocol.MethodCallTool, "name"},
			{protocol.MethodListPrompts, "prompts", protocol.MethodGetPrompt, "name"},
			{protocol.MethodListResources, "resources", protocol.MethodReadResource, "uri"},
		} {
			if test.key == "uri" && !opts.Plain {
				continue // the first that is known has it
			}
			offered := texts(must(t, all, test.list, nil), test.array, test.key)
			candidates := append([]string{"x", "y", "put", "x_y", "none", "u://1", "u://9"}, offered...)
			for _, c := range group {
				for _, own := range c.owns {
					prefix := c.name + "_"
					if c.prefix != nil {
						prefix = *c.prefix
					}
					candidates = append(candidates, strings.NewReplacer(".", "_", " ", "_").Replace(prefix+own))
				}
			}
			slices.Sort(candidates)
			candidates = slices.Compact(candidates)
			meant := make(map[string]meaning)
			for _, name := range candidates {
				meant[name] = meaningOf(t, all, test.method, test.key, name)
			}
			for known := range 1 << len(group) {
				a := with(known)
				listed := texts(must(t, a, test.list, nil), test.array, test.key)
				for _, name := range candidates {
					want, got := meant[name], meaningOf(t, a, test.method, test.key, name)
					where := fmt.Sprintf("seed %d, known %b: %s %s", seed, known, test.method, name)
					switch {
					case got.err == nil && got.text != want.text:
						t.Errorf("%s is %q, and %q when all are known (%v)", where, got.text, want.text, want.err)
					case slices.Contains(listed, name) && got.err != nil:
						t.Errorf("%s is listed, and refused: %v", where, got.err)
					case got.err != nil && want.err == nil && got.err.Code != protocol.CodeUnavailable && !strings.Contains(got.err.Message, ownRefusal):
						t.Errorf("%s is %q when all are known, and now %v", where, want.text, got.err)
					}
				}
				for _, name := range listed {
					if !slices.Contains(offered, name) {
						t.Errorf("seed %d, known %b: %s is listed, but not when all are known", seed, known, name)
					}
				}
			}
		}
	}
}
