package redact_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

func TestA32_LinesForPeopleShowNoValuesOfSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"API_KEY=abc":                              "API_KEY=[redacted]",
		"using GITHUB_TOKEN=a1 and HOME=/srv":      "using GITHUB_TOKEN=[redacted] and HOME=/srv",
		"OPENAI_KEY=x1 OTHER=2":                    "OPENAI_KEY=[redacted] OTHER=2",
		"password=1234":                            "password=[redacted]",
		"DB_PASSWORD = 'a b c', user = ada":        "DB_PASSWORD = [redacted], user = ada",
		"token: x9":                                "token: [redacted]",
		"Token: hunter":                            "Token: [redacted]",
		"api key: abc123, ready":                   "api key: [redacted], ready",
		"api-key: \"abc\" ready":                   "api-key: [redacted] ready",
		"secret:abc":                               "secret:[redacted]",
		"invalid token: ab-cd for ada":             "invalid token: [redacted] for ada",
		"Authorization: Bearer abc":                "Authorization: Bearer [redacted]",
		"Authorization: Bearer abcdefgh12345678":   "Authorization: Bearer [redacted]",
		"Cookie: sid=abc; theme=dark":              "Cookie: [redacted]; theme=dark",
		"GET https://x.example/?a=1&token=abc&b=2": "GET https://x.example/?a=1&token=[redacted]&b=2",
		"clientSecret=ab) done":                    "clientSecret=[redacted]) done",
		"password=ab ghp_0123456789abcdefghij0123": "password=[redacted] [redacted]",
		"SECRET_KEY_BASE=ab":                       "SECRET_KEY_BASE=[redacted]",
		`{"level":"info","token":"abc"}`:           `{"level":"info","token":"[redacted]"}`,
		"pass_word: ab1, pass-phrase=x":            "pass_word: [redacted], pass-phrase=[redacted]",
		"using api.key=a1":                         "using api.key=[redacted]",
		"reason: password=ab":                      "reason: password=[redacted]",
		"dial redis://ada:ab@h: refused":           "dial redis://[redacted]@h: refused",
		`{'password': 'a', 'user': 'ada'}`:         `{'password': [redacted], 'user': 'ada'}`,
		"password=" + strings.Repeat("ä", 20):      "password=[redacted]",
	} {
		if got := redact.Line(in); got != want {
			t.Errorf("%s\nis shown as\n%s, want\n%s", in, got, want)
		}
		if got := redact.Line(redact.Line(in)); got != want {
			t.Errorf("%s\nis shown the second time as\n%s, want\n%s", in, got, want)
		}
	}
}

func TestLinesForPeopleCanBeRead(t *testing.T) {
	for _, line := range []string{
		"Listening on http://localhost:3000", "Server started: version 1.2.3", "max_tokens=4096 temperature=0.2", "used tokens: 120", "token_count=12",
		"SyntaxError: Unexpected token: foo", "Unexpected token < in JSON at position 0", "invalid token: expected string, got number", "secret: not found in vault",
		"token: missing", "password: required", "Error validating token: connection refused", "PUBLIC_KEY=abc", "primary_key=id", "progressToken: 7", "the password is wrong",
		"cookies=3", "2026-07-28 15:04:05 INFO ready", "token == null", "secret://vault/path", "key: value", "",
	} {
		if got := redact.Line(line); got != line {
			t.Errorf("%s\nis shown as\n%s", line, got)
		}
	}
}

func TestKnownValuesAreReplacedAndWordsAroundThemStay(t *testing.T) {
	values := []string{"abc", "abcdefg", "true", "8080", "no", "ünd"}
	for in, want := range map[string]string{
		"abc":                       "[redacted]",
		"with abc, and 'abc'.":      "with [redacted], and '[redacted]'.",
		"abcd xabc abc_1 äabc":      "abcd xabc abc_1 äabc",
		"xabcdefgx":                 "x[redacted]x",
		"true 8080 no":              "true 8080 no",
		"ünd ründ":                  "[redacted] ründ",
		"abcabc abc":                "abcabc [redacted]",
		"":                          "",
		"nothing to hide \xff\xfe.": "nothing to hide \xff\xfe.",
		"\xffabc\xff":               "\xff[redacted]\xff",
	} {
		if got := redact.Values(in, values); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestShortValuesAreSecretsIfTheNameLeavesNoDoubt(t *testing.T) {
	for name, want := range map[string]bool{"API_KEY": true, "DB_PASS": true, "TOKEN": true, "BASIC_AUTH": true, "AUTH_MODE": false, "PASSIVE": false, "KEYBOARD": false} {
		if redact.IsSecret(name, "abc") != want || !redact.IsSecret(name, "abcdef") {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestVariablesAreSecretsByNameOrByValue(t *testing.T) {
	for variable, want := range map[[2]string]bool{
		{"DATABASE_URL", "postgres://me:abcdef@db/x"}: true,
		{"DATABASE_URL", "postgres://db/x"}:           false,
		{"MY_CREDS", "abcdef"}:                        true,
		{"npm_config__authToken", "abcdef"}:           true,
		{"KEYRING_BACKEND", "abcdef"}:                 false,
		{"KEYS", "abcdef"}:                            true,
		{"HOME", "/home/me"}:                          false,
		{"DB_PWD", "abcdef"}:                          true,
		{"PWD", "/home/me"}:                           false,
	} {
		if redact.IsSecret(variable[0], variable[1]) != want || redact.MayBeSecret(variable[0], variable[1]) != want {
			t.Errorf("%s=%s: %v, want %v", variable[0], variable[1], !want, want)
		}
	}
}

// FuzzLinesShowNoValues writes a secret behind a name in a line.
func FuzzLinesShowNoValues(f *testing.F) {
	f.Add("", "password", "hunter2", " more", true)
	f.Add("a: b, ", "X_TOKEN", "1", "", false)
	f.Fuzz(func(t *testing.T, before, name, value, behind string, equals bool) {
		if got := redact.Line(before + name + value + behind); len(got) > 3*(len(before)+len(name)+len(value)+len(behind))+100 {
			t.Errorf("it has become much longer: %q", got)
		}
		switch name {
		case "password", "X_TOKEN", "api_key":
		default:
			return
		}
		secret := "7" + strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
				return r
			}
			return -1
		}, value) + "7"
		if len(secret) < 8 || len(before+behind) > 200 || strings.Contains(before+behind, secret) || strings.ContainsAny(before, "\"'`\\") {
			return
		}
		separator := ": "
		if equals {
			separator = "="
		}
		if line := before + " " + name + separator + secret + " " + behind; strings.Contains(redact.Line(line), secret) {
			t.Errorf("%q is shown as %q", line, redact.Line(line))
		}
	})
}
