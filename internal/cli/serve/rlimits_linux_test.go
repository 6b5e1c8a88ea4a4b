package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// lower lowers the soft limit of this process's files to something that harms nobody.
func lower(t *testing.T) (before resourceLimit) {
	t.Helper()
	before, err := ownLimit(syscall.RLIMIT_FSIZE, nil)
	if err != nil {
		t.Fatal(err)
	}
	lowered := resourceLimit{min(before.Soft, 1<<50), before.Hard}
	if lowered == before {
		t.Skip("it is low already")
	}
	t.Cleanup(func() { _, _ = ownLimit(syscall.RLIMIT_FSIZE, &before) })
	if _, err := ownLimit(syscall.RLIMIT_FSIZE, &lowered); err != nil {
		t.Fatal(err)
	}
	return before
}

func TestLoweredLimitIsLoggedOnceAndRestored(t *testing.T) {
	limits := readLimits()
	before := lower(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	limits.check(logger)
	if now, err := ownLimit(syscall.RLIMIT_FSIZE, nil); err != nil || now != before {
		t.Errorf("the limit is %+v, %v; it was %+v", now, err, before)
	}
	limits.check(logger)
	if text := log.String(); strings.Count(text, "was lowered") != 1 || !strings.Contains(text, `limit="file size"`) || !strings.Contains(text, "lowered_to=1125899906842624") || !strings.Contains(text, "level=ERROR") {
		t.Errorf("the log has\n%s", text)
	}
}

func TestLimitsAreWatchedUntilTheGatewayEnds(t *testing.T) {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		stop := watchLimits(slog.New(slog.NewTextHandler(&log, nil)))
		before := lower(t)
		time.Sleep(limitsInterval)
		synctest.Wait()
		if now, _ := ownLimit(syscall.RLIMIT_FSIZE, nil); now != before {
			t.Errorf("the limit is %+v, it was %+v", now, before)
		}
		stop()
	})
	if !strings.Contains(log.String(), "was lowered") {
		t.Errorf("the log has\n%s", log.String())
	}
}
