package fastpost_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/fastpost"
)

// handlers do what handlers may, by path.
var handlers = map[string]http.HandlerFunc{
	"/echo": func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v %v", b, err, r.ContentLength)
	},
	"/request": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s %s %v %q %q %q %v %v %v", r.Method, r.RequestURI, r.Proto, *r.URL, r.Host, r.RemoteAddr, r.Form, r.Close, r.TransferEncoding, r.TLS)
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			fmt.Fprintf(w, " %s=%q", name, r.Header[name])
		}
		fmt.Fprintf(w, " %v %v", r.Context().Value(http.LocalAddrContextKey), r.Context().Err())
		r.Header.Set("Content-Type", "changed") // for nobody else
		r.Header.Add("X-A", "added")
		r.Header.Set("X-New", "new")
		r.Header.Del("Accept")
		r.Header.Del("Content-Length")
	},
	"/nothing": func(http.ResponseWriter, *http.Request) {},
	"/unread":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusUnauthorized) },
	"/half": func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1))
		w.WriteHeader(http.StatusAccepted)
	},
	"/context": func(w http.ResponseWriter, r *http.Request) {
		s, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
		fmt.Fprint(w, ok && s != nil && s.ReadHeaderTimeout == headerTime, r.Context().Value(http.LocalAddrContextKey))
	},
	"/closed": func(w http.ResponseWriter, r *http.Request) {
		_ = r.Body.Close()
		n, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, n, err)
	},
	"/length": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "abc")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "def")
	},
	"/tooLong": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "abc")
		for range 2 {
			if _, err := io.WriteString(w, "defg"); !errors.Is(err, http.ErrContentLength) {
				panic(err)
			}
		}
	},
	"/short": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "abc")
	},
	"/limit":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<10)) },
	"/beyond": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<10+1)) },
	"/large":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 100<<10)) },
	"/largeWithLength": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(100<<10))
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<10))
		}
	},
	"/pieces": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 3000 {
			fmt.Fprintf(w, "%d,", i)
		}
	},
	"/flushed": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
	},
	"/flushedFirst": func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "<html>")
	},
	"/noContent": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "abc"); !errors.Is(err, http.ErrBodyNotAllowed) {
			panic(err)
		}
	},
	"/notModified": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotModified)
		w.(http.Flusher).Flush()
	},
	"/twice": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		w.Header().Set("X-Late", "1")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "x")
	},
	"/strangeStatus": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) },
	"/close": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestTimeout)
	},
	"/headers": func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Two"] = []string{"a", "b"}
		h["X-Split"] = []string{"a\r\nX-Injected: b"}
		h["no name"] = []string{"a"}
		h["X-No\r\nY"] = []string{"a"}
		h["X-Empty"] = []string{""}
		h["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	},
	"/encoded": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "<html>")
	},
	"/page":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
	"/panic": func(http.ResponseWriter, *http.Request) { panic("on purpose") },
	"/abort": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "abc")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	},
	"/past": func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
		_, _ = io.WriteString(w, "abc")
	},
	"/slow": func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(time.Minute):
			_, _ = io.WriteString(w, "late")
		case <-r.Context().Done():
			_, _ = io.WriteString(w, "left")
		}
	},
}

var mux = func() *http.ServeMux {
	m := http.NewServeMux()
	for path, h := range handlers {
		m.HandleFunc(path, h)
	}
	return m
}()

// compare has both sites be sent pieces of bytes, and reports whether the direct one has
// passed the connection on. When an unused connection ends may differ: net/http counts the
// time for a head from its fourth byte on if there was a request before.
func compare(t *testing.T, pieces ...string) (passedOn bool) {
	t.Helper()
	var got, want string
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, mux, true)
		got = s.transcript(t, pieces...)
		passedOn = s.passedOn() > 0
	})
	synctest.Test(t, func(t *testing.T) { want = newSite(t, mux, false).transcript(t, pieces...) })
	cut := func(s string) string { return s[:strings.LastIndex(s, " after ")] }
	if cut(got) != cut(want) {
		t.Errorf("%.300q\n got %.1500s\nwant %.1500s", pieces, got, want)
	}
	return passedOn
}

func TestHandlersCanDoWhatTheyCanInNetHTTP(t *testing.T) {
	for path := range handlers {
		t.Run(path[1:], func(t *testing.T) {
			again := post("/echo", "", "again")
			if compare(t, post(path, "Content-Type: application/json\r\n", `{"a":1}`), again) {
				t.Error("passed on to net/http")
			}
			compare(t, post(path, "", `{"a":1}`)+post(path, "", "")+again)
		})
	}
}

// requests are heads and bodies of all kinds, and whether they are answered directly.
var requests = map[string]struct {
	raw    string
	direct bool
}{
	"plain":                 {post("/request", "", "abc"), true},
	"as clients write it":   {post("/request", "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nAccept-Encoding: gzip\r\n", "abc"), true},
	"many headers":          {post("/request", strings.Repeat("X-A: 1\r\n", fastpost.MaxFields-2), "abc"), true},
	"small letters":         {"POST /request HTTP/1.1\r\nhost: localhost:80\r\ncontent-type:application/json\r\nmcp-session-id:  a b \t\r\nx-own-header: ä\r\ncontent-length: 3\r\n\r\nabc", true},
	"strange letters":       {post("/request", "x-oWN_h.e~ader: 1\r\nmCP-sESSION-iD: 2\r\n", "abc"), true},
	"a header twice":        {post("/request", "X-A: 1\r\nx-a: 2\r\nX-B: 3\r\nX-A: 4\r\n", ""), true},
	"empty values":          {post("/request", "X-A:\r\nAccept: \r\n", ""), true},
	"no body, no length":    {"POST /request HTTP/1.1\r\nHost: a\r\n\r\n", true},
	"length of zero":        {post("/echo", "", ""), true},
	"query":                 {post("/request?a=b&c=%20d;e", "", ""), true},
	"escapes":               {post("/re%71uest", "", ""), true},
	"path with two slashes": {post("//b/x://y", "", ""), true},
	"path with dots":        {post("/a/../request", "", ""), true},
	"keep-alive":            {post("/request", "Connection: Keep-Alive\r\n", "abc"), true},
	"IPv6 host":             {"POST /request HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", true},
	"long path":             {post("/"+strings.Repeat("x", 5000), "", ""), true},

	"other method":              {"PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", false},
	"get":                       {"GET /request HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"method that begins alike":  {"POSTER /request HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"method in small letters":   {"post /request HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"empty line before":         {"\r\n" + post("/echo", "", "a"), false},
	"HTTP/1.0":                  {"POST /request HTTP/1.0\r\nHost: a\r\n\r\n", false},
	"HTTP/1.2":                  {"POST /request HTTP/1.2\r\nHost: a\r\n\r\n", false},
	"no version":                {"POST /request\r\nHost: a\r\n\r\n", false},
	"two spaces":                {"POST  /request HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"space in the target":       {"POST /re quest HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"space behind the target":   {"POST /request  HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"bad escape":                {"POST /re%7 HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"letters beyond ASCII":      {"POST /ä HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"absolute target":           {"POST http://a/request HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"star":                      {"POST * HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"no target":                 {"POST  HTTP/1.1\r\nHost: a\r\n\r\n", false},
	"no host":                   {"POST /request HTTP/1.1\r\nX: a\r\n\r\n", false},
	"empty host":                {"POST /request HTTP/1.1\r\nHost:\r\n\r\n", false},
	"two hosts":                 {"POST /request HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", false},
	"strange host":              {"POST /request HTTP/1.1\r\nHost: a/b\r\n\r\n", false},
	"host that is none":         {"POST /request HTTP/1.1\r\nHost: a b\r\n\r\n", false},
	"no headers":                {"POST /request HTTP/1.1\r\n\r\n", false},
	"strange name":              {post("/request", "X(A): 1\r\n", ""), false},
	"control character":         {post("/request", "X-A: a\x01b\r\n", ""), false},
	"null":                      {post("/request", "X-A: a\x00b\r\n", ""), false},
	"delete":                    {post("/request", "X-A: a\x7fb\r\n", ""), false},
	"close":                     {post("/request", "Connection: close\r\n", ""), false},
	"several connections":       {post("/request", "Connection: keep-alive, X-A\r\n", ""), false},
	"upgrade":                   {post("/request", "Connection: Upgrade\r\nUpgrade: x\r\n", ""), false},
	"upgrade alone":             {post("/request", "Upgrade: x\r\n", ""), false},
	"pragma":                    {post("/request", "Pragma: no-cache\r\n", ""), false},
	"trailer":                   {post("/request", "Trailer: X-Sum\r\n", ""), false},
	"expectation that is known": {post("/request", "Expect: 100-continue\r\n", ""), false},
	"expectation that is not":   {post("/request", "Expect: more\r\n", ""), false},
	"chunked":                   {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", false},
	"unknown coding":            {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", false},
	"too many headers":          {post("/request", strings.Repeat("X-A: 1\r\n", fastpost.MaxFields-1), "abc"), false},
	"more than net/http takes":  {post("/request", strings.Repeat("X-A: 1\r\n", 600), "abc"), false},
	"long head":                 {post("/request", "X-A: "+strings.Repeat("x", 9000)+"\r\n", ""), false},
	"head that is too long":     {post("/request", "X-A: "+strings.Repeat("x", 2<<20)+"\r\n", ""), false},
	"long body":                 {post("/echo", "", strings.Repeat("x", 64<<10)), false},
	"largest body":              {post("/unread", "", strings.Repeat("x", 60<<10)), true},
	"length and coding":         {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	"length twice":              {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", false},
	"length with a sign":        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", false},
	"length beyond all numbers": {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n", false},
	"bare LF":                   {"POST /echo HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", false},
	"bare CR":                   {"POST /echo HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n", false},
	"field that continues":      {"POST /echo HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", false},
	"space before the colon":    {"POST /echo HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", false},
	"no colon":                  {"POST /echo HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", false},
	"broken off in the head":    {"POST /echo HTTP/1.1\r\nHost", true}, // that is, not passed on
	"broken off in the body":    {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", false},
	"HTTP/2":                    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
	"something else":            {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false},
}

func TestRequestsAreAnsweredAsByNetHTTP(t *testing.T) {
	again := post("/request", "", "again")
	for name, row := range requests {
		t.Run(name, func(t *testing.T) {
			if passedOn := compare(t, row.raw); passedOn == row.direct {
				t.Errorf("passed on: %v", passedOn)
			}
			compare(t, again+row.raw+again)
			if len(row.raw) < 1000 {
				compare(t, strings.Split(again+row.raw+again, "")...)
			}
		})
	}
}

// A head that is like the one before is not read again.
func TestHeadsThatAreAlikeSayWhatTheySay(t *testing.T) {
	head := func(length, behind string) string {
		return "POST /request HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nX-A: 1\r\ncontent-length:" + length + "\r\nX-B: 2" + behind + "\r\n\r\n"
	}
	tests := map[string][]string{
		"the same":                  {head("1", ""), "a", head("1", ""), "b", head("1", ""), "c"},
		"longer, shorter":           {head(" 1", ""), "a", head(" 10", ""), "0123456789", head(" 2", ""), "bc"},
		"no body":                   {head("1", ""), "a", head("0", ""), head("1", ""), "b"},
		"zeros before":              {head("1", ""), "a", head("0001", ""), "b", head("1", ""), "c"},
		"space around":              {head("\t1 ", ""), "a", head("\t12 ", ""), "abcdefghijkl", head(" 1", ""), "b"},
		"no length":                 {head("1", ""), "a", head("", ""), head("1", ""), "b"},
		"no number":                 {head("1", ""), "a", head("x", "")},
		"negative":                  {head("1", ""), "a", head("-1", "")},
		"two numbers":               {head("1", ""), "a", head("1, 1", ""), "b"},
		"two fields":                {head("1", ""), "a", head("1\r\nContent-Length: 1", ""), "b"},
		"another field":             {head("1", ""), "a", head("1\r\nX-C: 3", ""), "b", head("1", ""), "c"},
		"another value":             {head("1", ""), "a", head("1", "2"), "b", head("1", ""), "c"},
		"more than is for us":       {head("1", ""), "a", head("70000", ""), strings.Repeat("x", 70000), head("1", ""), "b"},
		"the end in the value":      {head("1", ""), "a", "POST /request HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nX-A: 1\r\ncontent-length:1\r\n\r\n", "b"},
		"too long to be remembered": {head("1", strings.Repeat("x", 3000)), "a", head("1", strings.Repeat("x", 3000)), "b", head("1", ""), "c"},
		"another kind between":      {head("1", ""), "a", "POST /nothing HTTP/1.1\r\nHost: a\r\n\r\n", head("1", ""), "b"},
	}
	for name, pieces := range tests {
		t.Run(name, func(t *testing.T) {
			compare(t, pieces...)
			compare(t, strings.Join(pieces, ""))
		})
	}
}

func TestRequestsMayComeInTwoPiecesCutAnywhere(t *testing.T) {
	raw := requests["as clients write it"].raw + requests["small letters"].raw + requests["chunked"].raw + post("/echo", "", "again")
	for i := range len(raw) {
		compare(t, raw[:i], raw[i:])
	}
}

// FuzzLikeNetHTTP looks for requests that are answered in another way than net/http does.
func FuzzLikeNetHTTP(f *testing.F) {
	for _, row := range requests {
		if len(row.raw) < 1000 {
			f.Add(row.raw, "", uint16(7))
		}
	}
	for path := range handlers {
		f.Add(post(path, "Content-Type: application/json\r\n", "{}"), post("/request", "X-A: b\r\n", "c"), uint16(40))
	}
	f.Fuzz(func(t *testing.T, first, second string, at uint16) {
		raw := first + second
		if len(raw) > 10<<10 {
			return // what is longer has nothing new
		}
		cut := int(at) % (len(raw) + 1)
		compare(t, raw[:cut], raw[cut:])
	})
}
