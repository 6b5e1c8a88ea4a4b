//go:build !linux

package stdio

import "os"

// unread reports that it is not known how many bytes are in a pipe.
func unread(*os.File) (n int, known bool) { return 0, false }
