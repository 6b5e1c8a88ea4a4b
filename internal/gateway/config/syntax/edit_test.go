package syntax_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// entry is what the tests put in.
func entry() *syntax.Node {
	n := &syntax.Node{Kind: syntax.Table}
	n.Set(syntax.Member{Key: "command", Value: syntax.NewText("x")})
	n.Set(syntax.Member{Key: "args", Value: syntax.NewList("-y", "a b")})
	return n
}

func TestAMemberIsPutInAndAllElseStays(t *testing.T) {
	const added = `"new": {"command": "x", "args": ["-y", "a b"]}`
	for _, test := range []struct{ name, file, before, after string }{
		{"an empty file", "a.json", "", "{\n  \"s\": {\n    \"new\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\", \"a b\"]\n    }\n  }\n}\n"},
		{"behind the last, with its comment", "a.json", "{\n\t\"s\": {\n\t\t\"a\": 1 // one\n\t}\n}",
			"{\n\t\"s\": {\n\t\t\"a\": 1, // one\n\t\t\"new\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\"-y\", \"a b\"]\n\t\t}\n\t}\n}"},
		{"a trailing comma", "a.jsonc", "{\n  \"s\": {\n    \"a\": 1, /* one */\n  }, // s\n}\n",
			"{\n  \"s\": {\n    \"a\": 1, /* one */\n    \"new\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\", \"a b\"]\n    },\n  }, // s\n}\n"},
		{"in one line", "a.json", `{"a":1,"s":{"b":2}}`, `{"a":1,"s":{"b":2, ` + added + `}}`},
		{"in place of the old one", "a.json", "{\"s\": {\"new\": [1, 2], \"b\": 2}}\n", "{\"s\": {\"new\": {\n  \"command\": \"x\",\n  \"args\": [\"-y\", \"a b\"]\n}, \"b\": 2}}\n"},
		{"an empty mapping with a comment", "a.json", "{\r\n  \"s\": {\r\n    // none\r\n  }\r\n}\r\n",
			"{\r\n  \"s\": {\r\n    // none\r\n    \"new\": {\r\n      \"command\": \"x\",\r\n      \"args\": [\"-y\", \"a b\"]\r\n    }\r\n  }\r\n}\r\n"},
		{"no such mapping, and a mark at the beginning", "a.json", "\ufeff{\n  \"é\": \"ü\"\n}\n",
			"\ufeff{\n  \"é\": \"ü\",\n  \"s\": {\n    \"new\": {\n      \"command\": \"x\",\n      \"args\": [\"-y\", \"a b\"]\n    }\n  }\n}\n"},
		{"a comma in the next line", "a.jsonc", "{\"s\": {\n  \"a\": 1\n  , \n}}", "{\"s\": {\n  \"a\": 1\n  ,\n  \"new\": {\n    \"command\": \"x\",\n    \"args\": [\"-y\", \"a b\"]\n  }, \n}}"},

		{"an empty YAML file with a comment", "a.yaml", "# ours", "# ours\ns:\n  new:\n    command: x\n    args: [-y, a b]\n"},
		{"lines of YAML", "a.yaml", "a: 1 # one\ns:\n    # of b\n    b:\n        c: |\n            # text\n\n# d\nd: 2\n",
			"a: 1 # one\ns:\n    # of b\n    b:\n        c: |\n            # text\n    new:\n      command: x\n      args: [-y, a b]\n\n# d\nd: 2\n"},
		{"in place of an old one of YAML", "a.yaml", "s:\n  new:\n    url: y\n    # of it\n  # of b\n  b: {}\n", "s:\n  new:\n    command: x\n    args: [-y, a b]\n  # of b\n  b: {}\n"},
		{"nothing in YAML", "a.yaml", "s: # none\nb: 1\n", "s: # none\n  new:\n    command: x\n    args: [-y, a b]\nb: 1\n"},
		{"an empty mapping of YAML", "a.yaml", "b: 1\ns: {}", "b: 1\ns:\n  new:\n    command: x\n    args: [-y, a b]\n"},
		{"braces of YAML, which are written again", "a.yaml", "# top\ns: {b: 1} # one\n", "# top\ns: {b: 1, new: {command: x, args: [-y, a b]}} # one\n"},

		{"an empty TOML file", "a.toml", "", "[s.new]\ncommand = \"x\"\nargs = [\"-y\", \"a b\"]\n"},
		{"behind all of TOML", "a.toml", "a = 1 # one\n\n[s.b]\nc = 2\n\n", "a = 1 # one\n\n[s.b]\nc = 2\n\n[s.new]\ncommand = \"x\"\nargs = [\"-y\", \"a b\"]\n"},
		{"in place of old ones of TOML", "a.toml", "[s.new]\nurl = \"y\" # it\n\n# of b\n[s.b]\nc = 2\n[s.new.env]\nA = \"1\"\n[d]\n",
			"[s.new]\ncommand = \"x\"\nargs = [\"-y\", \"a b\"]\n\n# of b\n[s.b]\nc = 2\n[d]\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := syntax.Put(test.file, []byte(test.before), []string{"s"}, syntax.Member{Key: "new", Value: entry()})
			if err != nil || string(got) != test.after {
				t.Errorf("%s\nbecomes\n%s(%v), want\n%s", test.before, got, err, test.after)
			}
		})
	}
}

func TestAFileThatCannotBeChangedIsRefused(t *testing.T) {
	for _, test := range []struct{ file, text, want string }{
		{"a.json", `{"s": {`, "a.json:1:8: a key in double quotes"},
		{"a.json", `{"s": 1}`, "no mapping"},
		{"a.json", `[1]`, "not a mapping"},
		{"a.json", `{"a": 1, "a": 2}`, "twice"},
		{"a.yaml", "a: [", "not YAML"},
		{"a.yaml", "s: [1]\n", "no mapping"},
		{"a.yaml", "s:\n  new: &x\n    a: 1\nb: *x\n", "by hand"},
		{"a.toml", "a = ", "not TOML"},
		{"a.toml", "s = { b = { c = 1 } }\n", "by hand"},
	} {
		got, err := syntax.Put(test.file, []byte(test.text), []string{"s"}, syntax.Member{Key: "new", Value: entry()})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s becomes %s, %v; want %s", test.text, got, err, test.want)
		}
	}
}

func TestLinesAreShownWithoutSecrets(t *testing.T) {
	const text = "env:\n  API_KEY: |\n    -----BEGIN\n    canary-one two\n  B: canary-three\nargs: [--token, canary-four, 'https://u:canary-five@h']\nurl: ${canary}\n"
	src, err := syntax.Read("a.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for i := range src.Lines() {
		shown = append(shown, src.Line(i+1))
	}
	all := strings.Join(shown, "\n")
	if strings.Contains(all, "canary-") || !strings.Contains(all, "args: [--token, ***, 'https://***@h']") || !strings.Contains(all, "url: ${canary}") {
		t.Error(all)
	}
	if got := strings.Join(src.Root.Inline(), " "); got != "env.API_KEY args.--token args" {
		t.Errorf("secrets stand in %q", got)
	}
}

func FuzzPutChangesOneMember(f *testing.F) {
	for _, file := range []string{"a.json", "a.yaml", "a.toml"} {
		for _, text := range []string{"", "{\"s\": {\"a\": 1, // x\n}}", "s:\n  a: 1\n# x\nb: {}\n", "[s.a]\nb = 1\n#x\n[c]\n", "s: {a: [1]}\n", "{\"s\":\n{}\n}"} {
			f.Add(file, text)
		}
	}
	f.Fuzz(func(t *testing.T, file, text string) {
		if file != "a.json" && file != "a.yaml" && file != "a.toml" {
			return
		}
		got, err := syntax.Put(file, []byte(text), []string{"s"}, syntax.Member{Key: "new", Value: entry()})
		if err != nil {
			return
		}
		again, err := syntax.Put(file, got, []string{"s"}, syntax.Member{Key: "new", Value: entry()})
		if err != nil {
			return // refused, which is safe
		}
		src, err := syntax.Read(file, again)
		if err != nil || !syntax.Same(src.Root.Get("s").Get("new"), entry()) {
			t.Fatalf("%q becomes %q, then %q: %v", text, got, again, err)
		}
		for i := range src.Lines() {
			src.Line(i + 1)
		}
	})
}

func TestAMemberIsRemovedAndAllElseStays(t *testing.T) {
	for _, test := range []struct{ name, file, before, after string }{
		{"the last of several", "a.json", "{\n  \"s\": {\n    \"a\": 1, // one\n    \"new\": {\"command\": \"x\"} // it\n  }\n}\n", "{\n  \"s\": {\n    \"a\": 1 // one\n  }\n}\n"},
		{"the first of several", "a.json", "{\n  \"s\": {\n    // of it\n    \"new\": {\n      \"a\": 1\n    },\n    // of b\n    \"b\": 2\n  }\n}\n", "{\n  \"s\": {\n    // of b\n    \"b\": 2\n  }\n}\n"},
		{"in the middle, with line ends of Windows", "a.json", "{\"s\": {\r\n  \"a\": 1,\r\n  \"new\": 2,\r\n  \"b\": 3\r\n}}\r\n", "{\"s\": {\r\n  \"a\": 1,\r\n  \"b\": 3\r\n}}\r\n"},
		{"the only one", "a.json", "{\n  \"s\": {\n    \"new\": {}\n  }\n}\n", "{\n  \"s\": {\n  }\n}\n"},
		{"in one line", "a.json", `{"a":1,"s":{"b":2, "new": {"x": 1}}}`, `{"a":1,"s":{"b":2}}`},
		{"the first in one line", "a.json", `{"s":{"new": 1, "b":2}}`, `{"s":{"b":2}}`},
		{"a trailing comma, and a mark at the beginning", "a.jsonc", "\ufeff{\n  \"s\": {\n    \"a\": 1,\n    \"new\": 2,\n  },\n}\n", "\ufeff{\n  \"s\": {\n    \"a\": 1,\n  },\n}\n"},
		{"none of that name", "a.json", `{"s": {"b": 1}}`, `{"s": {"b": 1}}`},

		{"lines of YAML, with the comment above", "a.yaml", "# top\ns:\n  # of it\n  new:\n    command: x # one\n    # of x\n\n  # of b\n  b: {}\n# end\n", "# top\ns:\n\n  # of b\n  b: {}\n# end\n"},
		{"the last of YAML", "a.yaml", "s:\n  b: {}\n  new: {command: x}\n\n# d\nd: 2\n", "s:\n  b: {}\n\n# d\nd: 2\n"},
		{"the only one of YAML", "a.yaml", "s: # ours\n  new:\n    command: x\nd: 2\n", "s: {} # ours\nd: 2\n"},
		{"braces of YAML", "a.yaml", "# top\ns: {b: 1, new: {command: x}} # one\n", "# top\ns: {b: 1} # one\n"},

		{"a section of TOML", "a.toml", "a = 1 # one\n\n# of it\n[s.new]\ncommand = \"x\"\n\n[s.new.env]\nA = \"1\"\n\n# of b\n[s.b]\nc = 2\n", "a = 1 # one\n\n# of b\n[s.b]\nc = 2\n"},
		{"the only section of TOML", "a.toml", "[s.new]\ncommand = \"x\"\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := syntax.Remove(test.file, []byte(test.before), []string{"s"}, "new")
			if err != nil || string(got) != test.after {
				t.Errorf("%s\nbecomes\n%q(%v), want\n%q", test.before, got, err, test.after)
			}
		})
	}
	for text, want := range map[string]string{"s = { new = { c = 1 } }\n": "by hand", "s = 1\n": "no mapping"} {
		if got, err := syntax.Remove("a.toml", []byte(text), []string{"s"}, "new"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s becomes %s, %v; want %s", text, got, err, want)
		}
	}
}

func FuzzRemoveUndoesPut(f *testing.F) {
	for _, file := range []string{"a.json", "a.yaml", "a.toml"} {
		for _, text := range []string{"", "{\"s\": {\"a\": 1, // x\n}}", "s:\n  a: 1\n# x\nb: {}\n", "[s.a]\nb = 1\n#x\n[c]\n", "s: {a: [1]}\n", "{\"s\":\n{}\n}"} {
			f.Add(file, text)
		}
	}
	f.Fuzz(func(t *testing.T, file, text string) {
		if file != "a.json" && file != "a.yaml" && file != "a.toml" {
			return
		}
		put, err := syntax.Put(file, []byte(text), []string{"s"}, syntax.Member{Key: "new", Value: entry()})
		if err != nil {
			return
		}
		got, err := syntax.Remove(file, put, []string{"s"}, "new")
		if err != nil {
			return // refused, which is safe
		}
		if src, err := syntax.Read(file, got); err != nil || src.Root.Get("s").Get("new") != nil {
			t.Fatalf("%q becomes %q, then %q: %v", text, put, got, err)
		}
	})
}
