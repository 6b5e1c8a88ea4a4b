package serve

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// LimitMemory tells the runtime how much memory we may use, so that it collects garbage
// before it takes more: what is configured, if anything is, and not more than nine
// tenths of what our control group has. The rest is for what the runtime does not
// count. GOMEMLIMIT wins.
func LimitMemory(configured int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := int64(math.MaxInt64)
	if group, ok := groupMemory(os.DirFS("/")); ok {
		limit = group / 10 * 9
	}
	if configured > 0 {
		limit = min(limit, configured)
	}
	if limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit)
	}
}

// groupMemory returns how much memory our control group has, of either version, and false
// if there is none, or no limit.
func groupMemory(root fs.FS) (limit int64, ok bool) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	limit = math.MaxInt64
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		base, name := "sys/fs/cgroup", "memory.max"
		switch controllers {
		case "":
		case "memory":
			base, name = base+"/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// Every group on the way up has its own limit. In a container the path may be one
		// of the machine, of which only the root is to be seen.
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			text, _ := fs.ReadFile(root, path.Join(base, dir, name))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit, limit < 1<<60 // version 1 spells "none" as a huge number
}
