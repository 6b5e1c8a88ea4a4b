//go:build !unix

package main

import (
	"io/fs"
	"os"
)

// reloadSignal is missing here: see "dragoman reload".
var reloadSignal os.Signal

// ignoreTerminalStops does nothing: terminals stop nobody here.
func ignoreTerminalStops() {}

// keepPrivate does nothing: files belong to their user here anyway.
func keepPrivate() (undo func()) { return func() {} }

// ownedByUs takes the word of the file system: the directory lies in one of the
// user's own.
func ownedByUs(fs.FileInfo) bool { return true }

// isPrivate takes the word of the file system, as above.
func isPrivate(fs.FileInfo) bool { return true }

// terminalWidth reports whether a file is a terminal, of whatever width.
func terminalWidth(f *os.File) (width int, ok bool) {
	info, err := f.Stat()
	return 0, err == nil && info.Mode()&os.ModeCharDevice != 0
}
