//go:build !linux

package cli

// reapOrphans is for process 1 of a container, which is Linux.
func reapOrphans() {}
