//go:build unix

package oauth_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
)

func TestSignInsAreOursAloneWhateverTheUmask(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	_, dir := signedIn(t, &authtest.Options{})
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && path != dir {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files, %v", files, err)
	}
}
