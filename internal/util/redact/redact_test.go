package redact_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

func TestA32_SecretsAreTakenOutAndTheRestStays(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"by name", `{"password":"hunter2","user":"ada"}`, `{"password":"[redacted]","user":"ada"}`},
		{"by part of a name, in any case", `{"openAIApiKey" : "k1","X-API-KEY":"k2","clientSecret":"k3"}`, `{"openAIApiKey" : "[redacted]","X-API-KEY":"[redacted]","clientSecret":"[redacted]"}`},
		{"with escapes", `{"token":"a\"b\\","x":1}`, `{"token":"[redacted]","x":1}`},
		{"a name with escapes", `{"pass\u0077ord":"a","\u0074oken":2}`, `{"pass\u0077ord":"[redacted]","\u0074oken":"[redacted]"}`},
		{"a name with escapes in a string", `{"text":"{\"pass\\u0077ord\":\"a\\\"b\"}"}`, `{"text":"{\"pass\\u0077ord\":\"[redacted]\"}"}`},
		{"a number", `{"access_token":12345,"x":1}`, `{"access_token":"[redacted]","x":1}`},
		{"cut in the middle", `{"x":1,"secret":"abcdef`, `{"x":1,"secret":"[redacted]"`},
		{"JSON in a string", `{"text":"{\"api_key\":\"abc\",\"n\":1}"}`, `{"text":"{\"api_key\":\"[redacted]\",\"n\":1}"}`},
		{"a bearer token in text", `{"text":"use Authorization: Bearer abcdefgh12345678"}`, `{"text":"use Authorization: Bearer [redacted]"}`},
		{"known shapes", "ghp_0123456789abcdefghij0123 and AKIAIOSFODNN7EXAMPLE", "[redacted] and [redacted]"},
		{"pages on which a caller signs in", `{"message":"sign in: https://gw.example.com/oauth/servers/s/sign-in?id=abc123, then continue"}`, `{"message":"sign in: [redacted] then continue"}`},
		{"progress tokens are none", `{"_meta":{"progressToken":"p1"},"progressToken":7}`, `{"_meta":{"progressToken":"p1"},"progressToken":7}`},
		{"a name however it is divided", `{"pass_word":"a","apiKey":"b","client-secret":"c","API-KEY":"d","Pass Phrase":"e","x.api.key":"f","session__ID":"g"}`, `{"pass_word":"[redacted]","apiKey":"[redacted]","client-secret":"[redacted]","API-KEY":"[redacted]","Pass Phrase":"[redacted]","x.api.key":"[redacted]","session__ID":"[redacted]"}`},
		{"user and password of a URL", `{"url":"postgres://ada:hunter2@db/x","n":1}`, `{"url":"postgres://[redacted]@db/x","n":1}`},
		{"parameters of a URL", `{"text":"see https://h/x?page=2&api-key=k1&Pass_Word=k2, and b"}`, `{"text":"see https://h/x?page=2\u0026api-key=[redacted]\u0026Pass_Word=[redacted], and b"}`},
		{"a URL with escapes", `{"url":"https:\/\/ada:k1@h\/x?a=1\u0026token=k2"}`, `{"url":"https://[redacted]@h/x?a=1\u0026token=[redacted]"}`},
		{"a URL in JSON in a string", `{"text":"{\"url\":\"ws://ada:k1@h/?sig=k2\"}"}`, `{"text":"{\"url\":\"ws://[redacted]@h/?sig=[redacted]\"}"}`},
		{"nothing to hide", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := redact.JSON([]byte(test.in)); got != test.want {
				t.Errorf("JSON(%s) =\n%s, want\n%s", test.in, got, test.want)
			}
		})
	}
}

func TestLongTextIsCut(t *testing.T) {
	got := redact.JSON([]byte(`{"x":"` + strings.Repeat("y", 1<<20) + `"}`))
	if len(got) > 4096 || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-10:])
	}
}

func TestURLsInTextShowNoSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"get https://ada:p@ss@h.example/x: refused": "get https://[redacted]@h.example/x: refused",
		"https://token@h":                                   "https://[redacted]@h",
		`Get "https://h/?apiKey=a'b(c)d": EOF`:              `Get "https://h/?apiKey=[redacted]": EOF`,
		"(https://h/?client-secret=abc).":                   "(https://h/?client-secret=[redacted]).",
		"'https://h/?a=1&pass%77ord=abc' and more":          "'https://h/?a=1&pass%77ord=[redacted]' and more",
		"GET /x?access_token=abc HTTP/1.1":                  "GET /x?access_token=[redacted] HTTP/1.1",
		"https://h/cb#id_token=abc&state=1":                 "https://h/cb#id_token=[redacted]&state=1",
		"https://h/?key=abc&code=def&X-Amz-Signature=1&z=2": "https://h/?key=[redacted]&code=[redacted]&X-Amz-Signature=[redacted]&z=2",
		"https://h/?design=a&monkey=2&page=3":               "https://h/?design=a&monkey=2&page=3",
		"mail ada@example.com, see http://h/a@b":            "mail ada@example.com, see http://h/a@b",
		"http://h/?q=a@b":                                   "http://h/?q=a@b",
		"?token=a":                                          "?token=[redacted]",
	} {
		if got := redact.Text(in); got != want {
			t.Errorf("%s\nis shown as\n%s, want\n%s", in, got, want)
		}
		if got := redact.Text(redact.Text(in)); got != want {
			t.Errorf("%s\nis shown the second time as\n%s, want\n%s", in, got, want)
		}
	}
}

func TestURLThatIsCutBeforeItsHostShowsNoSecret(t *testing.T) {
	url := "https://ada:" + strings.Repeat("hunter2", 1000) + "@h/"
	for name, got := range map[string]string{
		"JSON":  redact.JSON([]byte(`{"url":"` + url + `"}`)),
		"Value": redact.Value([]byte(`{"url":"`+url+`"}`), 100),
		"Cut":   redact.Cut(url, 100),
	} {
		if strings.Contains(got, "hunter2") || !strings.HasSuffix(strings.TrimRight(got, "\"}…"), "https://[redacted]") {
			t.Errorf("%s shows %s", name, got)
		}
	}
}
