//go:build !linux

package stdio

// host has no guard to be tested.
func host() {}
