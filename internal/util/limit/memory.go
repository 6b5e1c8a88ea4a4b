package limit

import (
	"runtime/metrics"
	"sync"
	"time"
)

// SampleInterval is how long a measurement of memory counts.
const SampleInterval = 100 * time.Millisecond

// Shares of the memory, in percent, at which new work is refused: first that which
// stays, then all. What is in flight needs the rest.
const (
	SessionsAt = 80
	RequestsAt = 90
)

// A Memory tells how much of the memory that we may use is in use. It is measured by
// who asks. A nil *Memory is never short.
type Memory struct {
	max uint64

	mu      sync.Mutex
	measure func() uint64
	at      time.Time // of the last measurement
	used    uint64
}

// NewMemory returns what compares the memory in use with so many bytes, nil for zero.
// Measure tells how many are in use; if it is nil, the runtime does.
func NewMemory(max uint64, measure func() uint64) *Memory {
	if max == 0 {
		return nil
	}
	if measure == nil {
		measure = newMeasure()
	}
	return &Memory{max: max, measure: measure}
}

// Short reports whether at least so many percent are in use.
func (m *Memory) Short(percent uint64) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); m.at.IsZero() || now.Sub(m.at) >= SampleInterval {
		m.at, m.used = now, m.measure()
	}
	return m.used >= m.max/100*percent
}

// newMeasure returns what measures the memory in use: what the collector has found alive,
// stacks, and what the runtime itself has. Garbage does not count, since it is
// collected when there is need: with a limit in force, the collector runs before that.
func newMeasure() func() uint64 {
	const heap = "/memory/classes/heap/"
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: heap + "objects:bytes"}, {Name: heap + "unused:bytes"}, {Name: heap + "free:bytes"}, {Name: heap + "released:bytes"},
	}
	return func() uint64 {
		metrics.Read(samples)
		used := samples[0].Value.Uint64() + min(samples[1].Value.Uint64(), samples[2].Value.Uint64())
		for _, s := range samples[2:] {
			used -= min(used, s.Value.Uint64())
		}
		return used
	}
}
