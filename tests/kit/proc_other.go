//go:build !unix

package kit

func ofKernel(int) bool { return false }
