package peertest

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"
)

// leaving is how long goroutines may take to end after all is closed.
const leaving = 5 * time.Second * slowdown

// NoLeak fails t if goroutines are left when it and its cleanups are over. It
// must be the first to register a cleanup.
func NoLeak(t *testing.T) { noLeak(t) }

// noLeak does what NoLeak says, and returns the goroutines that are there.
func noLeak(t *testing.T) (before map[string]string) {
	before = goroutines()
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return // the goroutines of a test that gave up say nothing
		}
		left := leftover(before)
		// They may be on their way out. To look is a good part of the work of a test, so
		// it is done less often with time.
		pause := time.Millisecond
		for end := time.Now().Add(leaving); len(left) > 0 && time.Now().Before(end); left = leftover(before) {
			time.Sleep(pause)
			pause = min(2*pause, 50*time.Millisecond)
		}
		if len(left) > 0 {
			t.Errorf("%d goroutines are left after the conversation:\n\n%s", len(left), strings.Join(left, "\n\n"))
		}
	})
	return before
}

// leftover returns the stacks of the goroutines that were not there before.
func leftover(before map[string]string) []string {
	var left []string
	for id, stack := range goroutines() {
		if _, old := before[id]; !old && !foreign(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// goroutines returns the stack of every goroutine by its number.
func goroutines() map[string]string {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := make(map[string]string)
	for stack := range bytes.SplitSeq(buf, []byte("\n\n")) {
		// "goroutine 7 [running]:"
		if number, _, ok := bytes.Cut(bytes.TrimPrefix(stack, []byte("goroutine ")), []byte(" ")); ok {
			all[string(number)] = string(stack)
		}
	}
	return all
}

// foreign reports whether a goroutine is the runtime's or the testing package's,
// which come and go as they like.
func foreign(stack string) bool {
	for _, s := range [...]string{
		"testing.(*M).startAlarm",
		"testing.(*F).",
		"os/signal.signal_recv",
		"os/signal.loop",
		"runtime.ensureSigM",
		"runtime/pprof.profileWriter",
		"runtime/trace.Start",
	} {
		if strings.Contains(stack, s) {
			return true
		}
	}
	return false
}
