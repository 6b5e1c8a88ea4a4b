//go:build !unix

package main

import "os"

// reloadSignal is missing here: see "dragoman reload".
var reloadSignal os.Signal

// ignoreTerminalStops does nothing: terminals stop nobody here.
func ignoreTerminalStops() {}
