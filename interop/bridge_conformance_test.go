//go:build conformance

package interop_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// common are the scenarios that the suite has for both revisions.
var common = []string{
	"completion-complete",
	"dns-rebinding-protection",
	"json-schema-2020-12",
	"prompts-get-embedded-resource",
	"prompts-get-simple",
	"prompts-get-with-args",
	"prompts-get-with-image",
	"prompts-list",
	"resources-list",
	"resources-read-binary",
	"resources-read-text",
	"resources-templates-read",
	"server-sse-multiple-streams",
	"tools-call-audio",
	"tools-call-embedded-resource",
	"tools-call-error",
	"tools-call-image",
	"tools-call-mixed-content",
	"tools-call-simple-text",
	"tools-call-with-progress",
	"tools-list",
}

// serverScenarios are those of the suite that can pass through a bridge. Those
// behind "not scored" the suite runs beside what a revision requires.
var serverScenarios = map[protocol.Revision][]string{
	protocol.V20251125: slices.Concat(common, []string{
		"elicitation-sep1034-defaults",
		"elicitation-sep1330-enums",
		"logging-set-level",
		"ping",
		"resources-subscribe",
		"resources-unsubscribe",
		"server-initialize",
		"tools-call-elicitation",
		"tools-call-sampling",
		"tools-call-with-logging",
		// not scored, as json-schema-2020-12
		"server-session-lifecycle",
	}),
	protocol.V20260728: slices.Concat(common, []string{
		"caching",
		"input-required-result-basic-elicitation",
		"input-required-result-basic-list-roots",
		"input-required-result-basic-sampling",
		"input-required-result-capability-check",
		"input-required-result-ignore-extra-params",
		"input-required-result-missing-input-response",
		"input-required-result-multi-round",
		"input-required-result-multiple-input-requests",
		"input-required-result-non-tool-request",
		"input-required-result-request-state",
		"input-required-result-result-type",
		"input-required-result-tampered-state",
		"input-required-result-unsupported-methods",
		"input-required-result-validate-input",
		"sep-2164-resource-not-found",
		"server-stateless",
		// not scored, as json-schema-2020-12
		"http-custom-header-server-validation",
		"http-header-validation",
	}),
}

// unscored are those that prove nothing here and that the suite does not score.
var unscored = map[protocol.Revision]map[string]string{
	protocol.V20251125: {
		// When a server closes a stream for the client to come back, that is
		// between it and us; our own client gets the answer at once.
		"server-sse-polling": vacuous,
	},
	protocol.V20260728: {
		// The extension for tasks is not built.
		"tasks-capability-negotiation": fails,
		"tasks-dispatch-and-envelope":  fails,
		"tasks-lifecycle":              fails,
		"tasks-mrtr-composition":       fails,
		"tasks-mrtr-input":             fails,
		"tasks-request-headers":        fails,
		"tasks-request-state-removal":  fails,
		"tasks-required-task-error":    fails,
		"tasks-status-notifications":   vacuous,
		"tasks-wire-fields":            fails,
	},
}

// The marks that a scenario gets. The suite has none for what is vacuous: it
// passes, and has checked nothing.
const (
	passes  = "✓"
	fails   = "✗"
	vacuous = "✓ without a check"
)

const (
	noKeys        = "looks for the fixture's own key of a question, and a legacy question has none"
	asksByRequest = "the fixture asks by a request, which the SDK refuses to send in the modern era; it fails without a bridge too"
)

// What cannot pass, by the server at the other end of the bridge, and why.
var (
	oursLegacy = map[protocol.Revision]map[string]string{protocol.V20260728: {
		"input-required-result-basic-elicitation": noKeys,
	}}
	goLegacy = map[protocol.Revision]map[string]string{protocol.V20260728: {
		"input-required-result-basic-elicitation": noKeys,
		"input-required-result-multi-round":       "the SDK puts the questions of one round to a legacy client, and returns those of the next as a result",
	}}
	goModern = map[protocol.Revision]map[string]string{protocol.V20251125: {
		"elicitation-sep1034-defaults": asksByRequest,
		"elicitation-sep1330-enums":    asksByRequest,
		"tools-call-elicitation":       asksByRequest,
		"tools-call-sampling":          asksByRequest,
	}}
)

// TestConformanceThroughTheBridge runs the suite against servers of one era through
// `dragoman run`, with clients of both eras on one endpoint. It wants exactly the
// scenarios to pass that are said to.
func TestConformanceThroughTheBridge(t *testing.T) {
	t.Parallel()
	for _, far := range []struct {
		name   string
		era    protocol.Era
		start  func(*testing.T, protocol.Era) []string // returns what follows `dragoman run`
		cannot map[protocol.Revision]map[string]string
	}{
		{"Dragoman on stdio", protocol.Legacy, oursOnStdio, oursLegacy},
		{"Dragoman on stdio", protocol.Modern, oursOnStdio, nil},
		{"Dragoman on HTTP", protocol.Legacy, oursOnHTTP, oursLegacy},
		{"Dragoman on HTTP", protocol.Modern, oursOnHTTP, nil},
		{"Go SDK on stdio", protocol.Legacy, goSDKOnStdio, goLegacy},
		{"Go SDK on stdio", protocol.Modern, goSDKOnStdio, goModern},
		{"Go SDK on HTTP", protocol.Legacy, goSDKOnHTTP, goLegacy},
		{"Go SDK on HTTP", protocol.Modern, goSDKOnHTTP, goModern},
	} {
		t.Run(far.name+" "+far.era.String(), func(t *testing.T) {
			t.Parallel()
			url, said := startDragoman(t, far.start(t, far.era)...)
			if want := far.era.String() + " era)"; !strings.Contains(said, want) {
				t.Errorf("the bridge says %q, want %q", said, want)
			}
			for _, rev := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
				t.Run(rev.String(), func(t *testing.T) { wantConformance(t, url, rev, far.cannot[rev]) })
			}
		})
	}
}

// wantConformance runs the suite against a URL. All scenarios of a revision must get the
// mark that they should.
func wantConformance(t *testing.T, url string, rev protocol.Revision, cannot map[string]string) {
	t.Helper()
	want := maps.Clone(unscored[rev])
	for _, name := range serverScenarios[rev] {
		want[name] = passes
	}
	for name := range cannot {
		want[name] = fails
	}
	out, _ := runSuite(t, nil, "server", "--url", url, "--requirements", rev.String())
	got := serverVerdicts(out)
	var wrong []string
	for name := range want {
		if got[name] != want[name] {
			wrong = append(wrong, fmt.Sprintf("%s: got %q, want %q", name, got[name], want[name]))
		}
	}
	for name := range got {
		if want[name] == "" {
			wrong = append(wrong, name+" is in no list")
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%s\n%s", strings.Join(slices.Sorted(slices.Values(wrong)), "\n"), out)
	}
}

// serverVerdicts returns the mark of each scenario in the suite's summary.
func serverVerdicts(out string) map[string]string {
	_, summary, _ := strings.Cut(out, "=== SUMMARY ===")
	verdicts := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^([✓✗]) (\S+): (\d+) passed`).FindAllStringSubmatch(summary, -1) {
		verdicts[m[2]] = m[1]
		if m[1] == passes && m[3] == "0" {
			verdicts[m[2]] = vacuous
		}
	}
	return verdicts
}

// startDragoman starts `dragoman run` on a free port. It returns its MCP URL, and
// what it said until it was ready.
func startDragoman(t *testing.T, args ...string) (url, said string) {
	t.Helper()
	cmd := exec.Command(os.Getenv("DRAGOMAN_BIN"), append([]string{"run", "--listen", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-drained
		if err := cmd.Wait(); err != nil {
			t.Errorf("dragoman run ended with %v", err)
		}
	})
	for lines.Scan() {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "ready: ") {
			url = regexp.MustCompile(`http://\S+/mcp`).FindString(lines.Text())
			break
		}
	}
	// Ends with the process. It keeps the pipe empty.
	go func() {
		defer close(drained)
		for lines.Scan() {
		}
	}()
	if url == "" {
		t.Fatalf("dragoman run does not say where it listens:\n%s", said)
	}
	return url, said
}

// oursOnStdio is the built-in server, whose era the bridge finds out.
func oursOnStdio(_ *testing.T, era protocol.Era) []string {
	return []string{"--", os.Getenv("DRAGOMAN_BIN"), "everything", "--era", era.String()}
}

func oursOnHTTP(t *testing.T, era protocol.Era) []string {
	url, _ := startDragoman(t, "--era", era.String())
	return []string{url}
}

// goSDKOnStdio is a server of both eras, which is spoken to in one.
func goSDKOnStdio(t *testing.T, era protocol.Era) []string {
	return []string{"--era", era.String(), "--", goSDKProgram.in(t)}
}

// goSDKOnHTTP is a server that has sessions, or speaks the modern era; the bridge
// finds out which.
func goSDKOnHTTP(t *testing.T, era protocol.Era) []string {
	t.Helper()
	return []string{goSDKOverHTTP(t, era == protocol.Modern).URL}
}
