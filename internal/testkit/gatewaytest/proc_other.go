//go:build !unix

package gatewaytest

func ofKernel(int) bool { return false }
