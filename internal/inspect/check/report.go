package check

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// Formats are how a report can be written.
var Formats = []string{"text", "json", "junit", "sarif"}

// Write writes the report in a format. Text has the rules that hold only if all is set.
func (r *Report) Write(w io.Writer, format string, all bool) error {
	switch format {
	case "json":
		return writeJSON(w, r)
	case "junit":
		return r.writeJUnit(w)
	case "sarif":
		return writeJSON(w, r.sarif())
	}
	return (&Printer{W: w, All: all}).End(r)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Findings returns how many errors and warnings there are.
func (r *Report) Findings() int { return r.Errors + r.Warnings }

// count returns how many results have a state.
func (r *Report) count(state string) (n int) {
	for i := range r.Results {
		if r.Results[i].State == state {
			n++
		}
	}
	return n
}

var marks = map[Level]string{Error: "✗", Warning: "!", Info: "·"}

// A Printer writes a report as text, also while it is made.
type Printer struct {
	W   io.Writer
	All bool // rules that hold and those that do not apply, too

	// Fit breaks a text that begins at a column, if need be. It may be nil.
	Fit func(text string, column int) string

	shown int // results so far
	begun bool
}

// Show writes what has come to the report since it was shown last.
func (p *Printer) Show(r *Report) error {
	var b strings.Builder
	if !p.begun {
		p.begun = true
		head := fmt.Sprintf("%s: %s, %s (%s)", redact.Printable(r.Target, ""), redact.Printable(cmp.Or(r.Server, "a server without a name"), ""), r.How, strings.Join(r.Eras, " and "))
		fmt.Fprintln(&b, p.fit(head, 0))
	}
	for ; p.shown < len(r.Results); p.shown++ {
		p.show(&b, &r.Results[p.shown])
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

// idWidth is that of the column of rules.
const idWidth = 22

func (p *Printer) show(b *strings.Builder, x *Result) {
	switch {
	case x.State == Failed:
		p.rule(b, marks[x.Level], string(x.Level), x.ID, x.Requirement)
	case p.All && x.State == Skipped:
		p.rule(b, "-", "", x.ID, x.Requirement+": "+redact.Printable(x.Reason, ""))
	case p.All:
		p.rule(b, "✓", "", x.ID, x.Requirement)
	}
	for _, f := range x.Findings {
		fmt.Fprintf(b, "    %s\n", p.fit(redact.Printable(f.Text, ""), 4))
		for _, frame := range f.Frames {
			fmt.Fprintf(b, "      %s\n", redact.Printable(frame, "")) // as it is, to be copied
		}
	}
}

// rule writes the line of a rule.
func (p *Printer) rule(b *strings.Builder, mark, level, id, text string) {
	fmt.Fprintf(b, "%s %-7s  %-*s  %s\n", mark, level, idWidth, id, p.fit(text, 13+max(idWidth, len(id))))
}

func (p *Printer) fit(text string, column int) string {
	if p.Fit == nil {
		return text
	}
	return p.Fit(text, column)
}

// End writes the rest of the report, and what comes of it.
func (p *Printer) End(r *Report) error {
	if err := p.Show(r); err != nil {
		return err
	}
	var b strings.Builder
	hold, apply := "rules hold", "do not apply"
	if r.count(Passed) == 1 {
		hold = "rule holds"
	}
	if r.count(Skipped) == 1 {
		apply = "does not apply"
	}
	sum := fmt.Sprintf("%d %s, %d %s; errors: %d, warnings: %d, notes: %d", r.count(Passed), hold, r.count(Skipped), apply, r.Errors, r.Warnings, r.Notes)
	fmt.Fprintln(&b, p.fit(sum, 0))
	if r.Tokens > 0 {
		fmt.Fprintln(&b, p.fit(fmt.Sprintf("the list of tools costs a model about %d tokens", r.Tokens), 0))
	}
	_, err := io.WriteString(p.W, b.String())
	return err
}

// The elements of a JUnit report.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a test case for each rule. Notes are told and are no failures.
func (r *Report) writeJUnit(w io.Writer) error {
	s := junitSuite{Name: "dragoman check " + r.Target, Tests: len(r.Results), Skipped: r.count(Skipped)}
	for i := range r.Results {
		x := &r.Results[i]
		c := junitCase{Class: "dragoman.check", Name: x.ID + ": " + x.Requirement}
		var text strings.Builder
		for _, f := range x.Findings {
			fmt.Fprintln(&text, redact.Printable(f.Text, ""))
			for _, frame := range f.Frames {
				fmt.Fprintln(&text, "  "+redact.Printable(frame, ""))
			}
		}
		switch {
		case x.State == Skipped:
			c.Skipped = &junitMessage{Message: redact.Printable(x.Reason, "")}
		case x.State == Failed && x.Level == Info:
			c.Out = text.String()
		case x.State == Failed:
			s.Failures++
			c.Failure = &junitMessage{Message: redact.Printable(x.Findings[0].Text, ""), Type: string(x.Level), Text: text.String()}
		}
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// sarif returns the report as SARIF 2.1.0, for programs that show findings of linters.
func (r *Report) sarif() any {
	type object = map[string]any
	rules, results := []object{}, []object{}
	for i := range r.Results {
		x := &r.Results[i]
		level := string(x.Level)
		rules = append(rules, object{"id": x.ID, "shortDescription": object{"text": x.Requirement}, "defaultConfiguration": object{"level": level}, "helpUri": "https://github.com/dragoman-mcp/dragoman/blob/main/docs/check.md"})
		for _, f := range x.Findings {
			where := object{"fullyQualifiedName": r.Target}
			if f.Tool != "" {
				where = object{"fullyQualifiedName": r.Target + "#" + f.Tool, "name": f.Tool, "kind": "function"}
			}
			text := f.Text
			if len(f.Frames) > 0 {
				text += "\n" + strings.Join(f.Frames, "\n")
			}
			results = append(results, object{"ruleId": x.ID, "ruleIndex": i, "level": level, "message": object{"text": redact.Printable(text, "\n")}, "locations": []object{{"logicalLocations": []object{where}}}})
		}
	}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool":    object{"driver": object{"name": "dragoman check", "informationUri": "https://github.com/dragoman-mcp/dragoman", "rules": rules}},
			"results": results,
		}},
	}
}
