//go:build !linux

package main

import "testing"

// noneLeft looks for nothing: only Linux tells the environment of others.
func noneLeft(*testing.T) {}
