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
func keepPrivate() {}

// ownedByUs takes the word of the file system: the directory lies in one of the
// user's own.
func ownedByUs(fs.FileInfo) bool { return true }
