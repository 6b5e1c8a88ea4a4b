package probe_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/inspect/probe"
	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/badserver"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

func TestMain(m *testing.M) {
	stdio.Guard()
	badserver.Main()
	os.Exit(m.Run())
}

// patience is for answers that come, brief for those that never do: each of them costs it.
const (
	patience = 30 * time.Second
	brief    = 500 * time.Millisecond
)

// impatient is for a server that lets something wait forever.
func impatient(o *probe.Options) {
	o.Timeout, o.Start, o.Grace, o.Glance = brief, 2*brief, brief, brief
}

// look probes a server.
func look(t *testing.T, spec *target.Spec, more ...func(*probe.Options)) *probe.Report {
	t.Helper()
	o := &probe.Options{Subject: rawclient.Subject{Spec: spec, Name: "test", Version: "1", Timeout: patience, Start: patience, Grace: patience, Glance: brief}, How: "test"}
	for _, f := range more {
		f(o)
	}
	r := probe.Run(t.Context(), o)
	if t.Failed() || testing.Verbose() {
		var b bytes.Buffer
		_ = r.WriteText(&b, func(text string, _ int) string { return text })
		t.Log("\n" + b.String())
	}
	return r
}

// expect compares the problems of a report with what they should say. Each must say one of
// the things that are wanted, and each thing must be said.
func expect(t *testing.T, r *probe.Report, verdict probe.Verdict, want ...string) {
	t.Helper()
	if r.Verdict != verdict {
		t.Errorf("verdict %q, want %q", r.Verdict, verdict)
	}
	said := make([]bool, len(want))
	for _, l := range r.Lines {
		if l.State != probe.Problem {
			continue
		}
		i := slices.IndexFunc(want, func(w string) bool { return strings.Contains(l.Topic+": "+l.Text, w) })
		if i < 0 {
			t.Errorf("false alarm: %s: %s", l.Topic, l.Text)
			continue
		}
		said[i] = true
		if l.Advice == "" {
			t.Errorf("%s: %s: it is not said what to do", l.Topic, l.Text)
		}
	}
	for i, ok := range said {
		if !ok {
			t.Errorf("not named: %s", want[i])
		}
	}
}

// note reports whether a line of a report says something.
func note(r *probe.Report, text string) bool {
	return slices.ContainsFunc(r.Lines, func(l probe.Line) bool {
		return strings.Contains(l.Topic+": "+l.Text+" "+strings.Join(l.More, " "), text)
	})
}

// A judged defect is one of which a probe must say something.
type judged struct {
	defect  badserver.Defect
	verdict probe.Verdict
	want    []string
}

// eachDefect probes a server with each defect.
func eachDefect(t *testing.T, list []judged, start func(*testing.T, badserver.Defect) *target.Spec, change func(*probe.Options, badserver.Defect)) {
	t.Helper()
	for _, test := range list {
		t.Run(string(test.defect), func(t *testing.T) {
			t.Parallel()
			r := look(t, start(t, test.defect), func(o *probe.Options) { change(o, test.defect) })
			expect(t, r, test.verdict, test.want...)
		})
	}
}

func TestDefectsOfMessagesAreNamed(t *testing.T) {
	eachDefect(t, []judged{
		{badserver.None, probe.Works, nil},
		{badserver.LegacyOnly, probe.Works, nil},
		{badserver.ModernOnly, probe.Works, nil},
		{badserver.TextOnStdout, probe.Problems, []string{"stream: 1 line of text"}},
		{badserver.WrongID, probe.Problems, []string{"with the id 1 has the id 424242"}},
		{badserver.TextID, probe.Problems, []string{`with the id 1 has the id "1"`}},
		{badserver.NoJSONRPC, probe.Problems, []string{`malformed: it has no "jsonrpc":"2.0"`}},
		{badserver.Both, probe.Problems, []string{"a result and an error"}},
		{badserver.AnswersNotes, probe.Problems, []string{"as to a notification"}},
		{badserver.SilentUnknown, probe.Problems, []string{"a method that it does not know is not answered"}},
		{badserver.NoServerInfo, probe.Works, nil}, // it is there in the modern era
		{badserver.NoPing, probe.Works, nil},       // as above
		{badserver.FalsePromise, probe.Problems, []string{"prompts/list: error -32601"}},
		{badserver.EndlessList, probe.Problems, []string{"the pages of tools/list have no end"}},
		{badserver.Hang, probe.Unreachable, []string{"initialize is not answered: no answer in time"}},
	}, badserver.Socket, func(o *probe.Options, d badserver.Defect) {
		if d == badserver.SilentUnknown || d == badserver.Hang {
			impatient(o)
		}
	})
}

func TestDefectsOfCommandsAreNamed(t *testing.T) {
	eachDefect(t, []judged{
		{badserver.LegacyOnly, probe.Works, nil}, // None is below
		{badserver.ModernOnly, probe.Works, nil},
		{badserver.Framed, probe.Works, nil},
		{badserver.TextOnStdout, probe.Problems, []string{"stdout: 1 line of text"}},
		{badserver.LateText, probe.Problems, []string{"stdout: 4 lines of text"}},
		{badserver.PrettyPrinted, probe.Unreachable, []string{"does not answer initialize within", "lines of text"}},
		{badserver.Hang, probe.Unreachable, []string{"does not answer initialize within 1s"}},
		{badserver.Exits, probe.Unreachable, []string{"it ended with status 3"}},
		{badserver.IgnoresEOF, probe.Problems, []string{"end: it does not end"}},
		{badserver.DiesAtEOF, probe.Problems, []string{"end: it dies of a signal (killed)"}},
		{badserver.FramedOnly, probe.Problems, []string{"does not answer initialize", "framing: it understands frames"}},
	}, badserver.Command, func(o *probe.Options, d badserver.Defect) {
		switch d {
		case badserver.PrettyPrinted, badserver.Hang:
			o.Timeout, o.Start = brief, 2*brief
		case badserver.FramedOnly:
			o.Start = 2 * brief // lines are not answered in it
		case badserver.IgnoresEOF:
			o.Grace = brief
		}
	})
}

func TestWhatACommandIsIsShown(t *testing.T) {
	t.Setenv("SOME_SECRET_OF_OURS", "hidden-value")
	r := look(t, badserver.Command(t, badserver.None))
	expect(t, r, probe.Works)
	for _, want := range []string{"start: found /", "framing: lines", "stdout: messages alone", "bad server: ready", "server: bad 1", "can: logging, resources, tools", "offers: 2 tools", "end: "} {
		if !note(r, want) {
			t.Errorf("not shown: %s", want)
		}
	}
	if len(r.Revisions) != 5 || slices.ContainsFunc(r.Revisions, func(v probe.Revision) bool { return !v.Spoken }) {
		t.Errorf("revisions: %+v", r.Revisions)
	}
	if !slices.Contains(r.Withheld, "SOME_SECRET_OF_OURS") {
		t.Errorf("withheld are %q", r.Withheld)
	}
	text, err := json.Marshal(r)
	if err != nil || bytes.Contains(text, []byte("hidden-value")) {
		t.Errorf("%v: %s", err, text)
	}
}

func TestProcessesThatBearNoOtherAreProbedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	spec, _ := badserver.Journal(t, badserver.Alone)
	r := look(t, spec)
	expect(t, r, probe.Works)
	if len(r.Revisions) != 5 || slices.ContainsFunc(r.Revisions, func(v probe.Revision) bool { return !v.Spoken }) || r.Counts["tools"] != 2 {
		t.Errorf("revisions %+v, counts %v", r.Revisions, r.Counts)
	}
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for want, spec := range map[string]*target.Spec{
		"start: cannot start":                      {Command: []string{"/nonexistent/server"}},
		"tcp: nothing listens at ":                 {URL: closed.URL},
		"dns: unknown host dragoman-probe.invalid": {URL: "http://dragoman-probe.invalid/mcp"},
		"connect: ": {URL: "tcp:" + strings.TrimPrefix(closed.URL, "http://")},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			expect(t, look(t, spec), probe.Unreachable, want)
		})
	}
}

func TestDefectsOfHTTPAreNamed(t *testing.T) {
	eachDefect(t, []judged{
		{badserver.None, probe.Works, nil},
		{badserver.LegacyOnly, probe.Works, nil},
		{badserver.ModernOnly, probe.Works, nil},
		{badserver.NoSession, probe.Works, nil},
		{badserver.Streams, probe.Works, nil},
		{badserver.MovedNear, probe.Works, nil},
		{badserver.WrongID, probe.Problems, []string{"has the id 424242"}},
		{badserver.NoJSONRPC, probe.Problems, []string{"malformed: it has no"}},
		{badserver.ContentType, probe.Problems, []string{`content type "text/plain"`}},
		{badserver.OKForAccepted, probe.Problems, []string{"a notification gets 202 and no body: it gets status 200"}},
		{badserver.DeleteFails, probe.Problems, []string{"DELETE gets status 500"}},
		{badserver.AnyOrigin, probe.Problems, []string{"a foreign Origin gets", "a foreign Host gets"}},
		{badserver.GetFails, probe.Problems, []string{"GET opens an event stream or gets 405: it gets status 500"}},
		{badserver.StreamStaysOpen, probe.Problems, []string{"the stream continues behind the response"}},
		{badserver.NoReplay, probe.Problems, []string{"Last-Event-ID brings none"}},
		{badserver.Hang, probe.Unreachable, []string{"POST gets no answer"}},
		{badserver.Moved, probe.Problems, []string{"redirect: status 301", "no transport"}},
		{badserver.HTMLPage, probe.Problems, []string{"status 200 and no message", "no transport"}},
		{badserver.EmptyOK, probe.Problems, []string{"status 200 and no message", "no transport"}},
		{badserver.SignIn, probe.Authorization, []string{"there is no WWW-Authenticate", "credentials"}},
	}, badserver.Web, func(o *probe.Options, d badserver.Defect) {
		if d == badserver.Hang {
			impatient(o)
		}
	})
}

func TestTheServerIsFoundBesideAPathThatIsWrong(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("/mcp", badserver.Handler(badserver.None))
	web := httptest.NewServer(mux)
	defer web.Close()
	r := look(t, &target.Spec{URL: web.URL + "/api"})
	expect(t, r, probe.Problems, "no transport of MCP")
	if !slices.ContainsFunc(r.Lines, func(l probe.Line) bool { return strings.Contains(l.Advice, web.URL+"/mcp") }) {
		t.Error("the path is not named")
	}
}

func TestTheBuiltInServerWorksOnEveryTransport(t *testing.T) {
	for name, spec := range badserver.Good(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := look(t, spec)
			expect(t, r, probe.Works)
			if !r.Transports[name] || r.Counts["tools"] == 0 {
				t.Errorf("transports %v, counts %v", r.Transports, r.Counts)
			}
		})
	}
}

func TestCertificatesAreShownAndJudged(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	web := httptest.NewUnstartedServer(badserver.Handler(badserver.None))
	web.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "here")}}
	web.StartTLS()
	defer web.Close()
	expect(t, look(t, &target.Spec{URL: web.URL + "/mcp"}), probe.Unreachable, "tls: its certificate")
	r := look(t, &target.Spec{URL: web.URL + "/mcp", TLS: &tls.Config{RootCAs: authority.Pool()}})
	if !note(r, "tls: TLS 1.3") || r.Verdict == probe.Unreachable {
		t.Error("the certificate is not shown")
	}
}

func TestHowToSignInIsFoundOut(t *testing.T) {
	t.Parallel()
	at := authtest.New(t, nil).URL
	r := look(t, &target.Spec{URL: at}, func(o *probe.Options) {
		o.SignIn, o.Login = &oauth.Config{Server: at}, "dragoman login there"
	})
	expect(t, r, probe.Authorization)
	if r.SignIn == nil || !r.SignIn.PKCE || !r.SignIn.Registration {
		t.Errorf("sign-in: %+v", r.SignIn)
	}
	if !slices.ContainsFunc(r.Lines, func(l probe.Line) bool { return l.Advice == "run: dragoman login there" }) {
		t.Error("it is not said what to run")
	}
}

func TestAProbeThatIsInterruptedEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	r := probe.Run(ctx, &probe.Options{Subject: rawclient.Subject{Spec: badserver.Command(t, badserver.Hang), Timeout: time.Hour, Start: time.Hour}})
	if r.Verdict != probe.Unreachable {
		t.Errorf("verdict %q", r.Verdict)
	}
}

// socketServer is a WebSocket server but for requests that name an Origin, which are answered
// by a function.
func socketServer(t *testing.T, foreign http.HandlerFunc) *target.Spec {
	t.Helper()
	server := builtin.New(&builtin.Options{Version: "1"})
	t.Cleanup(func() { _ = server.Close() })
	inner := &ws.Server{Acceptor: server}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			foreign(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return &target.Spec{URL: "ws" + strings.TrimPrefix(web.URL, "http")}
}

func TestASocketIsRefusedToAForeignOriginOnlyIfItIs(t *testing.T) {
	for name, test := range map[string]struct {
		foreign http.HandlerFunc
		want    string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "refused a socket (403)"},
		"failed":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "is not known: status 500"},
		"silent":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r := probe.Run(ctx, &probe.Options{Subject: rawclient.Subject{Spec: socketServer(t, test.foreign), Version: "1", Timeout: 3 * time.Second, Start: patience}})
			if !note(r, test.want) || ctx.Err() != nil {
				t.Errorf("it is said: %+v", r.Lines)
			}
		})
	}
}

func TestStreamsAreResumedBehindTheFirstEventWithAnID(t *testing.T) {
	t.Parallel()
	inner := badserver.Handler(badserver.None)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut is no JSON
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
			w.Header().Set("Content-Type", "text/event-stream")
		case bytes.Contains(body, []byte(`"tools/list"`)) && !bytes.Contains(body, []byte("_meta")):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\nid: 1\ndata: %s\n\n", badserver.Answer(body))
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	r := look(t, &target.Spec{URL: web.URL + "/mcp"})
	expect(t, r, probe.Works)
	if !note(r, "resumption: events that have ids can be resumed behind") {
		t.Errorf("it is said: %+v", r.Lines)
	}
}

func TestNothingIsClaimedOfAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	spec := badserver.Web(t, badserver.SignIn)
	r := look(t, spec, func(o *probe.Options) {
		o.SignIn, o.Login = &oauth.Config{Server: spec.URL}, "dragoman login there"
	})
	if r.Verdict != probe.Authorization || note(r, "register") || note(r, "PKCE") || note(r, "nobody is signed in") {
		t.Errorf("it is said: %+v", r.Lines)
	}
	if !slices.ContainsFunc(r.Lines, func(l probe.Line) bool { return strings.Contains(l.Advice, "-H 'Authorization: Bearer") }) {
		t.Error("it is not said how to give it a token")
	}
}

func TestProblemsAreToldAsTheyAreFound(t *testing.T) {
	t.Parallel()
	var stages, found []string
	r := look(t, badserver.Command(t, badserver.TextOnStdout), func(o *probe.Options) {
		o.Progress = func(stage string) { stages = append(stages, stage) }
		o.Found = func(l probe.Line) {
			found = append(found, l.Topic)
			if slices.Contains(stages, "what it offers") {
				t.Error("it is told at the end")
			}
		}
	})
	if !slices.Equal(found, []string{"stdout"}) || r.Problems() != 1 || len(stages) < 5 {
		t.Errorf("found: %q, stages: %q", found, stages)
	}
}

// counted is the spec of a command that runs through a shell, with what counts how often it was started.
func counted(t *testing.T, d badserver.Defect, script string) (spec *target.Spec, starts func() int) {
	t.Helper()
	journal := filepath.Join(t.TempDir(), "journal")
	spec = badserver.Command(t, d)
	spec.Command = append([]string{"sh", "-c", `echo started >>"$0"; ` + script, journal}, spec.Command...)
	return spec, func() int {
		text, err := os.ReadFile(journal) //nolint:gosec // ours
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "started")
	}
}

func TestAnOrdinaryCommandIsStartedThreeTimes(t *testing.T) {
	t.Parallel()
	for defect, most := range map[badserver.Defect]int{badserver.None: 3, badserver.LegacyOnly: 3} {
		spec, starts := counted(t, defect, `exec "$@"`)
		r := look(t, spec)
		expect(t, r, probe.Works)
		spoken := 0
		for _, v := range r.Revisions {
			if v.Spoken {
				spoken++
			}
		}
		if want := map[badserver.Defect]int{badserver.None: 5, badserver.LegacyOnly: 4}[defect]; spoken != want {
			t.Errorf("%s: %d revisions are spoken, want %d", defect, spoken, want)
		}
		if n := starts(); n > most {
			t.Errorf("%s: started %d times, want %d at most", defect, n, most)
		}
	}
}

func TestTextThatIsPrintedAtTheEndIsFound(t *testing.T) {
	t.Parallel()
	for range 5 { // it was found by chance
		spec, _ := counted(t, badserver.None, `"$@"; echo from a buffer; exit 0`)
		expect(t, look(t, spec), probe.Problems, "stdout: 1 line of text")
	}
}

func TestMissingVariablesAreNamedByHowLikelyTheyAre(t *testing.T) {
	for name, value := range map[string]string{"AAA_VARIABLE": "1", "ZZZ_TOKEN": "2", "YYY_SETTING": "3", "SHLVL": "1", "PWD": "/", "OLDPWD": "/"} {
		t.Setenv(name, value)
	}
	r := look(t, &target.Spec{Command: []string{"sh", "-c", "echo YYY_SETTING is not set >&2; exit 1"}})
	expect(t, r, probe.Unreachable, "start: it ended with status 1")
	advised := func(topic, want string) bool {
		return slices.ContainsFunc(r.Lines, func(l probe.Line) bool { return l.Topic == topic && strings.Contains(l.Advice, want) })
	}
	if !advised("start", "not passed on to it: YYY_SETTING; to pass on: -e YYY_SETTING") {
		t.Error("the advice of run is missing")
	}
	if len(r.Withheld) < 3 || r.Withheld[0] != "YYY_SETTING" || slices.Index(r.Withheld, "ZZZ_TOKEN") > slices.Index(r.Withheld, "AAA_VARIABLE") {
		t.Errorf("withheld are %q", r.Withheld)
	}
	for _, name := range []string{"SHLVL", "PWD", "OLDPWD", "_"} {
		if slices.Contains(r.Withheld, name) {
			t.Errorf("%s is named, which the shell makes", name)
		}
	}
}

func TestAProcessThatDiesOfARequestIsNotJudgedByItsEnd(t *testing.T) {
	t.Parallel()
	r := look(t, badserver.Command(t, badserver.DiesOfUnknown))
	expect(t, r, probe.Problems, "a method that it does not know is not answered", "ping is not answered")
	if note(r, "end: ") {
		t.Error("it is shown how it ends")
	}
}

func TestAServerThatBearsOneHandshakeIsAskedInProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := look(t, badserver.Command(t, badserver.OneHandshake))
	expect(t, r, probe.Works)
	if len(r.Revisions) != 5 || slices.ContainsFunc(r.Revisions, func(v probe.Revision) bool { return !v.Spoken }) {
		t.Errorf("revisions: %+v", r.Revisions)
	}
}
