package tap

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace is how long a command may take to end once it was told to, and how long its
// output may outlive it.
const grace = 3 * time.Second

// A Command is a program with its arguments. It has our environment, with Env added as
// NAME=value, and runs in Dir, or where we do if that is empty.
type Command struct {
	Args   []string
	Env    []string
	Dir    string
	Stderr io.Writer
}

// Relay runs a command between in and out, and passes every byte as it is, to it and from
// it. It returns when the command has ended; an *exec.ExitError says how, if that was no
// success. When ctx ends, or out is gone, the command is told to end.
func (s *Stream) Relay(ctx context.Context, in io.Reader, out io.Writer, c *Command) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...) //nolint:gosec // it is the user's
	cmd.Env, cmd.Dir, cmd.Stderr = append(os.Environ(), c.Env...), c.Dir, c.Stderr
	cmd.WaitDelay = grace
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return cmd.Process.Kill() // where there are no signals
		}
		return nil
	}
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	from := s.Writer(Server, &lossWriter{out, cancel})
	cmd.Stdout = from
	if err := cmd.Start(); err != nil {
		return err
	}
	// Ends with in, or when the command takes no more. While in says nothing it is left
	// behind.
	go func() {
		_, _ = io.Copy(to, s.Reader(Client, in)) // who reads has ended
		_ = to.Close()                           // or closed already
	}()
	err = cmd.Wait()
	_ = from.Close() // it has no error
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // what it started still holds its output; it has ended itself
	}
	return err
}

// A lossWriter tells when nobody reads any more.
type lossWriter struct {
	io.Writer
	lost context.CancelCauseFunc
}

// Write implements io.Writer.
func (w *lossWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.lost(err)
	}
	return n, err
}
