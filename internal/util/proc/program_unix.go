//go:build unix

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// executable returns file if it can be executed.
func executable(file, _ string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return "", fmt.Errorf("%s: %w", file, fs.ErrNotExist)
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("%s: %w", file, ErrDirectory)
	case info.Mode()&0o111 == 0 || !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: %w", file, ErrNotExecutable)
	}
	return file, nil
}

// maxLinks is how many links are followed, as by the kernel.
const maxLinks = 40

// Exposed returns an ErrExposed that names who may replace file, if that is anybody
// but its owner, we and root. It looks at the file, at every directory and link on the way
// to it. A directory with the sticky bit, like /tmp, is fine further up as long as what
// lies in it is ours or root's, but not as the one that holds the file: anybody can
// put a program there.
func Exposed(file string) error {
	rest := strings.Split(file, "/")
	dir := "/"
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			dir = filepath.Dir(dir)
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if err := exposedIn(file, dir, info, len(rest) == 0); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			dir = path
			continue
		}
		target, err := os.Readlink(path)
		if links++; err != nil || links > maxLinks {
			return fmt.Errorf("%s: its links cannot be followed", file)
		}
		if filepath.IsAbs(target) {
			dir = "/"
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if who := writers(info); who != "" {
		return fmt.Errorf("%s: %w: %s may write to it", file, ErrExposed, who)
	}
	return nil
}

// exposedIn looks at an entry of a directory on the way to a file. last says that
// the entry is the file.
func exposedIn(file, dir string, entry fs.FileInfo, last bool) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	who := writers(info)
	owner, _ := ownerOf(entry)
	trusted := owner == 0 || owner == os.Geteuid()
	if who == "" || info.Mode()&fs.ModeSticky != 0 && trusted && !last {
		return nil
	}
	return fmt.Errorf("%s: %w: %s may write to %s", file, ErrExposed, who, dir)
}

// writers names those who may write to a file or directory besides its owner, or
// returns "" if those are nobody, root, or a group that is nobody else.
func writers(info fs.FileInfo) string {
	uid, gid := ownerOf(info)
	switch mode := info.Mode(); {
	case mode&0o002 != 0:
		return "everyone"
	case mode&0o020 == 0 || gid == 0 || gid == os.Getegid():
		return ""
	case gid == uid: // a group that its owner has for himself
		return ""
	case slices.Contains(systemGroups(), gid):
		return ""
	default:
		if g, err := user.LookupGroupId(fmt.Sprint(gid)); err == nil {
			return "the group " + g.Name
		}
		return fmt.Sprintf("the group %d", gid)
	}
}

func ownerOf(info fs.FileInfo) (uid, gid int) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), int(s.Gid)
	}
	return -1, -1
}

// systemGroups returns the groups whose members keep the programs of the machine:
// admin on macOS, which owns what Homebrew installs, and staff on Debian, which owns
// /usr/local.
var systemGroups = sync.OnceValue(func() []int {
	if runtime.GOOS == "darwin" {
		return []int{80}
	}
	if g, err := user.LookupGroupId("50"); err == nil && g.Name == "staff" {
		return []int{50}
	}
	return nil
})
