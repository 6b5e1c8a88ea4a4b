package proc

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// executable returns file, with one of the extensions in pathExt if it has none
// of them, if it can be executed.
func executable(file, pathExt string) (string, error) {
	if pathExt == "" {
		pathExt = ".com;.exe;.bat;.cmd"
	}
	exts := strings.Split(strings.ToLower(pathExt), ";")
	own := strings.ToLower(filepath.Ext(file))
	for _, ext := range exts {
		if own != "" && own == ext {
			return file, checkFile(file)
		}
	}
	for _, ext := range exts {
		if strings.HasPrefix(ext, ".") && checkFile(file+ext) == nil {
			return file + ext, nil
		}
	}
	if err := checkFile(file); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s: %w", file, ErrNotExecutable)
}

func checkFile(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s: %w", file, ErrDirectory)
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeIrregular == 0:
		return fmt.Errorf("%s: %w", file, ErrNotExecutable)
	}
	return nil
}

// Exposed is not known here: it is a matter of access control lists.
func Exposed(string) error { return nil }
