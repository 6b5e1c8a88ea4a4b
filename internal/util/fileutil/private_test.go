//go:build unix

package fileutil_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// nobody is a user that runs no test.
const nobody = 65534

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// give gives a file to another user, which only root can.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	do(t, os.Lchown(path, nobody, nobody))
}

func TestDirectoriesThatOthersCanChangeAreRefused(t *testing.T) {
	for _, test := range []struct {
		name      string
		make      func(t *testing.T, path string)
		forbidden fs.FileMode
		want      string // empty if it is opened
	}{
		{"one that is not there", func(*testing.T, string) {}, fileutil.NoAccess, ""},
		{"one that others can read", func(t *testing.T, p string) { do(t, os.Mkdir(p, 0o700), os.Chmod(p, 0o755)) }, fileutil.NoWrite, ""},
		{"one that others should not read", func(t *testing.T, p string) { do(t, os.Mkdir(p, 0o700), os.Chmod(p, 0o755)) }, fileutil.NoAccess, "other users have access: its mode is 0755; chmod 700 it"},
		{"one that the group can write to", func(t *testing.T, p string) { do(t, os.Mkdir(p, 0o700), os.Chmod(p, 0o770)) }, fileutil.NoWrite, "its mode is 0770"},
		{"one that everybody can write to", func(t *testing.T, p string) { do(t, os.Mkdir(p, 0o700), os.Chmod(p, 0o777|os.ModeSticky)) }, fileutil.NoWrite, "its mode is 0777"},
		{"one of another user", func(t *testing.T, p string) {
			do(t, os.Mkdir(p, 0o700))
			give(t, p)
		}, fileutil.NoWrite, "its owner is user 65534"},
		{"a link", func(t *testing.T, p string) { do(t, os.Mkdir(p+".real", 0o700), os.Symlink(p+".real", p)) }, fileutil.NoWrite, "symbolic link, which is not followed"},
		{"a file", func(t *testing.T, p string) { do(t, os.WriteFile(p, nil, 0o600)) }, fileutil.NoWrite, "not a directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "dir")
			test.make(t, path)
			for _, named := range []string{path, path + "/"} {
				root, err := fileutil.OpenPrivateDir(named, test.forbidden, true)
				if err == nil {
					do(t, root.Close())
				}
				if (test.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path)) {
					t.Errorf("%s: got %v, want %q", named, err, test.want)
				}
			}
		})
	}
}

func TestDirectoryIsMadeOnlyIfThatIsWanted(t *testing.T) {
	if _, err := fileutil.OpenPrivateDir(filepath.Join(t.TempDir(), "dir"), fileutil.NoWrite, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestFilesThatOthersCanReadOrChangeAreRefused(t *testing.T) {
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"one of ours", func(t *testing.T, p string) { do(t, os.WriteFile(p, []byte("text"), 0o600)) }, ""},
		{"one that others can read", func(t *testing.T, p string) { do(t, os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o640)) }, "its mode is 0640"},
		{"one of another user", func(t *testing.T, p string) {
			do(t, os.WriteFile(p, nil, 0o600))
			give(t, p)
		}, "its owner is user 65534"},
		{"a link", func(t *testing.T, p string) { do(t, os.WriteFile(p+".real", nil, 0o600), os.Symlink("file.real", p)) }, "symbolic link"},
		{"a directory", func(t *testing.T, p string) { do(t, os.Mkdir(p, 0o700)) }, "not a regular file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.make(t, filepath.Join(dir, "file"))
			root, err := os.OpenRoot(dir)
			do(t, err)
			defer root.Close()
			text, err := fileutil.ReadPrivateFile(root, "file", 3)
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) || err == nil && string(text) != "tex" {
				t.Errorf("got %q, %v, want %q", text, err, test.want)
			}
		})
	}
}
