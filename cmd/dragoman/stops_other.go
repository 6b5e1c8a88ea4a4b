//go:build !unix

package main

// ignoreTerminalStops does nothing: terminals stop nobody here.
func ignoreTerminalStops() {}
