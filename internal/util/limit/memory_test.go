package limit

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsMeasuredAtMostEvery100Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured, used := 0, uint64(79)
		m := NewMemory(100, func() uint64 {
			measured++
			return used
		})
		for range 10 {
			if m.Short(SessionsAt) || m.Short(RequestsAt) {
				t.Fatal("short with 79 % in use")
			}
		}
		used = 85
		time.Sleep(SampleInterval - 1)
		if m.Short(SessionsAt) || measured != 1 {
			t.Errorf("measured %d times", measured)
		}
		time.Sleep(time.Nanosecond)
		if !m.Short(SessionsAt) || m.Short(RequestsAt) || measured != 2 {
			t.Errorf("measured %d times; with 85 %% there is no room for sessions, and some for requests", measured)
		}
		used = 90
		time.Sleep(SampleInterval)
		if !m.Short(RequestsAt) {
			t.Error("there is room for requests with 90 %")
		}
	})
}

func TestGarbageDoesNotCount(t *testing.T) {
	measure := newMeasure()
	runtime.GC()
	before := measure()
	const size = 64 << 20
	memory := make([]byte, size)
	runtime.GC()
	if used := measure(); used < before+size*9/10 || used > before+2*size {
		t.Errorf("%d MiB are in use with %d kept, before it were %d", used>>20, size>>20, before>>20)
	}
	runtime.KeepAlive(memory)
	runtime.GC()
	for range size >> 10 {
		garbage = make([]byte, 1<<10)
	}
	if used := measure(); used > before+size/2 {
		t.Errorf("%d MiB are in use with nothing kept, before it were %d", used>>20, before>>20)
	}
}

var garbage []byte

func BenchmarkMemory(b *testing.B) {
	m := NewMemory(1<<40, nil)
	b.ReportAllocs()
	for b.Loop() {
		m.Short(RequestsAt)
	}
}

func BenchmarkMeasure(b *testing.B) {
	measure := newMeasure()
	b.ReportAllocs()
	for b.Loop() {
		measure()
	}
}
