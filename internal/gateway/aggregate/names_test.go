package aggregate

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var legal = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func groupOf(plain bool, prefixes ...string) *group {
	var sources []*source
	for i, p := range prefixes {
		sources = append(sources, &source{Member: named{name: fmt.Sprintf("m%d", i), prefix: &p}})
	}
	return newGroup(sources, plain)
}

// named is a member of which nothing but the name and the prefix is asked.
type named struct {
	Member
	name   string
	prefix *string
}

func (n named) Name() string    { return n.name }
func (n named) Prefix() *string { return n.prefix }

func TestPain22_NamesAreLegalAndAtMost64CharactersLong(t *testing.T) {
	long := strings.Repeat("a_very_long_tool_name_", 5)
	g := groupOf(false, "m0_", "m.1_")
	owns := []string{"plain", "fs.read", "fs/read", "fs_read", "größe", "a b", long, long + "x", ".", "日本語"}
	seen := make(map[string]bool)
	for _, m := range g.members {
		for i, name := range g.names(m, tools, owns) {
			if !legal.MatchString(name) || seen[name] {
				t.Errorf("%q is called %q", owns[i], name)
			}
			seen[name] = true
		}
	}
	for _, want := range []string{"m0_plain", "m_1_plain", "m0_fs_read"} {
		if !seen[want] {
			t.Errorf("nothing is called %s", want)
		}
	}
}

// What is fine already keeps its name, whoever else would become that.
func TestPain22_AnExactNameWinsOverOneThatHadToBeChanged(t *testing.T) {
	g := groupOf(false, "m_")
	got := g.names(g.members[0], tools, []string{"fs.read", "fs_read"})
	if got[1] != "m_fs_read" || !strings.HasPrefix(got[0], "m_fs_read_") {
		t.Errorf("got %q", got)
	}
}

// A tool of a must not be called like one of a_b, whether that exists or not.
func TestS30_Pain22_NamesOfOneServerAreNeverAmongThoseOfAnother(t *testing.T) {
	g := groupOf(false, "a_", "a_b_")
	one, other := g.names(g.members[0], tools, []string{"b_c"}), g.names(g.members[1], tools, []string{"c"})
	if one[0] == "a_b_c" || !strings.HasPrefix(one[0], "a_b_c_") || other[0] != "a_b_c" {
		t.Errorf("got %q and %q", one, other)
	}
}

func FuzzPain22_Names(f *testing.F) {
	f.Add("a\nb.c\nb_c\nb/c", "a_", "a_b_", uint64(1), false)
	f.Add("x\n"+strings.Repeat("y", 80)+"\n"+strings.Repeat("y", 81), "", "", uint64(2), true)
	f.Add("\xff\n\xfe\nß", "ä.", "\x00", uint64(3), false)
	f.Fuzz(func(t *testing.T, owns, p, q string, seed uint64, plain bool) {
		g := groupOf(plain, p, q)
		keys := strings.FieldsFunc(owns, func(r rune) bool { return r == '\n' })
		slices.Sort(keys)
		keys = slices.Compact(keys)
		shuffled := slices.Clone(keys)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(keys), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		taken := make(map[string]*member)
		for _, m := range g.members {
			again := g.names(m, tools, shuffled)
			for i, name := range g.names(m, tools, keys) {
				switch owner := taken[name]; {
				case !legal.MatchString(name):
					t.Errorf("%q is called %q", keys[i], name)
				case owner == m || owner != nil && !plain:
					t.Errorf("two are called %q", name)
				case !g.mayHave(m, tools, name):
					t.Errorf("%q is called %q, which that member can not have", keys[i], name)
				}
				taken[name] = m
				if other := again[slices.Index(shuffled, keys[i])]; other != name {
					t.Errorf("%q is called %q in one order and %q in another", keys[i], name, other)
				}
			}
		}
	})
}

func TestTemplatesMatch(t *testing.T) {
	for _, test := range []struct {
		template, uri string
		strict, loose bool
	}{
		{"test://t/{id}/data", "test://t/1/data", true, true},
		{"test://t/{id}/data", "test://t/1/2/data", false, true},
		{"test://t/{id}/data", "test://t/1", false, false},
		{"file:///{+path}", "file:///a/b", true, true},
		{"x://a{/b,c}", "x://a/1/2", true, true},
		{"x://a{?q,r}", "x://a?q=1&r=2", true, true},
		{"x://a{?q}", "x://a", true, true},
		{"x://a{#f}", "x://a#b", true, true},
		{"x://a.b", "x://aXb", false, false},
		{"x://{", "x://{", false, false},
	} {
		p := compile(test.template)
		if p.matches(test.uri) != test.strict || p.mayMatch(test.uri) != test.loose {
			t.Errorf("%s, %s: got %t, %t", test.template, test.uri, p.matches(test.uri), p.mayMatch(test.uri))
		}
	}
}
