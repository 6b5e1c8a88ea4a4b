//go:build !linux

package stdio

// host has no guard to be tested.
func host() {}

// The servers of these tests are for Linux as well.
func lookHere() {}

func changeUserHere() {}

func useNetwork() {}

func tryCalls() {}

func beBusy() {}
