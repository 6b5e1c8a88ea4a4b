//go:build !unix

package term

import "os"

// terminalWidth reports whether a file is a terminal, of whatever width.
func terminalWidth(f *os.File) (width int, ok bool) {
	info, err := f.Stat()
	return 0, err == nil && info.Mode()&os.ModeCharDevice != 0
}
