// Package fileutil holds what several packages do with files: lock them, read them again
// when they have changed ([Reloaded]), and open directories and files that no other user of
// the machine can change.
package fileutil
