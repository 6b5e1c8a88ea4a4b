package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

// The callers of the tests, by name.
var callers = map[string]*dragoman.Caller{
	"nobody": {},
	"ci":     {Principal: "token:ci", Claims: map[string][]string{Groups: {"bots"}}},
	"alice":  {Principal: "user:alice@login.example.com", Scopes: []string{"mcp"}, Claims: map[string][]string{Groups: {"dev", "admins"}}},
	"bob":    {Principal: "user:bob@example.com@login.example.com", Scopes: []string{"mcp", "write"}, Claims: map[string][]string{"dept": {"sales"}}},
	"cert":   {Principal: "cert:alice@login.example.com"},
	"root":   {Principal: "local:root"},
}

var options = &ParseOptions{
	Groups: map[string][]string{"work": {"files", "mail"}, "none": {}}, Servers: []string{"files", "mail", "search"},
	Issuers: []string{"login.example.com"},
}

func parse(t *testing.T, texts ...string) *Set {
	t.Helper()
	set, wrong := Parse(texts, options)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return set
}

// ask is what "KIND NAME on SERVER" or "METHOD on SERVER" comes to for a caller.
func ask(set *Set, who, what string) string {
	thing, server, _ := strings.Cut(what, " on ")
	kind, name, _ := strings.Cut(thing, " ")
	g, v := set.For(callers[who], server), Verdict{}
	switch kind {
	case "tool":
		v = g.Decide("tools/call", name, func() (Hints, bool) {
			switch {
			case strings.HasPrefix(name, "read"):
				return HintsOf([]byte(`{"readOnlyHint":true}`)), true
			case strings.HasPrefix(name, "add"):
				return HintsOf([]byte(`{"destructiveHint":false}`)), true
			case strings.HasPrefix(name, "hidden"):
				return Hints{}, false
			}
			return HintsOf(nil), true
		})
	case "prompt":
		v = g.Decide("prompts/get", name, nil)
	case "resource":
		v = g.Decide("resources/read", name, nil)
	case "any":
		return fmt.Sprint(g.Any())
	default:
		v = g.Decide(kind, name, func() (Hints, bool) { return HintsOf(nil), true })
	}
	if len(v.Scopes) > 0 {
		return "with " + strings.Join(v.Scopes, " ")
	}
	return fmt.Sprint(v.Allowed)
}

func TestRulesDecide(t *testing.T) {
	for _, test := range []struct {
		rules string // separated by ;
		want  string // WHO: WHAT = OUTCOME; …
	}{
		{"", "nobody: tool x on files = true; nobody: ping on files = true; nobody: any on files = true"},
		{"allow anyone", "nobody: tool x on files = true; ci: resource file:///x on mail = true; ci: logging/setLevel on mail = true"},
		{"allow token:ci", "ci: tool x on files = true; nobody: tool x on files = false; nobody: any on files = false; alice: ping on files = false"},
		{"allow token:c*", "ci: any on files = true; alice: any on files = false"},
		{"allow group:dev on files", "alice: tool x on files = true; alice: tool x on mail = false; alice: any on mail = false; ci: any on files = false"},
		{"allow group:dev on @work", "alice: tool x on files = true; alice: tool x on mail = true; alice: tool x on search = false"},
		{"allow group:dev on @none", "alice: any on files = false"},
		{"allow group:dev on f*, search", "alice: any on files = true; alice: any on search = true; alice: any on mail = false"},
		{"allow user:alice", "alice: any on files = true; bob: any on files = false; cert: any on files = false"},
		{"allow user:alice@login.example.com", "alice: any on files = true; cert: any on files = false"},
		{"allow user:alice@evil.example.com", "alice: any on files = false"},
		{"allow user:bob@example.com", "bob: any on files = true; alice: any on files = false"},
		{"allow user:*", "bob: any on files = true; alice: any on files = true; cert: any on files = false; root: any on files = false"},
		{"allow cert:alice@login.example.com", "cert: any on files = true; alice: any on files = false"},
		{"allow local:root", "root: any on files = true"},
		{"allow scope:write", "bob: any on files = true; alice: any on files = false"},
		{"allow claim:dept=sales", "bob: any on files = true; alice: any on files = false"},
		{"allow claim:groups=dev", "alice: any on files = true"},
		{"allow token:ci, group:dev tools read_*, list on files", "ci: tool read_x on files = true; alice: tool list on files = true; ci: tool write on files = false; " +
			"ci: prompt read_x on files = false; ci: resource read_x on files = false; ci: ping on files = true; ci: tool list on mail = false"},
		{"allow anyone resources file:///pub/*", "ci: resource file:///pub/x on files = true; ci: resource file:///etc on files = false; ci: tool x on files = false"},
		{"allow anyone prompts p? tools t?", "ci: prompt p1 on files = true; ci: tool t1 on files = true; ci: tool p1 on files = false"},
		{"allow anyone; deny anyone tools delete_*", "ci: tool delete_x on files = false; ci: tool x on files = true; ci: ping on files = true"},
		{"deny anyone tools delete_*; allow anyone", "ci: tool delete_x on files = false; ci: tool x on files = true"},
		{"allow anyone; deny token:ci on mail", "ci: tool x on mail = false; ci: tool x on files = true; alice: tool x on mail = true; ci: ping on mail = false"},
		{"deny token:ci", "ci: any on files = false; alice: any on files = false"},
		{"allow anyone if read-only", "ci: tool read_x on files = true; ci: tool add on files = false; ci: tool x on files = false; ci: tool hidden on files = false; ci: prompt x on files = false"},
		{"allow anyone tools * if not destructive", "ci: tool read_x on files = true; ci: tool add on files = true; ci: tool x on files = false; ci: tool hidden on files = false"},
		{"allow anyone; deny anyone if destructive", "ci: tool read_x on files = true; ci: tool add on files = true; ci: tool x on files = false; ci: tool hidden on files = false; ci: prompt x on files = true"},
		{"allow anyone if read-only and not open-world", "ci: tool read_x on files = false"},
		{"allow anyone with write", "bob: tool x on files = true; alice: tool x on files = with write; alice: any on files = true"},
		{"allow anyone tools a with write; allow anyone tools a, b with mcp", "alice: tool a on files = true; ci: tool a on files = with write; ci: tool b on files = with mcp"},
		{"allow anyone tools a with write; deny group:dev tools a", "alice: tool a on files = false; bob: tool a on files = true; ci: tool a on files = with write"},
		{"allow anyone methods tools/call", "ci: tool x on files = true; ci: resource x on files = false; ci: logging/setLevel on files = true; ci: x/y on files = false"},
		{"allow anyone; deny anyone methods logging/*", "ci: logging/setLevel on files = false; ci: tool x on files = true"},
		// What every client needs is allowed with anything else, and needs no scope.
		{"allow anyone tools read_*", "ci: initialize on files = true; ci: server/discover on files = true; ci: ping on files = true; ci: logging/setLevel on files = true; " +
			"ci: tools/list on files = true; ci: prompts/list on files = true; ci: resources/templates/list on files = true; ci: subscriptions/listen on files = true; ci: completion/complete on files = true"},
		{"allow anyone resources x:* methods resources/read with write", "ci: initialize on files = true; ci: tools/list on files = true; ci: resource x:1 on files = with write; ci: x/y on files = false"},
		// What names nothing that rules know needs a rule that names the method, or that is about everything.
		{"allow anyone tools read_*", "ci: x-acme/admin on files = false; ci: tools/execute on files = false; ci: roots/list on files = false; ci: skills/list on files = false; ci: resources/unsubscribe x:1 on files = false"},
		{"allow anyone if read-only", "ci: x-acme/admin on files = false; ci: tools/list on files = true"},
		{"allow anyone tools read_* methods tools/call, x-acme/*", "ci: x-acme/admin on files = true; ci: tools/execute on files = false; ci: tool read_x on files = true; ci: tool x on files = false"},
		{"allow anyone methods x-acme/admin with write", "ci: x-acme/admin on files = with write; bob: x-acme/admin on files = true; ci: tool x on files = false"},
		{"allow anyone if read-only methods x-acme/admin", "ci: x-acme/admin on files = false"},
		{"allow anyone; deny anyone tools x", "ci: x-acme/admin on files = true"},
		{"allow anyone; deny anyone methods x-*", "ci: x-acme/admin on files = false; ci: tool x on files = true"},
		{"allow anyone; deny anyone tools x methods x-*", "ci: x-acme/admin on files = false; ci: tool x on files = true"},
		// Rules with methods are about lists and subscriptions too.
		{"allow anyone; deny anyone methods tools/list", "ci: tools/list on files = false; ci: tool x on files = true; ci: prompts/list on files = true"},
		{"allow anyone; deny anyone tools hush methods tools/list", "ci: tools/list on files = true; ci: tools/list hush on files = false; ci: tools/list x on files = true; ci: tool hush on files = true"},
		{"allow anyone; deny anyone methods prompts/get", "ci: prompts/list on files = true; ci: prompts/list p on files = false; ci: completion/complete p on files = false; ci: completion/complete x:1 on files = true"},
		{"allow anyone; deny anyone methods completion/*", "ci: completion/complete p on files = false; ci: prompt p on files = true"},
		{"allow anyone resources x:* methods resources/read", "ci: resources/list x:1 on files = true; ci: resources/templates/list x:1 on files = true; ci: resources/list y:1 on files = false; ci: subscriptions/listen x:1 on files = false; ci: resources/subscribe x:1 on files = false"},
		{"allow anyone; deny anyone methods subscriptions/listen", "ci: subscriptions/listen on files = false; ci: resources/subscribe x:1 on files = false; ci: resources/unsubscribe x:1 on files = false; ci: resource x:1 on files = true"},
		{"allow anyone; deny anyone methods resources/subscribe", "ci: subscriptions/listen on files = true; ci: subscriptions/listen x:1 on files = false; ci: resources/subscribe x:1 on files = false"},
		{"allow anyone; deny anyone resources x:* methods resources/subscribe", "ci: subscriptions/listen x:1 on files = false; ci: subscriptions/listen y:1 on files = true; ci: resource x:1 on files = true"},
		{"allow anyone resources x:* methods subscriptions/listen", "ci: resources/subscribe x:1 on files = true; ci: resources/subscribe y:1 on files = false; ci: resource x:1 on files = false"},
		{"allow anyone; deny anyone methods initialize", "ci: initialize on files = false; ci: server/discover on files = false; ci: ping on files = true; ci: any on files = true"},
		{"allow anyone; deny anyone methods server/discover", "ci: initialize on files = false"},
		{"allow anyone; deny anyone methods tasks/result", "ci: tasks/get on files = false; ci: tasks/cancel on files = true"},
		// Tasks belong to their tools.
		{"allow anyone tools slow", "ci: tasks/get slow on files = true; ci: tasks/cancel other on files = false; ci: tasks/get on files = true; ci: tasks/list on files = true"},
		{"allow anyone resources *", "ci: tasks/get on files = false; ci: tasks/list on files = false"},
		{"allow anyone; deny anyone tools slow", "ci: tasks/get slow on files = false; ci: tasks/get x on files = true; ci: tasks/list on files = true"},
		{"allow anyone; deny anyone tools slow methods tasks/cancel", "ci: tasks/get slow on files = true; ci: tasks/cancel slow on files = false; ci: tasks/cancel x on files = true; ci: tasks/cancel on files = false"},
		{"allow anyone tools slow methods tools/call", "ci: tasks/get slow on files = true; ci: tasks/update slow on files = true"},
		{"allow anyone tools slow methods tasks/get", "ci: tasks/get slow on files = true; ci: tasks/cancel slow on files = false; ci: tool slow on files = false"},
		{"allow anyone tools slow with write", "ci: tasks/get slow on files = with write; ci: tasks/get on files = with write; bob: tasks/get slow on files = true"},
		// Who is denied everything has nothing.
		{"allow anyone; deny token:ci on mail", "ci: any on mail = false; ci: any on files = true; ci: initialize on mail = false; alice: any on mail = true"},
		{"allow anyone; deny token:ci methods *", "ci: initialize on mail = false; ci: tools/list on mail = false; ci: x/y on mail = false; ci: tool x on mail = false"},
	} {
		set := parse(t, slices.DeleteFunc(strings.Split(test.rules, ";"), func(s string) bool { return strings.TrimSpace(s) == "" })...)
		for line := range strings.SplitSeq(test.want, "; ") {
			who, rest, _ := strings.Cut(line, ": ")
			what, want, ok := strings.Cut(rest, " = ")
			if !ok || callers[who] == nil {
				t.Fatalf("%q is no question", line)
			}
			if got := ask(set, who, what); got != want {
				t.Errorf("%s\n%s: %s is %s, want %s", test.rules, who, what, got, want)
			}
		}
	}
}

func TestMistakesInRulesAreNamed(t *testing.T) {
	several := &ParseOptions{Issuers: []string{"a.example", "b.example"}}
	for _, test := range []struct {
		text, want string
		options    *ParseOptions
	}{
		{"", "empty", options},
		{"permit anyone", `not with "permit"`, options},
		{"allow", "missing behind allow", options},
		{"allow , anyone", "missing behind allow", options},
		{"allow anyone,", "missing behind a comma", options},
		{"allow anyone tools", "missing behind tools", options},
		{"allow anyone tools on files", "missing behind tools", options},
		{"allow alice", `"alice" is nobody`, options},
		{"allow group:", "is nobody", options},
		{"allow claim:dept", "claim:NAME=VALUE", options},
		{"allow anyone read_*", `"read_*" is not understood`, options},
		{"allow anyone tools a b", `"b" is not understood`, options},
		{"allow anyone tools a tools b", "twice", options},
		{"allow anyone on nowhere", "no server nowhere", options},
		{"allow anyone on @nowhere", "no group of servers nowhere", options},
		{"allow anyone if", "if is followed by", options},
		{"allow anyone if safe", "if is followed by", options},
		{"allow anyone if read-only and", "if is followed by", options},
		{"allow anyone prompts x if read-only", "about tools", options},
		{"deny anyone with write", "deny it, or allow it", options},
		{"allow user:alice", "several people", several},
		{"allow user:alice@c.example", "several people", several},
	} {
		_, wrong := Parse([]string{"allow anyone", test.text}, test.options)
		if err := wrong[1]; err == nil || !strings.Contains(err.Error(), test.want) || len(wrong) != 1 {
			t.Errorf("%q: %v, want %q", test.text, wrong, test.want)
		}
	}
	if _, wrong := Parse([]string{"allow user:alice@a.example, user:bob@*"}, several); len(wrong) > 0 {
		t.Error(wrong)
	}
}

func TestMisspeltMethodsAreKnownAsSuch(t *testing.T) {
	for name, want := range map[string]string{
		"tools/call": "", "x-acme/admin": "", "tools/execute": "", "TOOLS": "", "x-acmé/admin": "",
		"Tools/Call": "tools/call", "TOOLS/CALL": "tools/call", "tools/call ": "tools/call", " tools/call": "tools/call", "tools/ call": "tools/call", "tools/call\x00": "tools/call",
		"tools/call\n": "tools/call", "tool\u017f/call": "tools/call", "tools/\u200bcall": "tools/call", "tools/call\u00a0": "tools/call", "resources/SUBSCRIBE": "resources/subscribe",
		"logging/setlevel": "logging/setLevel", "x-acme/admin ": "?", "x acme": "?", "\tx": "?", "\x7fx": "?",
	} {
		meant, is := Misspelt(name)
		if is && meant == "" {
			meant = "?"
		}
		if meant != want || is != (want != "") {
			t.Errorf("%q is taken for %q (%v), want %q", name, meant, is, want)
		}
	}
}

// A rule means the same however it is spaced and its clauses are ordered, and one that
// denies never allows anything.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{"allow anyone", "deny group:dev tools a, b on files if destructive", "allow user:alice with x methods tools/*", "allow anyone on @work resources *"} {
		f.Add(seed)
	}
	questions := []string{"tool a on files", "tool read_b on mail", "prompt a on files", "resource a on search", "ping on files", "any on mail", "tools/list a on files", "subscriptions/listen x:1 on files", "x-acme/admin on files", "tasks/get a on files", "tasks/list on files", "completion/complete p on files"}
	f.Fuzz(func(t *testing.T, text string) {
		set, wrong := Parse([]string{text}, options)
		if len(wrong) > 0 {
			return
		}
		again, wrong := Parse([]string{set.list[0].String()}, options)
		if len(wrong) > 0 {
			t.Fatalf("%q is a rule, and %q is none: %v", text, set.list[0], wrong)
		}
		for who := range callers {
			for _, q := range questions {
				got := ask(set, who, q)
				if got != ask(again, who, q) {
					t.Errorf("%q and %q differ", text, set.list[0])
				}
				if set.list[0].deny && got != "false" {
					t.Errorf("%q allows %s to %s", text, q, who)
				}
			}
		}
	})
}
