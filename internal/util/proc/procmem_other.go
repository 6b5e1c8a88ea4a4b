//go:build !linux

package proc

import "runtime"

// MemoryOfGroups returns nothing: it is not known here.
func MemoryOfGroups() map[int]int64 { return nil }

// OwnMemory returns how much memory we have from the system.
func OwnMemory() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}
