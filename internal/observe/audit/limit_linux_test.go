package audit

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// rlimitFsize limits the size of the files that the process writes.
const rlimitFsize = 1

func TestCallIsRefusedWhenTheProcessMayWriteNoFiles(t *testing.T) {
	l := reopen(t, filepath.Join(t.TempDir(), "audit.log"), &Options{Refuse: true})
	if err := begin(t, l, 1); err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(rlimitFsize, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 0
	if err := syscall.Setrlimit(rlimitFsize, &none); err != nil {
		t.Fatal(err)
	}
	refusal := begin(t, l, 2)
	status := l.Status()
	if err := syscall.Setrlimit(rlimitFsize, &before); err != nil {
		t.Fatal(err)
	}
	if refusal == nil || status.Failure == nil || !strings.Contains(status.Failure.Error, "file too large") {
		t.Errorf("got %v, the status is %+v", refusal, status)
	}
}
