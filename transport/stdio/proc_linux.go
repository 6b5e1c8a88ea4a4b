package stdio

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// maxEnviron is how much of a process's environment is searched for a tag.
const maxEnviron = 4 << 20

// A processScan is what one look at the process table has shown.
type processScan struct {
	found []int // members that live

	// incomplete says that somebody may have been missed: a process was between
	// two programs, when its environment cannot be read, or ended while we
	// looked and may have left a child.
	incomplete bool
}

// scanProcesses finds the living members of groups: those in their groups and, if
// tagged is set, those who carry their tags.
func scanProcesses(groups []*processGroup, tagged bool) processScan {
	var s processScan
	dir, err := os.Open("/proc")
	if err != nil {
		return s
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return s
	}
	self := os.Getpid()
	buf := make([]byte, 8<<10)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		var stat processStat
		if buf, err = readFile("/proc/"+name+"/stat", buf); err != nil || !stat.parse(buf) {
			s.incomplete = true
			continue
		}
		switch f := inGroup(groups, stat.pgrp); {
		case stat.dead && f != nil && stat.parent == self && pid != f.pgid:
			reap(pid)
		case stat.dead || stat.kernel:
		case f != nil:
			s.found = append(s.found, pid)
		case tagged:
			buf, err = readFile("/proc/"+name+"/environ", buf)
			if hasTag(groups, buf) {
				s.found = append(s.found, pid)
			}
			if len(buf) == 0 && !errors.Is(err, os.ErrPermission) {
				s.incomplete = true
			}
		}
	}
	return s
}

func inGroup(groups []*processGroup, pgrp int) *processGroup {
	for _, f := range groups {
		if f.pgid == pgrp && pgrp > 0 {
			return f
		}
	}
	return nil
}

func hasTag(groups []*processGroup, environ []byte) bool {
	if !bytes.Contains(environ, []byte(tagVar+"=")) {
		return false
	}
	for _, f := range groups {
		if bytes.Contains(environ, []byte(f.tag)) {
			return true
		}
	}
	return false
}

// A processStat is what we need of /proc/PID/stat, see proc_pid_stat(5).
type processStat struct {
	parent, pgrp int
	dead         bool // it waits to be reaped
	kernel       bool // it is no program
}

func (st *processStat) parse(text []byte) bool {
	const kernelThread = 0x00200000 // PF_KTHREAD
	// The name, in parentheses, may itself have spaces and parentheses.
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return false
	}
	fields := strings.Fields(string(text[i+1:])) // state ppid pgrp session tty tpgid flags …
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return false
	}
	if st.parent, err = strconv.Atoi(fields[1]); err != nil {
		return false
	}
	if st.pgrp, err = strconv.Atoi(fields[2]); err != nil {
		return false
	}
	st.dead = fields[0] == "Z" || fields[0] == "X"
	st.kernel = flags&kernelThread != 0
	return true
}

// readFile reads a file of /proc into buf, which it may replace by a larger one.
// It is os.ReadFile without what that costs for a thousand small files.
func readFile(name string, buf []byte) ([]byte, error) {
	fd, err := retry(func() (int, error) { return syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return buf[:0], err
	}
	defer syscall.Close(fd)
	buf = buf[:0]
	for len(buf) < maxEnviron {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := retry(func() (int, error) { return syscall.Read(fd, buf[len(buf):cap(buf)]) })
		if err != nil {
			return buf, err
		}
		if n == 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}

func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != syscall.EINTR { //nolint:errorlint // a system call returns it bare
			return n, err
		}
	}
}
