package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// MaxProblems is how many problems a report holds; more are counted.
const MaxProblems = 100

// A Problem is something that is wrong with a configuration, or worth knowing. It
// shows no value that may be a secret.
type Problem struct {
	File         string // as it was given to Load
	Line, Column int    // from one, columns in characters; zero if it is no matter of a place
	Server       string // whose, if it is a server's
	Message      string
	Hint         string // what to do about it; may be empty
	Excerpt      string // the line, and a line with a caret below; may be empty
}

// String returns the problem in several lines, without a line end.
func (p Problem) String() string { return p.format("") }

// Error implements error.
func (p *Problem) Error() string { return p.String() }

func (p Problem) format(word string) string {
	var b strings.Builder
	b.WriteString(syntax.Printable(p.File))
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": " + word + p.Message)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	if p.Hint != "" {
		b.WriteString("\n    hint: " + p.Hint)
	}
	return b.String()
}

// A Report is all that there is to say about a configuration, in the order of the
// files and places.
type Report struct {
	Errors, Warnings []Problem

	// Omitted is how many more there are.
	Omitted int
}

// Err returns r if there are errors, else nil.
func (r *Report) Err() error {
	if len(r.Errors) == 0 {
		return nil
	}
	return r
}

// Refused returns r if there is an error that is no server's, else nil. A server with
// an error can be left out; with another error the configuration as a whole cannot be
// used.
func (r *Report) Refused() error {
	if slices.ContainsFunc(r.Errors, func(p Problem) bool { return p.Server == "" }) {
		return r
	}
	return nil
}

// Of returns the errors of a server, as text.
func (r *Report) Of(server string) string {
	var parts []string
	for _, p := range r.Errors {
		if p.Server == server {
			parts = append(parts, p.format("error: "))
		}
	}
	return strings.Join(parts, "\n")
}

// Error implements error. It returns all problems, errors first.
func (r *Report) Error() string {
	var parts []string
	for _, p := range r.Errors {
		parts = append(parts, p.format("error: "))
	}
	for _, p := range r.Warnings {
		parts = append(parts, p.format("warning: "))
	}
	if r.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", r.Omitted))
	}
	return strings.Join(parts, "\n")
}

// A log gathers problems, at most MaxProblems.
type log struct {
	problems []syntax.Problem
	omitted  int
}

func (l *log) add(p syntax.Problem) {
	if len(l.problems) == MaxProblems {
		l.omitted++
		// An error must not be lost behind warnings, and one that is no server's not
		// behind those of servers.
		i := slices.IndexFunc(l.problems, func(p syntax.Problem) bool { return p.Warning })
		if i < 0 && p.About == "" {
			i = slices.IndexFunc(l.problems, func(p syntax.Problem) bool { return p.About != "" })
		}
		if p.Warning || i < 0 {
			return
		}
		l.problems = slices.Delete(l.problems, i, i+1)
	}
	l.problems = append(l.problems, p)
}

// report sorts the problems and adds the excerpts.
func (l *log) report() *Report {
	slices.SortStableFunc(l.problems, func(a, b syntax.Problem) int {
		return cmp.Or(cmp.Compare(a.Source.Order, b.Source.Order), cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	r := &Report{Omitted: l.omitted}
	for _, p := range l.problems {
		list := &r.Errors
		if p.Warning {
			list = &r.Warnings
		}
		at, excerpt := p.Source.Excerpt(p.At)
		*list = append(*list, Problem{
			File: p.Source.Name, Line: at.Line, Column: at.Column, Server: p.About,
			Message: syntax.Printable(p.Message), Hint: syntax.Printable(p.Hint), Excerpt: excerpt,
		})
	}
	return r
}
