package control

import (
	"errors"
	"testing"
)

func TestDescendantsAreFoundByTheirParents(t *testing.T) {
	t.Parallel()
	parents := map[int]int{100: 1, 200: 100, 300: 200, 400: 1, 500: 499, 600: 0}
	for _, test := range []struct {
		name string
		pid  int
		want bool
	}{
		{"a child", 200, true},
		{"a grandchild", 300, true},
		{"ourselves", 100, false},
		{"a child of another", 400, false},
		{"one from outside", 600, false},
		{"one whose parents cannot be found", 500, true},
		{"one that has ended", 700, true},
	} {
		got := descends(test.pid, 100, func(pid int) (int, error) {
			if parent, ok := parents[pid]; ok {
				return parent, nil
			}
			return 0, errors.New("no such process")
		})
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	attempts := 0
	got := descends(200, 100, func(pid int) (int, error) {
		if attempts++; attempts < 3 {
			return 0, errors.New("it has just ended")
		}
		return parents[pid], nil
	})
	if !got || attempts != 3 {
		t.Errorf("after %d attempts: %v", attempts, got)
	}
}
