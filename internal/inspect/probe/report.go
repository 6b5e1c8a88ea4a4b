// Package probe finds out what a server is and why it does not work, for "dragoman probe". It
// sends what any client sends, and calls no tool.
package probe

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// A State says what a line of a report is.
type State string

// The states.
const (
	OK      State = "ok"
	Problem State = "problem"
	Note    State = "note" // neither good nor bad
)

// A Line is one thing that was found out.
type Line struct {
	Topic  string   `json:"topic"`
	State  State    `json:"state"`
	Text   string   `json:"text"`
	Advice string   `json:"advice,omitempty"` // what to do about a problem
	More   []string `json:"more,omitempty"`   // what the server wrote
}

// A Verdict is what comes of a report.
type Verdict string

// The verdicts.
const (
	Works         Verdict = "works"
	Problems      Verdict = "problems"
	Authorization Verdict = "authorization" // it requires authentication
	Unreachable   Verdict = "unreachable"   // it is not there, or does not answer
)

// A Revision is what a server said when it was asked for a revision.
type Revision struct {
	Revision string `json:"revision"`
	Era      string `json:"era"`
	Spoken   bool   `json:"spoken"`
	Answer   string `json:"answer"` // the revision that it names instead, or an error
}

// A Report is all that was found out about a server.
type Report struct {
	Target  string  `json:"target"`
	How     string  `json:"how"`
	Verdict Verdict `json:"verdict"`

	Server       json.RawMessage  `json:"server,omitempty"` // what it says of itself
	Transports   map[string]bool  `json:"transports,omitempty"`
	Revisions    []Revision       `json:"revisions,omitempty"`
	Capabilities json.RawMessage  `json:"capabilities,omitempty"`
	Counts       map[string]int   `json:"counts,omitempty"`
	Withheld     []string         `json:"withheld,omitempty"` // names of variables
	SignIn       *oauth.Discovery `json:"signIn,omitempty"`
	Lines        []Line           `json:"lines"`
}

// add adds a line. What it says may be a server's words.
func (r *Report) add(topic string, state State, format string, args ...any) *Line {
	text := redact.Printable(redact.Text(fmt.Sprintf(format, args...)), "")
	r.Lines = append(r.Lines, Line{Topic: topic, State: state, Text: text})
	return &r.Lines[len(r.Lines)-1]
}

func (r *Report) ok(topic, format string, args ...any)   { r.add(topic, OK, format, args...) }
func (r *Report) note(topic, format string, args ...any) { r.add(topic, Note, format, args...) }

// problem adds a problem, and what to do about it.
func (r *Report) problem(topic, advice, format string, args ...any) {
	r.add(topic, Problem, format, args...).Advice = advice
}

// Problems returns how many problems there are.
func (r *Report) Problems() (n int) {
	for i := range r.Lines {
		if r.Lines[i].State == Problem {
			n++
		}
	}
	return n
}

// topics are in the order in which they are shown.
var topics = []string{"start", "connect", "dns", "proxy", "tcp", "tls", "framing", "stdout", "stream", "stderr", "environment", "redirect", "transport", "authorization",
	"server", "revisions", "can", "offers", "messages", "conduct", "session", "resumption", "versions", "security", "end"}

// conclude puts the lines in order, and says what comes of it all, unless it was said before.
func (r *Report) conclude() {
	slices.SortStableFunc(r.Lines, func(a, b Line) int { return slices.Index(topics, a.Topic) - slices.Index(topics, b.Topic) })
	if r.Verdict != "" {
		return
	}
	r.Verdict = Works
	if r.Problems() > 0 {
		r.Verdict = Problems
	}
}

// spoken returns the revisions that the server speaks.
func (r *Report) spoken() (list []Revision) {
	return slices.DeleteFunc(slices.Clone(r.Revisions), func(v Revision) bool { return !v.Spoken })
}

var marks = map[State]string{OK: "✓", Problem: "✗", Note: "·"}

// WriteText writes the report for people. fit breaks a text that begins at a column, if need be.
func (r *Report) WriteText(w io.Writer, fit func(text string, column int) string) error {
	width := 0
	for i := range r.Lines {
		width = max(width, len(r.Lines[i].Topic))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", redact.Printable(r.Target, ""), r.How)
	last := ""
	for i := range r.Lines {
		l, topic := &r.Lines[i], ""
		if l.Topic != last {
			topic = l.Topic
		}
		last = l.Topic
		fmt.Fprintf(&b, "%-*s  %s %s\n", width, topic, marks[l.State], fit(l.Text, width+4))
		indent := strings.Repeat(" ", width+4)
		for _, more := range l.More {
			fmt.Fprintf(&b, "%s  | %s\n", indent, more)
		}
		if l.Advice != "" {
			fmt.Fprintf(&b, "%s→ %s\n", indent, fit(l.Advice, width+6))
		}
	}
	switch n := r.Problems(); {
	case r.Verdict == Authorization:
		b.WriteString("it requires authentication\n")
	case r.Verdict == Unreachable:
		b.WriteString("it cannot be used\n")
	case n == 1:
		b.WriteString("1 problem\n")
	case n > 1:
		fmt.Fprintf(&b, "%d problems\n", n)
	default:
		b.WriteString("it works\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
