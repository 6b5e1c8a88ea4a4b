package httpserver_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

func TestS15_HeaderThatIsThereTwiceIsRefused(t *testing.T) {
	r := httptest.NewRequest("POST", "/mcp", nil)
	r.Header["Mcp-Name"] = []string{"\t echo \t"}
	r.Header["Mcp-Empty"] = []string{""}
	r.Header["Mcp-Twice"] = []string{"a", "a"}
	for _, test := range []struct {
		header, value string
		present, ok   bool
	}{
		{"mcp-name", "echo", true, true},
		{"Mcp-Empty", "", true, true},
		{"Mcp-Absent", "", false, true},
		{"Mcp-Twice", "", true, false},
	} {
		value, present, err := httpserver.Single(r, test.header)
		if value != test.value || present != test.present || (err == nil) != test.ok {
			t.Errorf("%s: %q, %t, %v", test.header, value, present, err)
		}
		if err != nil && !strings.Contains(err.Error(), test.header) {
			t.Errorf("%s: the error is %v", test.header, err)
		}
	}
}

func TestS22_B12_SessionIdsAreLongVisibleAndUnique(t *testing.T) {
	seen := make(map[string]bool)
	for range 100_000 {
		id := httpserver.NewID()
		if seen[id] {
			t.Fatalf("%s came twice", id)
		}
		seen[id] = true
		if len(id) < 26 || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			t.Fatalf("%q is short of 128 bits in base32, or not visible", id)
		}
	}
}

func TestS15_HeaderValuesAreEncodedOnlyWhereTheyMustBe(t *testing.T) {
	for _, test := range []struct{ text, header string }{
		{"", ""},
		{"eu-north", "eu-north"},
		{"two words", "two words"},
		{"~!\"", "~!\""},
		{"naïve_tool", "=?base64?bmHDr3ZlX3Rvb2w=?="},
		{"ファイル検索", "=?base64?44OV44Kh44Kk44Or5qSc57Si?="},
		{"=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="},
		{"=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"=?base64?x", "=?base64?x"},
		{"=?BASE64?x?=", "=?BASE64?x?="},
		{"x?=", "x?="},
		{" a", "=?base64?IGE=?="},
		{"a ", "=?base64?YSA=?="},
		{"a\tb", "=?base64?YQli?="},
		{"a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="},
		{"\x00", "=?base64?AA==?="},
		{"\x7f", "=?base64?fw==?="},
	} {
		if got := httpframe.EncodeHeaderValue(test.text); got != test.header {
			t.Errorf("%q is encoded as %q, want %q", test.text, got, test.header)
		}
		if got, err := httpframe.DecodeHeaderValue(test.header); err != nil || got != test.text {
			t.Errorf("%q is decoded as %q, %v, want %q", test.header, got, err, test.text)
		}
	}
}

func TestS15_HeaderValuesAreDecodedOnlyIfTheyAreMarkedAndSound(t *testing.T) {
	for _, test := range []struct{ header, want string }{
		{"=?base64?Y291bnQ=?=", "count"},
		{"=?base64??=", ""},
		{"=?base64?=", "=?base64?="},
		{"=?BASE64?Y291bnQ=?=", "=?BASE64?Y291bnQ=?="},
		{"=?base64?Y291bnQ=", "=?base64?Y291bnQ="},
		{"a\tb", "a\tb"},
	} {
		if got, err := httpframe.DecodeHeaderValue(test.header); err != nil || got != test.want {
			t.Errorf("%q is decoded as %q, %v, want %q", test.header, got, err, test.want)
		}
	}
	for _, bad := range []string{
		"=?base64?Y291bnQ?=", "=?base64?Y291bnQ==?=", "=?base64?Y291bnR=?=", "=?base64?Y29_bnQ=?=", "=?base64?Y29 1bnQ=?=",
		"=?base64?Y29\r\n1bnQ=?=", "=?base64?/w==?=", "naïve", "\x00", "a\nb", "\x7f", "\xff",
	} {
		if got, err := httpframe.DecodeHeaderValue(bad); err == nil {
			t.Errorf("%q is decoded as %q, want an error", bad, got)
		}
	}
}

func FuzzHeaderValue(f *testing.F) {
	for _, s := range []string{"", "echo", " a", "naïve", "=?base64?x?=", "=?base64?=", "=?base64?Y291bnQ=?=", "\xff", "a\tb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = httpframe.DecodeHeaderValue(s)
		header := httpframe.EncodeHeaderValue(s)
		for i := range len(header) {
			if header[i] < ' ' || header[i] > '~' {
				t.Fatalf("%q is encoded as %q, which no header may hold", s, header)
			}
		}
		if strings.TrimSpace(header) != header {
			t.Fatalf("%q is encoded as %q, which loses its ends on the way", s, header)
		}
		switch got, err := httpframe.DecodeHeaderValue(header); {
		case !utf8.ValidString(s):
			if err == nil {
				t.Errorf("%q is no text, but %q is decoded as %q", s, header, got)
			}
		case err != nil || got != s:
			t.Errorf("%q is encoded as %q, which is decoded as %q, %v", s, header, got, err)
		}
	})
}

func TestMirroredNameIsWhatTheMethodIsAbout(t *testing.T) {
	const params = `{"name":"n\u0061me","uri":"file:///x","taskId":"t1"}`
	for _, test := range []struct {
		method, params, want string
		ok                   bool
	}{
		{"tools/call", params, "name", true},
		{"prompts/get", params, "name", true},
		{"resources/read", params, "file:///x", true},
		{"tasks/get", params, "t1", true},
		{"tasks/update", params, "t1", true},
		{"tasks/cancel", params, "t1", true},
		{"tools/call", `{"name":""}`, "", true},
		{"tools/list", params, "", false},
		{"resources/subscribe", params, "", false},
		{"tasks/result", params, "", false},
		{"tools/call", `{}`, "", false},
		{"tools/call", `{"name":5}`, "", false},
		{"tasks/get", `{"taskId":null}`, "", false},
	} {
		m, err := dragoman.NewRequest(dragoman.IntID(1), test.method, []byte(test.params))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := httpframe.MirrorName(m); got != test.want || ok != test.ok {
			t.Errorf("%s %s: %q, %t, want %q, %t", test.method, test.params, got, ok, test.want, test.ok)
		}
	}
}
