package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// enough is the part of the cases of weight 1 that must pass, in percent.
const enough = 95

// A sum is what all cases have come to.
type sum struct {
	heavy, heavyPassed int // cases without which there is no release
	rest, restPassed   int
}

func sumOf(list []*scored) (s sum) {
	for _, c := range list {
		state := c.state()
		if state == exempt {
			continue
		}
		all, good := &s.rest, &s.restPassed
		if c.weight >= heavy {
			all, good = &s.heavy, &s.heavyPassed
		}
		*all++
		if state == passed {
			*good++
		}
	}
	return s
}

// percent returns how many of the cases of weight 1 pass. Without any, all do.
func (s sum) percent() float64 {
	if s.rest == 0 {
		return 100
	}
	return 100 * float64(s.restPassed) / float64(s.rest)
}

// ok reports whether that is enough for a release.
func (s sum) ok() bool { return s.heavyPassed == s.heavy && s.percent() >= enough }

// write prints the table, and the sum below it.
func write(w io.Writer, list []*scored) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CASE\tWEIGHT\tRESULT\tTESTS\tWHAT MUST HOLD")
	for _, c := range list {
		if c.reason != "" {
			fmt.Fprintf(t, "%s\t-\t%s\t-\t%s\n", c.number, c.state(), c.reason)
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%s\n", c.number, c.weight, c.state(), len(c.tests), plain(c.what))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nThe tests of each case:")
	for _, c := range list {
		if c.reason == "" {
			fmt.Fprintf(w, "  %s  %s\n", c.number, named(c.tests))
		}
	}
	s := sumOf(list)
	verdict := "enough"
	if !s.ok() {
		verdict = "NOT ENOUGH"
	}
	_, err := fmt.Fprintf(w, "\nweight %d: %d of %d pass; the rest: %d of %d pass, %.1f %% (all and %d %% are needed): %s\n",
		heavy, s.heavyPassed, s.heavy, s.restPassed, s.rest, s.percent(), enough, verdict)
	return err
}

// named lists tests, with a word for each that did not pass.
func named(tests map[string]state) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		switch tests[name] {
		case passed:
			list = append(list, name)
		case missing:
			list = append(list, name+" (skipped)")
		default:
			list = append(list, name+" ("+strings.ToUpper(string(tests[name]))+")")
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// plain returns text without the marks of Markdown.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }
