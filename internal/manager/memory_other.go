//go:build !linux

package manager

import "runtime"

// groupMemory is not known here.
func groupMemory() map[int]int64 { return nil }

// OwnMemory returns how much memory we have from the system.
func OwnMemory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
