package redact_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

func TestSecretsOfAnyKindAreTakenOutOfAValue(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"text", `{"password": "a", "user" : "ada"}`, `{"password":"[redacted]","user":"ada"}`},
		{"an object", `{"credentials":{"user":"a","pass":"b"},"x":1}`, `{"credentials":"[redacted]","x":1}`},
		{"a list", `[{"tokens":["a",["b"]]},null,true,1.50]`, `[{"tokens":"[redacted]"},null,true,1.50]`},
		{"a name with escapes", `{"\u0070assword":"a"}`, `{"password":"[redacted]"}`},
		{"JSON in a string", `{"body":"{\"secret\":\"a\"}"}`, `{"body":"{\"secret\":\"[redacted]\"}"}`},
		{"a token in text", `"Bearer abcdefgh1234"`, `"Bearer [redacted]"`},
		{"no JSON", `{"a":1,"b":tru`, `{"a":1,"b":…`},
		{"the progress token", `{"progressToken":"p"}`, `{"progressToken":"p"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := redact.Value([]byte(test.in), 4096); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	long := redact.Value([]byte(`{"a":["`+strings.Repeat(`é","`, 10_000)+`"],"password":"`+strings.Repeat("x", 1<<20)+`"}`), 1000)
	if len(long) > 1010 || !strings.HasSuffix(long, "…") || !strings.HasPrefix(long, `{"a":["é","é"`) {
		t.Errorf("%d bytes: %.20s", len(long), long)
	}
}

func TestSecretsAreTakenOutOfAURI(t *testing.T) {
	for in, want := range map[string]string{
		"file:///a?b=c":                                 "file:///a?b=c",
		"https://ada:x@h/p?a=1&access_token=y#z":        "https://[redacted]@h/p?a=1&access_token=[redacted]#z",
		"https://h/cb#id_token=y&state=1":               "https://h/cb#id_token=[redacted]&state=1",
		"https://h/x?X-Amz-Signature=abc&X-Amz-Date=20": "https://h/x?X-Amz-Signature=[redacted]&X-Amz-Date=20",
		"mailto:ada@example.com":                        "mailto:ada@example.com",
	} {
		if got := redact.URI(in); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

// hostile is what a client or a server could have in a name, a header, a session id or a line
// of its standard error.
const hostile = "x\n{\"level\":\"ERROR\",\"msg\":\"forged\"}\rtime=now level=ERROR msg=forged\x1b[2J\x1b]0;t\x07\x7f\u0085\u009b31m\u2028\u2029\u202e\u2066\u200b\ufeff\U000e0041\x00\xff é"

func TestS56_LogsOfEitherFormatEscapeWhatOthersSay(t *testing.T) {
	for format, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(redact.JSONWriter{Writer: b}, nil) },
	} {
		var out bytes.Buffer
		log := slog.New(handler(&out))
		log.Info(hostile, hostile, hostile, slog.Group(hostile, "header", []string{hostile}), "error", &hostileError{})
		if strings.Count(out.String(), "\n") != 1 || !strings.HasSuffix(out.String(), "\n") {
			t.Errorf("%s: it is not one line: %q", format, out.String())
		}
		for _, r := range strings.TrimSuffix(out.String(), "\n") {
			if !unicode.IsPrint(r) {
				t.Errorf("%s: %q is in it", format, r)
			}
		}
		if format == "json" {
			var record map[string]any
			if err := json.Unmarshal(out.Bytes(), &record); err != nil || record["msg"] != strings.ToValidUTF8(hostile, "\ufffd") {
				t.Errorf("it reads as %q, %v", record["msg"], err)
			}
		}
	}
}

type hostileError struct{}

func (*hostileError) Error() string { return hostile }

func TestTextForATerminalDoesNothingToIt(t *testing.T) {
	for _, keep := range []string{"", "\n"} {
		got := redact.Printable("a\tb\n"+hostile, keep)
		for _, r := range got {
			if !unicode.IsPrint(r) && r != '\t' && !strings.ContainsRune(keep, r) {
				t.Errorf("%q is in it", r)
			}
		}
		if !strings.HasPrefix(got, "a\tb") || !strings.HasSuffix(got, " é") {
			t.Errorf("got %q", got)
		}
	}
}

func FuzzEscapedTextMeansTheSame(f *testing.F) {
	f.Add(hostile)
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		escaped := redact.AppendEscaped(nil, text)
		var before, after string
		if json.Unmarshal(text, &before) != nil || json.Unmarshal(escaped, &after) != nil || before != after {
			t.Errorf("%q becomes %q", before, after)
		}
		for _, r := range string(escaped) {
			if !unicode.IsPrint(r) {
				t.Errorf("%q is in it", r)
			}
		}
	})
}
