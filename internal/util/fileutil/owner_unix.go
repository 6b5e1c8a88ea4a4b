//go:build unix

package fileutil

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner returns an error if a file belongs to another user than this one and root.
func checkOwner(info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("its owner is user %d, and this is user %d", s.Uid, os.Geteuid())
	}
	return nil
}

// onlyRoots reports whether a file belongs to root, and this user is another one. The state directory of a
// systemd unit with DynamicUser is a link that root has made.
func onlyRoots(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0 && os.Geteuid() != 0
}
