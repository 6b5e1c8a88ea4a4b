package credential_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/credential"
	"github.com/dragoman-mcp/dragoman/internal/util/proc"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// helperVariable makes the test binary be the command that prints tokens.
const helperVariable = "DRAGOMAN_TEST_CREDENTIAL"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		help(os.Args[1], os.Args[2])
	}
	os.Exit(m.Run())
}

// help is the command: it does what how says, with a file or a URL.
func help(how, with string) {
	switch how {
	case "print": // the file, and note that it ran
		runs, _ := os.OpenFile(with+".runs", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		_, _ = runs.WriteString("x")
		_ = runs.Close()
		text, _ := os.ReadFile(with)
		_, _ = os.Stdout.Write(text)
	case "fail":
		fmt.Print("sekret-token")
		fmt.Fprintln(os.Stderr, "cannot do it: Bearer sekret-token")
		os.Exit(3)
	case "flood":
		_, _ = io.Copy(os.Stdout, io.LimitReader(zeros{}, 1<<20))
	case "noise": // a lot on standard error is no harm
		_, _ = io.Copy(os.Stderr, io.LimitReader(zeros{}, 1<<20))
		fmt.Print("sekret-token")
	case "nest": // hang in a process of its own
		self, _ := os.Executable()
		_ = exec.Command(self, "hang", with).Run()
	case "hang":
		_, _ = http.Get(with)
	}
	os.Exit(0)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A server lets those in who have the token.
type server struct {
	*httptest.Server

	mu     sync.Mutex
	accept string // the Authorization header
	got    []http.Header
	bodies []string
}

func newServer(t *testing.T, accept string) *server {
	t.Helper()
	s := &server{accept: accept}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got, s.bodies = append(s.got, r.Header), append(s.bodies, string(body))
		if r.Header.Get("Authorization") != s.accept {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// wants changes which token lets in, and forgets what came.
func (s *server) wants(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accept, s.got, s.bodies = "Bearer "+token, nil, nil
}

// count returns how many requests have come.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

// open returns a client with the credentials.
func open(t *testing.T, c credential.Config) (*http.Client, *credential.Source) {
	t.Helper()
	s, err := credential.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{}
	t.Cleanup(func() {
		s.Close()
		base.CloseIdleConnections()
	})
	return &http.Client{Transport: s.Transport(base)}, s
}

// post sends a request, and returns its status or its error.
func post(t *testing.T, c *http.Client, at string) (int, error) {
	t.Helper()
	resp, err := c.Post(at, "text/plain", strings.NewReader("hello"))
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// file writes a file.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	write(t, name, text)
	return name
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command returns the command that does what how says.
func command(t *testing.T, how, with string) []string {
	t.Helper()
	t.Setenv(helperVariable, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, how, with}
}

// runs returns how often the command has printed a file.
func runs(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(name + ".runs")
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

func TestATokenFileThatChangesIsReadAgain(t *testing.T) {
	s, name := newServer(t, "Bearer one"), file(t, "one\n")
	c, _ := open(t, credential.Config{Server: s.URL + "/mcp", TokenFile: name})
	if status, err := post(t, c, s.URL); status != http.StatusOK || s.count() != 1 {
		t.Fatalf("the first token: %d %v, %d requests", status, err, s.count())
	}
	s.wants("another")
	write(t, name, "another")
	if status, err := post(t, c, s.URL); status != http.StatusOK || s.count() != 1 {
		t.Errorf("after a change: %d %v, %d requests, want one with the new token", status, err, s.count())
	}
	// A change that size and date do not show is found when the token is refused.
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	s.wants("ANOTHER")
	write(t, name, "ANOTHER")
	if err := os.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if status, err := post(t, c, s.URL); status != http.StatusOK || !slices.Equal(s.bodies, []string{"hello", "hello"}) {
		t.Errorf("after a change that cannot be seen: %d %v, bodies %q", status, err, s.bodies)
	}
	s.wants("none")
	if status, err := post(t, c, s.URL); status != http.StatusUnauthorized || s.count() != 1 {
		t.Errorf("a token that is refused for good: %d %v, %d requests, want the refusal of one", status, err, s.count())
	}
}

// Who writes a file again empties it first.
func TestATokenFileThatIsBeingWrittenIsNotReadYet(t *testing.T) {
	s, name := newServer(t, "Bearer one"), file(t, "one")
	c, _ := open(t, credential.Config{Server: s.URL, TokenFile: name})
	for _, test := range []struct {
		emptied time.Duration // so long ago; in the future, so that a slow machine does not matter
		fails   bool
	}{{-time.Minute, false}, {2 * time.Second, true}} {
		if status, err := post(t, c, s.URL); status != http.StatusOK {
			t.Fatalf("with a token: %d %v", status, err)
		}
		write(t, name, "")
		then := time.Now().Add(-test.emptied)
		if err := os.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
		if status, err := post(t, c, s.URL); (err != nil) != test.fails {
			t.Errorf("emptied %v ago: %d %v", test.emptied, status, err)
		}
		write(t, name, "one")
	}
}

func TestWhatIsWrongWithATokenFileIsSaidWithoutTheToken(t *testing.T) {
	s := newServer(t, "Bearer x")
	for text, want := range map[string]string{
		"":                           "one token without white space",
		"sekret token":               "one token without white space",
		"sekret\nsekret":             "one token without white space",
		strings.Repeat("s", 65<<10):  "more than 65536 bytes",
		"sekret-with-\x00-a-zero":    "one token without white space",
		"Authorization: Bearer sekr": "one token without white space",
	} {
		c, _ := open(t, credential.Config{Server: s.URL, TokenFile: file(t, text)})
		_, err := post(t, c, s.URL)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sekr") {
			t.Errorf("%.20q: %v", text, err)
		}
		if fault, ok := errors.AsType[protocol.Fault](err); !ok || fault.Outcome() != protocol.OutcomeNotSent {
			t.Errorf("%.20q: the error does not say that nothing was sent", text)
		}
	}
	for _, name := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		c, _ := open(t, credential.Config{Server: s.URL, TokenFile: name})
		if _, err := post(t, c, s.URL); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a file that is not there, or none: %v", err)
		}
	}
	if s.count() != 0 {
		t.Errorf("%d requests were sent", s.count())
	}
}

func TestS28_CredentialsGoToTheServerAlone(t *testing.T) {
	s, other := newServer(t, "Bearer one"), newServer(t, "")
	c, _ := open(t, credential.Config{Server: s.URL + "/mcp", TokenFile: file(t, "one")})
	if _, err := post(t, c, other.URL); err != nil || other.got[0].Get("Authorization") != "" {
		t.Errorf("another server got %v (%v)", other.got, err)
	}
}

func TestACommandRunsOnceForAllWhoWait(t *testing.T) {
	s, name := newServer(t, "Bearer one"), file(t, "one")
	c, _ := open(t, credential.Config{Server: strings.Replace(s.URL, "http", "ws", 1), Command: command(t, "print", name)})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if status, err := post(t, c, s.URL); status != http.StatusOK {
				t.Errorf("%d %v", status, err)
			}
		})
	}
	all.Wait()
	if n := runs(t, name); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestACommandRunsAgainWhenItsTokenIsRefused(t *testing.T) {
	s, name := newServer(t, "Bearer one"), file(t, "one")
	c, source := open(t, credential.Config{Server: s.URL, Command: command(t, "print", name)})
	if status, err := post(t, c, s.URL); status != http.StatusOK {
		t.Fatal(status, err)
	}
	s.wants("two")
	write(t, name, "two")
	status, err := post(t, c, s.URL)
	if status != http.StatusOK || runs(t, name) != 2 || !slices.Equal(s.bodies, []string{"hello", "hello"}) {
		t.Errorf("%d %v after %d runs, bodies %q", status, err, runs(t, name), s.bodies)
	}
	if got := source.Secrets(); !slices.Equal(got, []string{"Bearer two", "two"}) {
		t.Errorf("the secrets are %q", got)
	}
	s.wants("three") // and the command has no other: it is not run for every request
	for range 3 {
		if status, err := post(t, c, s.URL); status != http.StatusUnauthorized {
			t.Error(status, err)
		}
	}
	if runs(t, name) != 2 || s.count() != 3 {
		t.Errorf("%d runs and %d requests, want 2 and 3", runs(t, name), s.count())
	}
}

func TestABodyThatCannotBeHadAgainGetsTheRefusalAndTheNextRequestTheNewToken(t *testing.T) {
	s, name := newServer(t, "Bearer one"), file(t, "one")
	c, _ := open(t, credential.Config{Server: s.URL, Command: command(t, "print", name)})
	if status, err := post(t, c, s.URL); status != http.StatusOK {
		t.Fatal(status, err)
	}
	s.wants("two")
	write(t, name, "two")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, io.MultiReader(strings.NewReader("once")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || s.count() != 1 {
		t.Fatalf("%v %v, %d requests", resp, err, s.count())
	}
	_ = resp.Body.Close()
	if status, err := post(t, c, s.URL); status != http.StatusOK || s.count() != 2 {
		t.Errorf("the next: %d %v, %d requests", status, err, s.count())
	}
}

func TestWhatACommandPrintsIsSentUntilItEnds(t *testing.T) {
	for _, test := range []struct {
		prints string
		again  bool // it has ended at once
		want   http.Header
	}{
		{"tok\n", false, http.Header{"Authorization": {"Bearer tok"}}},
		{`{"token":"tok"}`, false, http.Header{"Authorization": {"Bearer tok"}}},
		{`{"token":"tok","expiresIn":3600}`, false, http.Header{"Authorization": {"Bearer tok"}}},
		{`{"token":"tok","expiresAt":"2020-01-01T00:00:00Z"}`, true, http.Header{"Authorization": {"Bearer tok"}}},
		{`{"token":"tok","expiresIn":0.000000001}`, true, http.Header{"Authorization": {"Bearer tok"}}},
		{`{"headers":{"x-key":"k","Authorization":"Basic dTpw"},"expiresAt":"2999-01-01T00:00:00+02:00"}`, false, http.Header{"X-Key": {"k"}, "Authorization": {"Basic dTpw"}}},
		{`{"X-Key":"k","X-Other":"o"}`, false, http.Header{"X-Key": {"k"}, "X-Other": {"o"}}},
	} {
		s, name := newServer(t, test.want.Get("Authorization")), file(t, test.prints)
		c, _ := open(t, credential.Config{Server: s.URL, Command: command(t, "print", name)})
		for range 2 {
			if status, err := post(t, c, s.URL); status != http.StatusOK {
				t.Errorf("%s: %d %v", test.prints, status, err)
			}
		}
		for name := range test.want {
			if got := s.got[0].Values(name); !slices.Equal(got, test.want[name]) {
				t.Errorf("%s: %s is %q", test.prints, name, got)
			}
		}
		if n := runs(t, name); n != 1 && !test.again || n != 2 && test.again {
			t.Errorf("%s: it ran %d times", test.prints, n)
		}
	}
}

func TestWhatACommandMustNotPrintIsRefusedAndNotRepeated(t *testing.T) {
	s := newServer(t, "")
	for _, prints := range []string{
		"", "sekret token", `{"sekret`, `{}`, `{"token":""}`, `{"token":7}`, `{"token":"sekret token"}`, `{"headers":["sekret"]}`,
		`{"headers":{"A B":"sekret"}}`, `{"headers":{"A":"sekret\r\nB: c"}}`, `{"Host":"sekret"}`, `{"Mcp-Session-Id":"sekret"}`,
		`{"A":"sekret","b":1}`, `{"token":"sekret","expiresAt":"tomorrow"}`,
	} {
		c, _ := open(t, credential.Config{Server: s.URL, Command: command(t, "print", file(t, prints))})
		if _, err := post(t, c, s.URL); err == nil || !strings.Contains(err.Error(), "run it by hand") || strings.Contains(err.Error(), "sekret") {
			t.Errorf("%s: %v", prints, err)
		}
	}
	if s.count() != 0 {
		t.Errorf("%d requests were sent", s.count())
	}
}

func TestACommandThatFailsIsToldOfAndNothingIsSent(t *testing.T) {
	s := newServer(t, "")
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for how, want := range map[string]string{"fail": "fails with exit status 3; run it by hand", "flood": "prints more than 65536 bytes"} {
		c, _ := open(t, credential.Config{Server: s.URL, Command: command(t, how, ""), Logger: log})
		_, err := post(t, c, s.URL)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sekret") {
			t.Errorf("%s: %v", how, err)
		}
		if fault, ok := errors.AsType[protocol.Fault](err); !ok || fault.Outcome() != protocol.OutcomeNotSent {
			t.Errorf("%s: the error does not say that nothing was sent", how)
		}
	}
	c, _ := open(t, credential.Config{Server: s.URL, Command: []string{filepath.Join(t.TempDir(), "none")}})
	if _, err := post(t, c, s.URL); err == nil || !strings.Contains(err.Error(), "cannot be started") {
		t.Errorf("a command that is not there: %v", err)
	}
	refuse := func(cmd *exec.Cmd) error { return fmt.Errorf("%s: %w", cmd.Path, proc.ErrNotAllowed) }
	c, _ = open(t, credential.Config{Server: s.URL, Command: command(t, "fail", ""), Vet: refuse})
	if _, err := post(t, c, s.URL); err == nil || !strings.Contains(err.Error(), "must not be started") || !strings.Contains(err.Error(), "add its path to the list") {
		t.Errorf("a command that is not allowed: %v", err)
	}
	if !strings.Contains(logged.String(), "cannot do it") || strings.Contains(logged.String(), "sekret") {
		t.Errorf("the log is %s", logged.String())
	}
	if s.count() != 0 {
		t.Errorf("%d requests were sent", s.count())
	}
}

func TestNoiseOnStandardErrorIsNoHarm(t *testing.T) {
	s := newServer(t, "Bearer sekret-token")
	c, _ := open(t, credential.Config{Server: s.URL, Command: command(t, "noise", "")})
	if status, err := post(t, c, s.URL); status != http.StatusOK {
		t.Error(status, err)
	}
}

func TestACommandThatHangsEndsWithItsSourceAndWithAllThatItHasStarted(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	hold := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done() // the process is gone
		close(ended)
	}))
	defer hold.Close()
	how := "nest"
	if runtime.GOOS == "windows" {
		how = "hang" // it has no process groups
	}
	c, source := open(t, credential.Config{Server: "http://h", Command: command(t, how, hold.URL)})
	failed := make(chan error)
	go func() {
		_, err := post(t, c, "http://h")
		failed <- err
	}()
	<-began
	source.Close()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "was ended") {
		t.Errorf("the request: %v", err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("what it has started continues")
		hold.CloseClientConnections()
	}
}

// Who waits for a command that waits for somebody is told so after ten seconds, and the
// command is gone.
func TestACommandMayTakeTenSeconds(t *testing.T) {
	hold := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hold.Close() // which waits until the process is gone
	s := newServer(t, "")
	c, source := open(t, credential.Config{Server: s.URL, Command: command(t, "hang", hold.URL)})
	limit := credential.CommandLimit(source)
	if *limit != 10*time.Second {
		t.Errorf("it may take %v", *limit)
	}
	*limit = 500 * time.Millisecond
	_, err := post(t, c, s.URL)
	if err == nil || !strings.Contains(err.Error(), "takes longer than 500ms; it must not wait for anybody: run it by hand") || !protocol.NotSent(err) {
		t.Errorf("the request: %v", err)
	}
	if s.count() != 0 {
		t.Errorf("%d requests were sent", s.count())
	}
}

func TestOneWayOfBeingLetInIsConfigured(t *testing.T) {
	for _, c := range []credential.Config{
		{Server: "https://h"},
		{Server: "https://h", TokenFile: "f", Command: []string{"c"}},
		{Server: "https://h", Command: []string{""}},
		{Server: "tcp:h:1", TokenFile: "f"},
		{Server: "unix:/s", TokenFile: "f"},
	} {
		if _, err := credential.New(&c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
