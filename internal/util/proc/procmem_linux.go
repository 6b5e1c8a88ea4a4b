package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// MemoryOfGroups returns how much memory processes have resident, by their groups. A server
// is the first of a group of its own, in which is what it starts.
func MemoryOfGroups() map[int]int64 {
	groups, page := make(map[int]int64), int64(os.Getpagesize())
	proc, err := os.Open("/proc")
	if err != nil {
		return groups
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // what it has read counts
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if group, err := syscall.Getpgid(pid); err != nil || group == 0 {
			continue // it has ended, or is a thread of the kernel, as most are
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may itself have spaces and parentheses. What follows
		// is in proc_pid_stat(5): pgrp is the third, rss the twenty-second.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 22 {
			continue
		}
		group, err := strconv.Atoi(fields[2])
		pages, err2 := strconv.ParseInt(fields[21], 10, 64)
		if err == nil && err2 == nil {
			groups[group] += pages * page
		}
	}
	return groups
}

// OwnMemory returns how much memory we have resident ourselves, 0 if that is not known.
func OwnMemory() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64) // zero if it is none
	return pages * int64(os.Getpagesize())
}
