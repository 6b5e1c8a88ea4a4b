// Package check tests a server against the rules of MCP that are visible from outside, and
// against what common hosts refuse, for "dragoman check". It calls no tool unless one is
// named. A tool's schema is read up to 10,000 schemas and 2,000 references.
package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Level says how bad it is to break a rule.
type Level string

// The levels.
const (
	Error   Level = "error"   // the protocol forbids it, or clients break
	Warning Level = "warning" // the protocol advises against it, or some hosts refuse it
	Info    Level = "note"    // it could be better; it is no finding
)

// A Rule is one thing that must hold.
type Rule struct {
	ID          string
	Level       Level
	Requirement string // what must hold
	Line        string // the line of docs/coverage.md that asks for it, if one does

	needs needs
	look  func(context.Context, *run) outcome
}

// needs are what a rule can be seen at.
type needs uint32

const (
	legacyEra needs = 1 << iota
	modernEra
	process    // the server is a command
	overHTTP   // Streamable HTTP
	overOld    // HTTP+SSE
	overSocket // WebSocket
	haveTools  // the server has tools
	namedTool  // the user has named one to call
	smokeAlone // part of the smoke test, too
	listens    // the server tells of changes of its tools
	onlyModern // the server says that it speaks no legacy revision
	sessions   // Streamable HTTP with sessions
	versions   // the revision has MCP-Protocol-Version

	// again, times a number, is how many conversations of its own the rule begins. More would be
	// begun, too, but the processes for these are started ahead of time.
	again needs = 1 << 16
)

// An outcome is what became of looking.
type outcome struct {
	skipped  string // why the rule does not apply
	findings []Finding
}

// A Finding is a place where a rule is broken.
type Finding struct {
	Text   string   `json:"text"`
	Tool   string   `json:"tool,omitempty"`
	Frames []string `json:"frames,omitempty"` // what went over the wire, without secrets
}

func pass() outcome                { return outcome{} }
func skip(reason string) outcome   { return outcome{skipped: reason} }
func found(list []Finding) outcome { return outcome{findings: list} }

// fail says what is wrong, and shows the exchange in which it was seen, which may be nil.
func fail(x *rawclient.Exchange, format string, args ...any) outcome {
	return found([]Finding{finding(x, format, args...)})
}

// verify fails, with a text about what was seen instead, unless what a rule wants holds.
func verify(holds bool, x *rawclient.Exchange, format string, args ...any) outcome {
	if holds {
		return pass()
	}
	return fail(x, format, args...)
}

func finding(x *rawclient.Exchange, format string, args ...any) Finding {
	f := Finding{Text: fmt.Sprintf(format, args...)}
	if x != nil {
		f.Frames = x.Frames()
	}
	return f
}

// The states of a result.
const (
	Passed  = "pass"
	Failed  = "fail"
	Skipped = "skip"
)

// A Result is what became of a rule.
type Result struct {
	ID          string    `json:"id"`
	Level       Level     `json:"level"`
	Requirement string    `json:"says"`
	State       string    `json:"state"`
	Reason      string    `json:"reason,omitempty"` // why it does not apply
	Findings    []Finding `json:"findings,omitempty"`
}

// A Report is what became of all rules.
type Report struct {
	Target   string   `json:"target"`
	How      string   `json:"how"`
	Server   string   `json:"server,omitempty"`
	Eras     []string `json:"eras"`
	Tokens   int      `json:"tokens"` // that the list of tools costs, roughly
	Errors   int      `json:"errors"`
	Warnings int      `json:"warnings"`
	Notes    int      `json:"notes"`
	Results  []Result `json:"results"`
}

// Options say what is checked, and how.
type Options struct {
	// Subject is the server. A Grace of zero means 2 s, and a Glance of zero 500 ms, which is how
	// long the next event of a stream that was resumed is waited for.
	rawclient.Subject

	// Smoke looks at the shortest conversation only: handshake, tools/list, and tools/call if
	// a tool is named.
	Smoke bool

	// Call is the tool that is called, with Arguments. If empty, none is.
	Call      string
	Arguments json.RawMessage

	// Only are patterns of the rules that are looked at; all if there are none. Ignore are those
	// that are not.
	Only, Ignore []string

	// Progress is told the report so far before each rule, and its name; nil tells nobody. With no
	// rule yet the server is being reached, and there is no report.
	Progress func(soFar *Report, rule string)
}

// ErrUnknown says that no rule is meant by a pattern.
var ErrUnknown = errors.New("there is no such rule")

// Run looks at a server by all rules. The error says that it is not there, does not answer or
// wants to know who asks.
func Run(ctx context.Context, given *Options) (*Report, error) {
	own := *given // what is learnt of the server is for this run only
	o := &own
	chosen, err := o.choose()
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, chosen: chosen, expected: map[string]bool{}, tried: map[string]*trial{}}
	defer r.close()
	tell := o.Progress
	if tell == nil {
		tell = func(*Report, string) {}
	}
	tell(nil, "")
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	report := &Report{Target: o.Name, How: r.how, Server: r.server(), Eras: r.eras()}
	for i := range chosen {
		rule := &chosen[i]
		tell(report, rule.ID)
		result := Result{ID: rule.ID, Level: rule.Level, Requirement: rule.Requirement, State: Passed}
		out := r.applies(rule)
		if out.skipped == "" {
			out = rule.look(ctx, r)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // what the rule says then is not so
		}
		switch {
		case out.skipped != "":
			result.State, result.Reason = Skipped, out.skipped
		case len(out.findings) > 0:
			result.State, result.Findings = Failed, out.findings
			*map[Level]*int{Error: &report.Errors, Warning: &report.Warnings, Info: &report.Notes}[rule.Level] += len(out.findings)
		}
		report.Results = append(report.Results, result)
	}
	if r.tools != nil {
		report.Tokens = r.tools.Tokens()
	}
	return report, nil
}

// choose returns the rules that are looked at. Those that judge all that was said come last.
func (o *Options) choose() (list []Rule, err error) {
	all := Rules()
	matches := func(patterns []string, id string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return pattern.Match(p, id) })
	}
	for _, p := range slices.Concat(o.Only, o.Ignore) {
		if !slices.ContainsFunc(all, func(rule Rule) bool { return pattern.Match(p, rule.ID) }) {
			return nil, fmt.Errorf("%w: %q", ErrUnknown, p)
		}
	}
	for _, rule := range all {
		switch {
		case o.Smoke && rule.needs&smokeAlone == 0:
		case len(o.Only) > 0 && !matches(o.Only, rule.ID), matches(o.Ignore, rule.ID):
		default:
			list = append(list, rule)
		}
	}
	return list, nil
}

// applies says why a rule does not apply, if it does not.
func (r *run) applies(rule *Rule) outcome {
	for _, n := range []struct {
		need needs
		has  bool
		why  string
	}{
		{process, r.pool != nil, "the server is no command"},
		{overHTTP, r.http != nil, "the server is not reached by Streamable HTTP"},
		{overOld, r.old != nil, "the server is not reached by HTTP+SSE"},
		{overSocket, r.opened != nil, "the server is not reached by WebSocket"},
		{legacyEra, r.legacy != nil, cmp.Or(r.silent[legacyEra], "the server speaks no legacy revision")},
		{modernEra, r.modern != nil, cmp.Or(r.silent[modernEra], "the server speaks no modern revision")},
		{haveTools, r.tools != nil, cmp.Or(r.silent[haveTools], "the server has no tools")},
		{listens, r.modern != nil && r.tellsOfTools(), "the server does not tell of changes of its tools"},
		{onlyModern, r.legacy == nil && r.takenBack == nil && r.silent[legacyEra] == "", "the server speaks legacy revisions, too, or does not say that it does not"},
		{sessions, r.http != nil && r.legacy != nil && r.legacy.Session().ID != "", "the server gives no sessions"},
		{versions, r.legacy != nil && r.legacy.Revision.NeedsVersionHeader(), "its revision does not have that header"},
		{namedTool, r.Call != "", "no tool is named by --call"},
	} {
		if rule.needs&n.need != 0 && !n.has {
			return skip(n.why)
		}
	}
	return pass()
}

// An AccessError says that the server wants to know who asks.
type AccessError struct{ Status int }

// Error implements error.
func (e *AccessError) Error() string {
	return fmt.Sprintf("the server wants to know who asks (status %d)", e.Status)
}

// An UnreachedError says that a server cannot be looked at.
type UnreachedError struct{ Reason error }

// Error implements error.
func (e *UnreachedError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *UnreachedError) Unwrap() error { return e.Reason }

// server returns what the server calls itself.
func (r *run) server() string {
	var info struct{ Name, Version string }
	hello := cmp.Or(r.hello, r.discovered).Hello()
	_ = json.Unmarshal(hello.ServerInfo, &info) // a rule looks at that
	return strings.TrimSpace(info.Name + " " + info.Version)
}

// eras returns the eras that the server speaks.
func (r *run) eras() []string {
	list := []string{}
	if r.modern != nil {
		list = append(list, protocol.Modern.String())
	}
	if r.legacy != nil {
		list = append(list, protocol.Legacy.String())
	}
	return list
}

// isRefusal reports whether a status says who asks matters.
func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}
