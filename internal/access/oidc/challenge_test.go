package oidc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

func TestChallengesAreReadAsServersWriteThem(t *testing.T) {
	for _, test := range []struct {
		name  string
		lines []string
		want  *oidc.Challenge
	}{
		{"none", nil, nil},
		{"bare", []string{"Bearer"}, &oidc.Challenge{}},
		{"whole", []string{`Bearer realm="r", error="invalid_token", error_description="no \"token\"", scope="a b", resource_metadata="https://h/p?x=1,2"`},
			&oidc.Challenge{Realm: "r", Error: "invalid_token", ErrorDescription: `no "token"`, Scope: "a b", ResourceMetadata: "https://h/p?x=1,2"}},
		{"any case, spaces, no quotes", []string{"bEARER  Realm = r ,,ERROR=e , scope=\t\"s\""}, &oidc.Challenge{Realm: "r", Error: "e", Scope: "s"}},
		{"a URL without quotes", []string{"Bearer resource_metadata=https://h/p?a=b, scope=x"}, &oidc.Challenge{ResourceMetadata: "https://h/p?a=b", Scope: "x"}},
		{"without commas", []string{`Bearer error="e" scope="s"`}, &oidc.Challenge{Error: "e", Scope: "s"}},
		{"another scheme before", []string{`Basic realm="basic", charset="UTF-8", Bearer realm="bearer"`}, &oidc.Challenge{Realm: "bearer"}},
		{"another scheme behind", []string{`Bearer scope="s", Digest realm="d", error="e"`}, &oidc.Challenge{Scope: "s"}},
		{"a token68 before", []string{`Negotiate YWJj/+==, Bearer scope="s"`}, &oidc.Challenge{Scope: "s"}},
		{"a token68 called bearer", []string{`Negotiate Bearer, Basic scope="s"`}, nil},
		{"a scheme in a string", []string{`Basic realm="x, Bearer scope=\"s\""`}, nil},
		{"other schemes only", []string{`DPoP resource_metadata="https://h/p"`, "Negotiate"}, nil},
		{"several headers", []string{`Basic realm="x"`, `Bearer scope="s"`}, &oidc.Challenge{Scope: "s"}},
		{"the one with metadata", []string{`Bearer scope="a"`, `Bearer scope="b", resource_metadata="https://h/"`}, &oidc.Challenge{Scope: "b", ResourceMetadata: "https://h/"}},
		{"or the first", []string{`Bearer scope="a", Bearer scope="b"`}, &oidc.Challenge{Scope: "a"}},
		{"the first value counts", []string{`Bearer scope="a", scope="b"`}, &oidc.Challenge{Scope: "a"}},
		{"a string without an end", []string{`Bearer scope="a", realm="b`}, &oidc.Challenge{Scope: "a"}},
		{"control characters", []string{"Bearer scope=\"a\x01\", realm=\"b\""}, &oidc.Challenge{Realm: "b"}},
		{"a long value", []string{`Bearer scope="` + strings.Repeat("x", 9<<10) + `", realm="b"`}, &oidc.Challenge{Realm: "b"}},
		{"garbage", []string{`,,= "x" ;;, Bearer = , ="", "scope"="s"`}, nil},
		{"quotes that are not escaped", []string{`Bearer error="invalid_token", error_description=""exp" claim timestamp check failed", scope="s", resource_metadata="https://a/b"`},
			&oidc.Challenge{Error: "invalid_token", ErrorDescription: `"exp" claim timestamp check failed`, Scope: "s", ResourceMetadata: "https://a/b"}},
		{"garbage around", []string{`"" , Bearer scope="s" "junk" =x, realm="r"`}, &oidc.Challenge{Scope: "s", Realm: "r"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := oidc.ParseChallenge(http.Header{"Www-Authenticate": test.lines})
			if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
				t.Errorf("%q is %+v, want %+v", test.lines, got, test.want)
			}
		})
	}
}

// FuzzParseChallenge encodes a challenge among others and expects to read what was encoded.
func FuzzParseChallenge(f *testing.F) {
	f.Add("https://h/p", "a b", "invalid_token", `say "x"\`, "r", `Basic realm="x"`, byte(0))
	f.Add("", "", "", "", "", "Negotiate abc==", byte(7))
	f.Add(",", "=", `"`, `\`, " ", `"unterminated`, byte(255))
	f.Fuzz(func(t *testing.T, metadata, scope, code, description, realm, junk string, style byte) {
		oidc.ParseChallenge(http.Header{"Www-Authenticate": {junk}}) // whatever it is
		want := oidc.Challenge{ResourceMetadata: metadata, Scope: scope, Error: code, ErrorDescription: description, Realm: realm}
		var parts []string
		for _, p := range []struct {
			name  string
			value *string
		}{{"resource_metadata", &want.ResourceMetadata}, {"scope", &want.Scope}, {"error", &want.Error}, {"error_description", &want.ErrorDescription}, {"Realm", &want.Realm}} {
			if len(*p.value) > 1000 || strings.ContainsFunc(*p.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				*p.value = ""
			}
			equals := "="
			if style&1 != 0 {
				equals = " = "
			}
			parts = append(parts, p.name+equals+quote(*p.value))
		}
		separator := ", "
		if style&2 != 0 {
			separator = ","
		}
		line := "Bearer " + strings.Join(parts, separator)
		if style&4 != 0 {
			line = `Basic realm="a, Bearer scope=b",` + line
		}
		if style&8 != 0 {
			line += `, Digest realm="d", scope="not ours"`
		}
		got := oidc.ParseChallenge(http.Header{"Www-Authenticate": {line}})
		if got == nil || *got != want {
			t.Errorf("%q is %+v, want %+v", line, got, want)
		}
	})
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
