package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What follows looks at /proc. Where there is none, it sees nothing.

// stat returns the state of a process and the number of its parent.
func stat(pid int) (state string, parent int, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	// The name of the program stands in brackets and may hold anything.
	end := strings.LastIndex(string(text), ") ")
	fields := strings.Fields(string(text[end+2:]))
	if end < 0 || len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}

// Children returns the children of a process, and of these those that nobody has
// waited for.
func Children(pid int) (all, zombies []int) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, f := range files {
		n, err := strconv.Atoi(filepath.Base(f))
		if err != nil {
			continue
		}
		state, parent, ok := stat(n)
		if !ok || parent != pid {
			continue
		}
		all = append(all, n)
		if state == "Z" {
			zombies = append(zombies, n)
		}
	}
	return all, zombies
}

// Alive reports whether there is a process that has not ended.
func Alive(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != "Z"
}

// Gone returns an error that names the processes that have not ended.
func Gone(pids ...int) error {
	var left []string
	for _, pid := range pids {
		if Alive(pid) {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			left = append(left, fmt.Sprintf("%d (%s)", pid, strings.ReplaceAll(string(command), "\x00", " ")))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("processes are left: %q", left)
	}
	return nil
}

// Files returns how many files a process has open.
func Files(pid int) int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(list)
}

// Resident returns how much memory a process uses, in bytes.
func Resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// Processor returns how much time of a processor a process has used.
func Processor(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name of the program stands in brackets and may hold anything.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // as on every Linux
	return time.Duration(user+system) * tick
}
