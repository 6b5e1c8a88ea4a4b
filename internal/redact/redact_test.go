package redact_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/redact"
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
		{"pages on which a caller signs in", `{"message":"sign in: https://gw.example.com/oauth/servers/s/sign-in?id=abc123, then go on"}`, `{"message":"sign in: [redacted] then go on"}`},
		{"progress tokens are none", `{"_meta":{"progressToken":"p1"},"progressToken":7}`, `{"_meta":{"progressToken":"p1"},"progressToken":7}`},
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
