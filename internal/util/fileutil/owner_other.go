//go:build !unix

package fileutil

import "io/fs"

func checkOwner(fs.FileInfo) error { return nil }

func onlyRoots(fs.FileInfo) bool { return false }
