package stdio

import (
	"errors"
	"time"
)

// ResourceLimits bounds what one process of a server may use. The zero value
// is no limit. They exist on Linux only; elsewhere a Command that has any does
// not start.
//
// Each process that the server starts has the same limits for itself: the
// memory of a whole process tree is a matter for the container or the service
// manager. The limits take effect right after the server has started, so what
// it does in its first moments may escape them; a server that is to be limited
// against its will belongs in a container.
type ResourceLimits struct {
	// Memory is the size of the address space in bytes. Runtimes that reserve
	// much more than they use, such as Node.js, need a generous one.
	Memory int64

	// OpenFiles is the number of open files.
	OpenFiles int64

	// CPUTime is the processor time, rounded up to seconds. A process that has
	// used it up is killed.
	CPUTime time.Duration
}

func (l ResourceLimits) check() error {
	switch {
	case l.Memory < 0 || l.OpenFiles < 0 || l.CPUTime < 0:
		return errors.New("a resource limit is negative")
	case l != ResourceLimits{} && !haveLimits:
		return errors.New("resource limits are available on Linux only")
	}
	return nil
}
