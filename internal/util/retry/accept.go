package retry

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// accepting is how long Accept waits after accepts that failed.
var accepting = Backoff{Min: 5 * time.Millisecond, Max: time.Second}

// Accept has take given every connection of a listener. While the process is out of files
// it waits and tries again, as net/http does. It returns the error of the listener when
// that cannot pass, or ctx has ended.
func Accept(ctx context.Context, l net.Listener, take func(net.Conn), log *slog.Logger) error {
	for failures := 0; ; {
		c, err := l.Accept()
		switch {
		case err == nil:
			failures = 0
			take(c)
		case ctx.Err() != nil || !isTemporary(err):
			return err
		default:
			if failures++; failures == 1 {
				log.Warn("cannot accept clients; trying again", "error", err)
			}
			_ = Sleep(ctx, accepting.Wait(failures)) // Accept fails at once then
		}
	}
}

// isTemporary reports whether an error of Accept may pass, such as that the process has
// too many files open. It is what net/http goes by.
func isTemporary(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}
