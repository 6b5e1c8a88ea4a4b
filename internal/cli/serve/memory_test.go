package serve

import (
	"testing"
	"testing/fstest"
)

func TestMemoryOfTheControlGroupIsFound(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		limit int64 // zero if there is none
	}{
		{"version 2", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n"}, 1000},
		{"the least of all above", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/memory.max": "500\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 500},
		{"container that sees its root alone", map[string]string{"proc/self/cgroup": "0::/system.slice/x\n", "sys/fs/cgroup/memory.max": "700\n"}, 700},
		{"namespace", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "700\n"}, 700},
		{"path with dots", map[string]string{"proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/x/memory.max": "800\n"}, 800},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		{"version 1", map[string]string{
			"proc/self/cgroup": "12:cpu,cpuacct:/a\n5:memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "900\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/cpu,cpuacct/a/memory.max": "1\n",
		}, 900},
		{"version 1 without a limit", map[string]string{"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"nonsense", map[string]string{"proc/self/cgroup": "\n:\n0\n::::\n0::\n", "sys/fs/cgroup/memory.max": "-5"}, 0},
		{"another system", nil, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if limit, ok := groupMemory(root); ok != (test.limit > 0) || ok && limit != test.limit {
				t.Errorf("the limit is %d, %v, want %d", limit, ok, test.limit)
			}
		})
	}
}
