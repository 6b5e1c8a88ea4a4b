package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// A state is what became of a case.
type state string

const (
	passed  state = "pass"
	failed  state = "fail"
	missing state = "missing" // no test of it has run
	exempt  state = "not counted"
)

// A scored is one case of the table, and what came of its tests.
type scored struct {
	number string
	weight int
	what   string
	reason string           // why it is not counted; "" if it is
	tests  map[string]state // by name; a test that was skipped is missing
}

// heavy is the weight of a case without which there is no release.
const heavy = 3

// rowNumber matches the first cell of a row of ours.
var rowNumber = regexp.MustCompile(`^S\d\d$`)

// readTable reads the cases from the document that describes them: rows of a number, a
// weight, what must hold and its tests, and shorter ones of those that are not counted.
func readTable(file string) ([]*scored, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []*scored
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) < 4 || !rowNumber.MatchString(cells[1]) {
			continue
		}
		c := &scored{number: cells[1], tests: map[string]state{}}
		switch len(cells) {
		case 6:
			c.what = cells[3]
			if c.weight, err = strconv.Atoi(cells[2]); err != nil || c.weight < 1 {
				return nil, fmt.Errorf("%s: the weight of %s is %q", file, c.number, cells[2])
			}
		case 4:
			c.reason = cells[2]
		default:
			return nil, fmt.Errorf("%s: the row of %s has %d cells", file, c.number, len(cells)-2)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no cases", file)
	}
	return list, nil
}

// numbers returns the cases that a test shows, which stand at the beginning of its name:
// TestS02_S03_Name.
func numbers(test string) (list []string) {
	for part := range strings.SplitSeq(strings.TrimPrefix(test, "Test"), "_") {
		if rowNumber.MatchString(part) {
			list = append(list, part)
		}
	}
	return list
}

// state returns what a case has come to: it passes if a test of it does and none fails.
func (c *scored) state() state {
	if c.reason != "" {
		return exempt
	}
	best := missing
	for _, s := range c.tests {
		switch s {
		case failed:
			return failed
		case passed:
			best = passed
		}
	}
	return best
}
