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
	g := &group{plain: plain}
	for i, p := range prefixes {
		m := &member{source: &source{Member: named{name: fmt.Sprintf("m%d", i)}}, at: i, prefix: p}
		g.members = append(g.members, m)
	}
	return g
}

// named is a member of which nothing but the name is asked.
type named struct {
	Member
	name string
}

func (n named) Name() string { return n.name }

func TestPain22_NamesAreLegalAndAtMost64CharactersLong(t *testing.T) {
	long := strings.Repeat("a_very_long_tool_name_", 5)
	g := groupOf(false, "m0_", "m.1_")
	var wishes []wish
	for _, own := range []string{"plain", "fs.read", "fs/read", "fs_read", "größe", "a b", long, long + "x", ".", "日本語"} {
		for _, m := range g.members {
			wishes = append(wishes, g.wish(m, tools, own))
		}
	}
	seen := make(map[string]bool)
	for i, name := range assign(wishes, false) {
		if !legal.MatchString(name) || seen[name] {
			t.Errorf("%q is called %q", wishes[i].full, name)
		}
		seen[name] = true
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
	m := g.members[0]
	got := assign([]wish{g.wish(m, tools, "fs.read"), g.wish(m, tools, "fs_read")}, false)
	if got[1] != "m_fs_read" || !strings.HasPrefix(got[0], "m_fs_read_") {
		t.Errorf("got %q", got)
	}
}

// A tool of a must not be called like one of a_b, whether that exists or not.
func TestPain22_NamesOfOneServerAreNeverAmongThoseOfAnother(t *testing.T) {
	g := groupOf(false, "a_", "a_b_")
	got := assign([]wish{g.wish(g.members[0], tools, "b_c")}, false)
	both := assign([]wish{g.wish(g.members[1], tools, "c"), g.wish(g.members[0], tools, "b_c")}, false)
	if got[0] == "a_b_c" || both[0] != "a_b_c" || both[1] != got[0] {
		t.Errorf("alone %q, together %q", got, both)
	}
}

func TestPlainNamesStayAndTheFirstMemberWins(t *testing.T) {
	g := groupOf(true, "", "")
	got := assign([]wish{g.wish(g.members[1], tools, "x"), g.wish(g.members[0], tools, "x"), g.wish(g.members[1], tools, "y")}, true)
	if want := []string{"", "x", "y"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzPain22_Names(f *testing.F) {
	f.Add("a\nb.c\nb_c\nb/c", "a_", "a_b_", uint64(1), false)
	f.Add("x\n"+strings.Repeat("y", 80)+"\n"+strings.Repeat("y", 81), "", "", uint64(2), true)
	f.Add("\xff\n\xfe\nß", "ä.", "\x00", uint64(3), false)
	f.Fuzz(func(t *testing.T, owns, p, q string, seed uint64, plain bool) {
		g := groupOf(plain, p, q)
		var wishes []wish
		seen := make(map[string]bool)
		for own := range strings.SplitSeq(owns, "\n") {
			if own != "" && !seen[own] {
				seen[own] = true
				wishes = append(wishes, g.wish(g.members[0], tools, own), g.wish(g.members[1], tools, own))
			}
		}
		names := assign(wishes, plain)
		byWish := make(map[wish]string)
		taken := make(map[string]bool)
		for i, name := range names {
			byWish[wishes[i]] = name
			switch {
			case name == "" && plain:
			case !legal.MatchString(name):
				t.Errorf("%q is called %q", wishes[i].full, name)
			case taken[name]:
				t.Errorf("two are called %q", name)
			}
			taken[name] = true
		}
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(wishes), func(i, j int) { wishes[i], wishes[j] = wishes[j], wishes[i] })
		for i, name := range assign(wishes, plain) {
			if name != byWish[wishes[i]] {
				t.Errorf("%q is called %q in one order and %q in another", wishes[i].full, byWish[wishes[i]], name)
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
