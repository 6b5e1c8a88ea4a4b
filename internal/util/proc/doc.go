// Package proc finds the executables that we are told to start, says which of them are safe
// to run and which variables they see, and measures the memory of processes as far as the
// system reports it.
package proc
