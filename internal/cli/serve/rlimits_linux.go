package serve

import (
	"log/slog"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// limitsInterval is how often the limits of this process are compared.
const limitsInterval = time.Second

// watchedLimits are the limits of a process that keep it from serving or writing, and that
// every process of the same user can change.
var watchedLimits = map[string]int{
	"cpu": syscall.RLIMIT_CPU, "file size": syscall.RLIMIT_FSIZE, "data": syscall.RLIMIT_DATA,
	"processes": 6, "open files": syscall.RLIMIT_NOFILE, "memory": syscall.RLIMIT_AS,
}

// A resourceLimit is a limit as prlimit64 has it.
type resourceLimit struct{ Soft, Hard uint64 }

// ownLimit returns a limit of this process, after setting it if value is not nil. Package
// syscall would take a new limit of files for the one that servers are to have.
func ownLimit(resource int, value *resourceLimit) (now resourceLimit, err error) {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(resource), uintptr(unsafe.Pointer(value)), uintptr(unsafe.Pointer(&now)), 0, 0)
	if errno != 0 {
		return now, errno
	}
	return now, nil
}

// ownLimits are the limits that this process has had so far, by their names.
type ownLimits map[string]resourceLimit

// readLimits returns the limits of this process.
func readLimits() ownLimits {
	l := make(ownLimits)
	for name, resource := range watchedLimits {
		if limit, err := ownLimit(resource, nil); err == nil {
			l[name] = limit
		}
	}
	return l
}

// check logs each limit that was lowered, and restores it as far as the hard limit allows.
func (l ownLimits) check(log *slog.Logger) {
	for name, before := range l {
		resource := watchedLimits[name]
		now, err := ownLimit(resource, nil)
		if err != nil || now.Soft >= before.Soft && now.Hard >= before.Hard {
			continue
		}
		possible := resourceLimit{min(before.Soft, now.Hard), now.Hard}
		if _, err = ownLimit(resource, &before); err != nil { // only root can raise hard limits
			_, err = ownLimit(resource, &possible)
		}
		restored, readErr := ownLimit(resource, nil)
		if err != nil || readErr != nil {
			restored = now
		}
		l[name] = restored
		log.Error("a resource limit of the gateway was lowered by another process", "limit", name,
			"was", before.Soft, "lowered_to", now.Soft, "restored_to", restored.Soft, "hard", restored.Hard)
	}
}

// watchLimits notices when other processes lower the limits of this one, and restores them.
// It ends with stop.
func watchLimits(log *slog.Logger) (stop func()) {
	limits, done := readLimits(), make(chan struct{})
	var running sync.WaitGroup
	// Ends with stop.
	running.Go(func() {
		tick := time.NewTicker(limitsInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				limits.check(log)
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}
