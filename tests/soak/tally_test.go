//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// An end is what calls came to: how often, and how many of these calls were hit by
// an accident.
type end struct{ calls, hit int }

// The ends that are as they should be.
const (
	succeeded = "succeeded"
	leftAlone = "the client lost interest"
)

// timedOut is how the end of a call begins for which nobody knew any better.
var timedOut = fmt.Sprint(protocol.CodeTimeout)

// errLeft is what comes of a call whose client loses interest in it.
var errLeft = errors.New(leftAlone)

// An event is one call, or the opening of a conversation.
type event struct {
	what, way string
	server    string // that is asked; "" for all of them
	all       bool   // by way of all servers as one
	era       protocol.Era
	key       string // in the journal, if it has one
	began     time.Time
	opened    time.Time // when the client came
}

func (e *event) String() string {
	s := fmt.Sprintf("%s of a %s client of %s over %s", e.what, e.era, e.server, e.way)
	if e.all {
		s += ", all as one"
	}
	return s
}

// note writes down what a call has come to, and returns an error if the conversation
// is over.
func (w *rig) note(err error, e *event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	what, closed := w.outcome(err, e)
	n := w.ends[what]
	if n == nil {
		n = &end{}
		w.ends[what] = n
	}
	n.calls++
	switch hit, last := w.hit(e); {
	case hit && !strings.HasPrefix(what, timedOut): // who is hit gets to know, and does not wait for nothing
		n.hit++
	case err != nil && what != leftAlone && n.calls-n.hit <= 5:
		w.remark("%v, begun %v and ended %v after an accident: %v", e, e.began.Sub(last).Round(time.Millisecond), time.Since(last).Round(time.Millisecond), err)
	}
	return closed
}

// outcome returns what a call has come to, and an error if the conversation is over.
// w.mu is locked.
func (w *rig) outcome(err error, e *event) (string, error) {
	code, outcome := gatewaytest.Outcome(err)
	told, isTold := errors.AsType[*gatewaytest.ToolError](err)
	status, isStatus := errors.AsType[*protocol.StatusError](err)
	if code == protocol.CodeInternal {
		w.remark("%v: %v", e, err)
	}
	if outcome == protocol.OutcomeNotSent && e.key != "" {
		w.unsent = append(w.unsent, e.key)
	}
	switch {
	case err == nil:
		return succeeded, nil
	case errors.Is(err, errLeft):
		return leftAlone, nil
	case errors.Is(err, context.DeadlineExceeded):
		w.problems = append(w.problems, fmt.Sprintf("%v had no end after %v: %v", e, limit, err))
		return "no end", err
	case code != 0 && outcome != "":
		return fmt.Sprintf("%d %s", code, outcome), nil
	case code == protocol.CodeInvalidParams || code == protocol.CodeMethodNotFound:
		// The server is another one since the reload, and knows nothing of the round
		// that the one before began.
		return fmt.Sprintf("%d: %s", code, e.what), nil
	case isTold && strings.Contains(told.Text, "gave no answer"):
		// The server lost the client while it asked.
		return "isError: " + e.what, nil
	case isStatus:
		return fmt.Sprintf("HTTP %d: %s", status.Status, e.what), err
	case errors.Is(err, dragoman.ErrClosed), errors.Is(err, streamable.ErrSessionGone):
		// The server was replaced, and its conversations were ended in order.
		return "closed", err
	}
	if len(w.problems) < 100 {
		w.problems = append(w.problems, fmt.Sprintf("%v came to %v", e, err))
	}
	return "other: " + e.what, err
}

// remark notes the end of a call that is worth a look. w.mu is locked.
func (w *rig) remark(format string, args ...any) {
	if len(w.odd) < 40 {
		w.odd = append(w.odd, fmt.Sprintf(format, args...))
	}
}

func (w *rig) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) < 100 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// spared returns how many calls no accident hit, and how many of these succeeded.
// Those whose client lost interest are neither.
func (w *rig) spared() (calls, ok int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, n := range w.ends {
		if what == leftAlone {
			continue
		}
		calls += n.calls - n.hit
		if what == succeeded {
			ok += n.calls - n.hit
		}
	}
	return calls, ok
}

// ranUnsent returns the keys of calls that were carried out although it was said that
// no server saw them.
func (w *rig) ranUnsent() (keys []string) {
	ran := map[string]bool{}
	for _, e := range w.journal.Of(fault.Ran, "") {
		ran[e.Key] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.unsent {
		if ran[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// tally says how calls ended.
func (w *rig) tally() string {
	calls, ok := w.spared()
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d processes; %d calls that no accident hit, of which %.2f %% succeeded\n", len(w.journal.Of(fault.Started, "")), calls, 100*float64(ok)/float64(max(calls, 1)))
	const row = "%9v %9v  %s\n"
	fmt.Fprintf(&b, row, "calls", "hit", "outcome")
	names := make([]string, 0, len(w.ends))
	for what := range w.ends {
		names = append(names, what)
	}
	slices.SortFunc(names, func(x, y string) int { return w.ends[y].calls - w.ends[x].calls })
	for _, what := range names {
		n := w.ends[what]
		fmt.Fprintf(&b, row, n.calls, n.hit, what)
	}
	return b.String() + strings.Join(w.odd, "\n")
}
