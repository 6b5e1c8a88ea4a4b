package fileutil

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// What other users must not be able to do with a directory.
const (
	NoWrite  fs.FileMode = 0o022
	NoAccess fs.FileMode = 0o077
)

// ErrExposed is in the errors about a mode that gives other users more than they may have.
var ErrExposed = errors.New("other users have access")

// OpenPrivateDir opens a directory. It must belong to this user or to root, and its mode must have none of the
// forbidden bits. A symbolic link is not followed, unless only root can have made it. With create a
// directory that does not exist is made. The caller closes the root.
func OpenPrivateDir(path string, forbidden fs.FileMode, create bool) (*os.Root, error) {
	path = filepath.Clean(path) // a slash at the end would follow a link
	if create {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	isLink := named.Mode().Type() == fs.ModeSymlink
	if isLink && !onlyRoots(named) {
		return nil, fmt.Errorf("%s is a symbolic link, which is not followed; name the directory that it leads to", path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	switch {
	case err != nil:
	case !isLink && !os.SameFile(named, info):
		err = fmt.Errorf("%s was replaced while it was opened", path)
	default:
		if err = check(info, forbidden); err != nil {
			err = fmt.Errorf("%s: %w; chmod 700 it, or name a new directory in it, which only this user can use", path, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// ReadPrivateFile reads a regular file that nobody but this user and root can read or write, up to so many bytes. It
// follows no symbolic link.
func ReadPrivateFile(root *os.Root, name string, limit int64) ([]byte, error) {
	named, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case named.Mode().Type() == fs.ModeSymlink:
		return nil, errors.New("it is a symbolic link")
	case !named.Mode().IsRegular(): // which might never end
		return nil, errors.New("it is not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !os.SameFile(named, info):
		return nil, errors.New("it was replaced while it was opened")
	}
	if err = check(info, NoAccess); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// check returns an error if another user owns a file, or its mode has a forbidden bit.
func check(info fs.FileInfo, forbidden fs.FileMode) error {
	if err := checkOwner(info); err != nil {
		return err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&forbidden != 0 {
		return fmt.Errorf("%w: its mode is %04o", ErrExposed, mode)
	}
	return nil
}
