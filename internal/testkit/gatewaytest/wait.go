package gatewaytest

import (
	"testing"
	"time"
)

// Patience is how long anything may take that is expected to happen, on a machine
// with much else to do.
const Patience = 40 * time.Second

// Until waits until f has no error any more, and returns the last one if that does
// not come to pass.
func Until(limit time.Duration, f func() error) error {
	end := time.Now().Add(limit)
	pause := 5 * time.Millisecond // between two looks; nothing depends on it
	for {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// Eventually fails the test unless f has no error any more in time.
func Eventually(t *testing.T, f func() error) {
	t.Helper()
	if err := Until(Patience, f); err != nil {
		t.Fatal(err)
	}
}
