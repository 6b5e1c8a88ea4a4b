//go:build !unix

package serve

import "os"

// reloadSignal is missing here: see "dragoman reload".
var reloadSignal os.Signal

// ignoreTerminalStops does nothing: terminals stop nobody here.
func ignoreTerminalStops() {}

// keepPrivate does nothing: files belong to their user here anyway.
func keepPrivate() (undo func()) { return func() {} }
