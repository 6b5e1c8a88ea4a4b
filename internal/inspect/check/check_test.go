package check_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/check"
	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/testkit/badserver"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
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

func options(spec *target.Spec) *check.Options {
	return &check.Options{Subject: rawclient.Subject{Spec: spec, Name: "test", Version: "1", Timeout: patience, Start: patience, Grace: patience}}
}

// impatient is for a server that lets something wait forever.
func impatient(o *check.Options) *check.Options {
	o.Timeout, o.Start, o.Grace, o.Glance = brief, brief, brief, brief
	return o
}

// broken returns the rules that a report finds broken.
func broken(r *check.Report) (ids []string) {
	for _, x := range r.Results {
		if x.State == check.Failed {
			ids = append(ids, x.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// expect checks a server, and compares the rules that it breaks.
func expect(t *testing.T, o *check.Options, want ...string) *check.Report {
	t.Helper()
	r, err := check.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if got := broken(r); !slices.Equal(got, want) {
		var b bytes.Buffer
		_ = r.Write(&b, "text", false)
		t.Errorf("broken are %q, want %q\n%s", got, want, b.String())
	}
	return r
}

func TestEachDefectOfMessagesAndToolsBreaksItsRule(t *testing.T) {
	for defect, want := range map[badserver.Defect][]string{
		badserver.None:            nil,
		badserver.LegacyOnly:      nil,
		badserver.ModernOnly:      nil,
		badserver.WrongID:         {"smoke-handshake", "rpc-id", "rpc-text-id", "rpc-concurrent"},
		badserver.TextID:          {"smoke-handshake", "rpc-id"},
		badserver.NoJSONRPC:       {"rpc-version"},
		badserver.AnswersNotes:    {"rpc-notification"},
		badserver.SilentUnknown:   {"rpc-unknown-method"},
		badserver.UnknownCode:     {"rpc-unknown-method"},
		badserver.NoMessage:       {"rpc-error"},
		badserver.NoServerInfo:    {"init-result"},
		badserver.EchoesVersion:   {"init-version"},
		badserver.NoPing:          {"ping"},
		badserver.FalsePromise:    {"list-promise"},
		badserver.EndlessList:     {"list-end", "list-cursor", "tool-name-unique"},
		badserver.AnyCursor:       {"list-cursor"},
		badserver.UnsteadyList:    {"list-steady"},
		badserver.UnknownTool:     {"unknown-tool"},
		badserver.NoResultType:    {"modern-result-type"},
		badserver.NoCacheHints:    {"modern-discover", "modern-cache", "modern-cache-read"},
		badserver.AnyVersion:      {"modern-version"},
		badserver.NoEnvelope:      {"modern-envelope"},
		badserver.NeedsClientInfo: {"modern-client-info"},
		badserver.EarlyNote:       {"init-early"},
		badserver.StrayProgress:   {"rpc-progress"},
		badserver.NoRequested:     {"modern-version-data"},
		badserver.OtherVersions:   {"modern-version-data"},
		badserver.ModernSilent:    {"modern-only"},
		badserver.AnyLogLevel:     {"modern-log-level"},
		badserver.OwnTools:        {"modern-steady"},
		badserver.NoReadHints:     {"modern-cache-read"},
		badserver.MixedScopes:     {"modern-cache-pages"},
		badserver.Listens:         nil,
		badserver.NoAck:           {"modern-listen"},
		badserver.ListenUnasked:   {"modern-listen-asked"},
		badserver.ListenAnyhow:    {"modern-listen-params"},
		badserver.DiesOfBatch:     {"rpc-batch"},
		badserver.DiesOfCancel:    {"cancel-unknown"},

		badserver.DiesOfGarbage: {"rpc-garbage", "rpc-parse-error"},
		badserver.NotUTF8:       {"rpc-version"},

		badserver.BadName:         {"tool-name"},
		badserver.LongName:        {"tool-name"},
		badserver.SameName:        {"tool-name-unique"},
		badserver.NoDescription:   {"tool-description"},
		badserver.LongDescription: {"tool-description-size"},
		badserver.NoSchema:        {"tool-schema-object"},
		badserver.SchemaType:      {"tool-schema-object"},
		badserver.SchemaUnion:     {"tool-schema-union"},
		badserver.SchemaRef:       {"tool-schema-ref"},
		badserver.SchemaRemote:    {"tool-schema-ref"},
		badserver.SchemaRecursive: {"tool-schema-recursive"},
		badserver.SchemaProperty:  {"tool-schema-property"},
		badserver.SchemaRequired:  {"tool-schema-required"},
		badserver.SchemaDeep:      {"tool-schema-depth"},
		badserver.SchemaInvalid:   {"tool-schema-valid"},
		badserver.OutputType:      {"tool-output-object"},
		badserver.HeaderName:      {"tool-header"},
		badserver.ManyTools:       {"tools-count"},
		badserver.LargeTools:      {"tools-size"},
	} {
		t.Run(string(defect), func(t *testing.T) {
			t.Parallel()
			if defect != badserver.LegacyOnly {
				want = append(want, "modern-server-info") // it never says that
			}
			o := options(badserver.Socket(t, defect))
			if defect == badserver.SilentUnknown {
				impatient(o)
			}
			expect(t, o, want...)
		})
	}
}

func TestEachDefectOfAProcessBreaksItsRule(t *testing.T) {
	for defect, want := range map[badserver.Defect][]string{
		badserver.None:           nil,
		badserver.LegacyOnly:     nil,
		badserver.ModernOnly:     nil,
		badserver.WrongID:        {"stdio-blank"},
		badserver.TextOnStdout:   {"stdio-stdout"},
		badserver.LateText:       {"stdio-stdout"},
		badserver.IgnoresEOF:     {"stdio-eof"},
		badserver.Framed:         {"stdio-framing"},
		badserver.DiesOfGarbage:  {"rpc-garbage", "rpc-parse-error"},
		badserver.DiesOfBlank:    {"stdio-blank"},
		badserver.FramesOnStderr: {"stdio-stderr"},
		badserver.SpeaksFirst:    {"stdio-first", "rpc-modern-silence"},
	} {
		t.Run(string(defect), func(t *testing.T) {
			t.Parallel()
			o := options(badserver.Command(t, defect))
			switch defect {
			case badserver.None, badserver.LegacyOnly, badserver.ModernOnly: // by all rules
				if defect != badserver.LegacyOnly {
					want = append(want, "modern-server-info")
				}
			default:
				o.Only = []string{"stdio-*", "rpc-garbage", "rpc-parse-error", "rpc-modern-silence"}
			}
			if defect == badserver.IgnoresEOF {
				o.Grace = brief
			}
			expect(t, o, want...)
		})
	}
}

func TestNoProcessIsStartedInVain(t *testing.T) {
	t.Parallel()
	for defect, want := range map[badserver.Defect]int{badserver.None: 5, badserver.LegacyOnly: 4, badserver.ModernOnly: 4} {
		spec, journal := badserver.Journal(t, defect)
		if _, err := check.Run(t.Context(), options(spec)); err != nil {
			t.Fatal(err)
		}
		waiting, most := 0, 0
		for _, event := range journal() {
			switch event {
			case '+':
				waiting++
			case 'm':
				waiting--
			}
			most = max(most, waiting)
		}
		if started := strings.Count(journal(), "+"); started != want || waiting != 0 || most > 4 { // three, and the one that is greeted
			t.Errorf("%s: %d processes were started, %d at once, and %d in vain", defect, started, most, waiting)
		}
	}
}

func TestAServerThatBearsOneHandshakeIsAskedInProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	expect(t, options(badserver.Command(t, badserver.OneHandshake)), "modern-server-info")
}

func TestProcessesThatBearNoOtherAreStartedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	spec, journal := badserver.Journal(t, badserver.Alone)
	r := expect(t, options(spec), "modern-server-info")
	if len(r.Eras) != 2 {
		t.Errorf("eras: %q", r.Eras)
	}
	all := journal()
	if behind := all[strings.LastIndex(all, "--"):]; strings.Contains(behind, "++") {
		t.Errorf("two processes run at once: %s", all)
	}
}

func TestAProcessThatEndsByItselfIsNotTakenForOneThatBearsNoOther(t *testing.T) {
	t.Parallel()
	spec, _ := badserver.Journal(t, badserver.DiesOfDiscover)
	o := options(spec)
	o.Ignore = []string{"modern-*"}
	if r := expect(t, o); !slices.Equal(r.Eras, []string{"legacy"}) {
		t.Errorf("eras: %q", r.Eras)
	}
}

func TestEachDefectOfHTTPBreaksItsRule(t *testing.T) {
	for defect, want := range map[badserver.Defect][]string{
		badserver.None:            nil,
		badserver.NoSession:       nil,
		badserver.Streams:         nil,
		badserver.ModernOnly:      nil,
		badserver.WrongID:         {"smoke-handshake", "rpc-id", "rpc-text-id", "rpc-concurrent"},
		badserver.ContentType:     {"http-type"},
		badserver.OKForAccepted:   {"http-accepted"},
		badserver.AnswersNotes:    {"http-accepted", "rpc-notification"},
		badserver.DeleteFails:     {"http-delete"},
		badserver.DeleteIgnored:   {"http-delete"},
		badserver.AnyOrigin:       {"http-origin", "http-host"},
		badserver.AnyHost:         {"http-host"},
		badserver.LostSession400:  {"http-session-unknown", "http-delete"},
		badserver.SessionOptional: {"http-session-needed"},
		badserver.ShortSession:    {"http-session-id"},
		badserver.TakenBack:       {"init-kept"},
		badserver.AnyHeader:       {"http-version"},
		badserver.GetFails:        {"http-get"},
		badserver.GetIsJSON:       {"http-get"},
		badserver.StreamStaysOpen: {"http-stream-end"},
		badserver.NoReplay:        {"http-resume"},
		badserver.Buffered:        {"http-buffering"},
		badserver.AnyMethod:       {"http-methods"},
		badserver.AnyType:         {"http-content-type"},
		badserver.ModernSession:   {"modern-session"},
		badserver.ModernStatus:    {"modern-status"},
		badserver.HeadersIgnored:  {"modern-headers"},
		badserver.NameIgnored:     {"modern-header-name"},
		badserver.NameRaw:         {"modern-header-base64"},
		badserver.HeaderAlone:     {"modern-header-alone"},
		badserver.ModernEventID:   {"modern-event-id"},
		badserver.SessionRefused:  {"modern-session-ignored"},
		badserver.ModernGet:       {"modern-methods"},
		badserver.GetAnswers:      {"http-get-answers"},
		badserver.SameEventID:     {"http-event-id"},
		badserver.NoPriming:       {"http-priming"},
		badserver.PrimesOld:       {"http-priming-old"},
		badserver.SameSession:     {"http-session-unique"},
		badserver.NeedsHeader:     {"http-version-absent"},
	} {
		t.Run(string(defect), func(t *testing.T) {
			t.Parallel()
			expect(t, options(badserver.Web(t, defect)), append(want, "modern-server-info")...)
		})
	}
}

func TestNoToolIsCalledUnlessOneIsNamed(t *testing.T) {
	t.Parallel()
	called := make(chan string, 100)
	inner := badserver.Handler(badserver.None)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is cut names no tool
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"method":"`+protocol.MethodCallTool+`"`)) {
			called <- string(body)
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	expect(t, options(&target.Spec{URL: server.URL}), "modern-server-info")
	close(called)
	if len(called) == 0 {
		t.Error("no call was seen, so this test sees nothing")
	}
	for name := range called {
		if !strings.Contains(name, `"dragoman_no_such_`) {
			t.Errorf("called: %s", name)
		}
	}
}

func TestTheToolThatIsNamedIsCalled(t *testing.T) {
	for defect, want := range map[badserver.Defect][]string{
		badserver.None: nil, badserver.EmptyContent: {"call-content"}, badserver.WrongOutput: {"call-structured"},
		badserver.BackProgress: {"rpc-progress"}, badserver.OtherProgress: {"rpc-progress"},
	} {
		t.Run(string(defect), func(t *testing.T) {
			t.Parallel()
			o := options(badserver.Socket(t, defect))
			o.Call, o.Arguments, o.Only = "echo", json.RawMessage(`{"text":"hello"}`), []string{"call-*", "smoke-*", "rpc-progress"}
			expect(t, o, want...)
		})
	}
}

func TestE09_SmokeIsThreeRules(t *testing.T) {
	t.Parallel()
	o := options(badserver.Socket(t, badserver.None))
	o.Smoke, o.Call = true, "echo"
	if r := expect(t, o); len(r.Results) != 3 || r.Results[2].State != check.Passed {
		t.Errorf("results: %+v", r.Results)
	}
	o.Call = "missing"
	expect(t, o, "smoke-tools-call")
}

func TestRulesAreChosenByPatterns(t *testing.T) {
	t.Parallel()
	o := options(badserver.Socket(t, badserver.LongName))
	o.Only, o.Ignore = []string{"tool-*"}, []string{"tool-name"}
	r := expect(t, o)
	if slices.ContainsFunc(r.Results, func(x check.Result) bool { return !strings.HasPrefix(x.ID, "tool-") || x.ID == "tool-name" }) {
		t.Errorf("results: %+v", r.Results)
	}
	o.Only = []string{"no-such-rule"}
	if _, err := check.Run(t.Context(), o); !errors.Is(err, check.ErrUnknown) {
		t.Errorf("error %v", err)
	}
}

func TestServersThatCannotBeCheckedAreErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o    *check.Options
		want string
	}{
		"a command that ends":         {options(badserver.Command(t, badserver.Exits)), "exited with status 3"},
		"a command that hangs":        {impatient(options(badserver.Command(t, badserver.Hang))), "no answer in time"},
		"a command that is not there": {options(&target.Spec{Command: []string{"/nonexistent/server"}}), "cannot start"},
		"a page":                      {options(badserver.Web(t, badserver.HTMLPage)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := check.Run(t.Context(), test.o)
			if _, unreached := errors.AsType[*check.UnreachedError](err); !unreached || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	_, err := check.Run(t.Context(), options(badserver.Web(t, badserver.SignIn)))
	if _, access := errors.AsType[*check.AccessError](err); !access {
		t.Errorf("error %v", err)
	}
}

func TestTheBuiltInServerHoldsTheRulesOnEveryTransport(t *testing.T) {
	for name, spec := range badserver.Good(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := expect(t, options(spec), "tool-schema-union") // one of its tools shows what JSON Schema can do
			if r.How != name {
				t.Errorf("it was reached by %s", r.How)
			}
		})
	}
}

func TestReportsAreWhatOtherProgramsRead(t *testing.T) {
	t.Parallel()
	r := expect(t, options(badserver.Socket(t, badserver.UnknownTool)), "unknown-tool", "modern-server-info")
	var junit struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string  `xml:"name,attr"`
			Failure *string `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(written(t, r, "junit"), &junit); err != nil || junit.Tests != len(check.Rules()) || junit.Failures != 1 || len(junit.Cases) != junit.Tests {
		t.Errorf("%v: %+v", err, junit)
	}
	for _, c := range junit.Cases {
		if (c.Failure != nil) != strings.HasPrefix(c.Name, "unknown-tool") {
			t.Errorf("%s: %v", c.Name, c.Failure)
		}
	}
	var sarif struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID  string
				Level   string
				Message struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal(written(t, r, "sarif"), &sarif); err != nil || sarif.Version != "2.1.0" || len(sarif.Runs[0].Tool.Driver.Rules) != len(check.Rules()) {
		t.Fatalf("%v: %+v", err, sarif)
	}
	if got := sarif.Runs[0].Results; len(got) != 2 || got[0].RuleID != "unknown-tool" || got[0].Level != "error" || !strings.Contains(got[0].Message.Text, "→ {") || !strings.Contains(got[0].Message.Text, "← {") {
		t.Errorf("results: %+v", got)
	}
	var back check.Report
	if err := json.Unmarshal(written(t, r, "json"), &back); err != nil || back.Errors != 1 || back.Notes != 1 {
		t.Errorf("%v: %+v", err, back)
	}
	if text := string(written(t, r, "text")); !strings.Contains(text, "✗ error    unknown-tool") || !strings.Contains(text, "errors: 1, warnings: 0, notes: 1") {
		t.Errorf("text:\n%s", text)
	}
}

func written(t *testing.T, r *check.Report, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format, false); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	o := options(badserver.Socket(t, badserver.EmptyContent))
	o.Call, o.Arguments = "echo", json.RawMessage(`{"password":"hunter2hunter2"}`)
	r := expect(t, o, "call-content", "modern-server-info")
	for _, format := range check.Formats {
		if text := written(t, r, format); bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("%s: %s", format, text)
		}
	}
}

func TestFindingsAreWrittenAsTheyAreFound(t *testing.T) {
	t.Parallel()
	var b, early bytes.Buffer
	p := &check.Printer{W: &b}
	o := options(badserver.Socket(t, badserver.NoPing))
	o.Progress = func(soFar *check.Report, rule string) {
		if soFar != nil {
			_ = p.Show(soFar) // into memory
		}
		if rule == "rpc-unknown-method" {
			early.Write(b.Bytes())
		}
	}
	r := expect(t, o, "ping", "modern-server-info")
	if err := p.End(r); err != nil || !strings.Contains(early.String(), "✗ error    ping ") {
		t.Errorf("%v: at first there was\n%s", err, early.String())
	}
	if whole := string(written(t, r, "text")); b.String() != whole {
		t.Errorf("in parts it is\n%s\nand as a whole\n%s", b.String(), whole)
	}
}
