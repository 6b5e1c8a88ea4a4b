package gatewaytest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
		if err != nil || ofKernel(n) {
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

// CPU returns how much processor time a process has used, to a hundredth of a second.
func CPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ") ")+2:]))
	var ticks int64 // of a hundredth of a second, as on all machines by now
	for _, f := range fields[min(11, len(fields)):min(13, len(fields))] {
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Tracing in the environment of the program has its runtime say what each collection
// of garbage leaves, for Live.
const Tracing = "GODEBUG=gctrace=1"

// collection finds what a collection has left, of the heap and of stacks.
var collection = regexp.MustCompile(`(?m)^gc \d+ @.*->(\d+) MB, .* (\d+) MB stacks`)

// Live returns what each collection of garbage so far has left, in bytes to the next
// megabyte. Unlike resident memory it does not depend on when garbage was collected last,
// and what the runtime has given back.
func (p *Process) Live() (sizes []int64) {
	for _, line := range collection.FindAllStringSubmatch(p.Stderr(), -1) {
		heap, _ := strconv.ParseInt(line[1], 10, 32)
		stacks, _ := strconv.ParseInt(line[2], 10, 32)
		sizes = append(sizes, (heap+stacks)<<20)
	}
	return sizes
}
