package streamable

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What a server takes once however often it comes, answers to its questions and
// cancels, is posted again when the link breaks before the server has said that
// it has it: as often and after such waits as a Retry says. One attempt may take
// so long, and all of them together.
const (
	clientRepeatOne = 10 * time.Second
	clientRepeatAll = time.Minute
)

// repeat posts such a message until the server has taken or refused it. It is
// posted again only as long as while goes on.
func (c *clientConn) repeat(ctx, while context.Context, m *dragoman.Message, s *clientSession) error {
	ctx, cancel := context.WithTimeout(ctx, clientRepeatAll)
	defer cancel()
	err := c.repeatOnce(ctx, m, s)
	if err == nil {
		return nil
	}
	defer context.AfterFunc(while, cancel)()
	for failures := range c.opts.retry.Attempts {
		wait, passes := clientPassing(err)
		if !passes || ctx.Err() != nil {
			break
		}
		u := clientCursor{retry: wait, known: wait > 0}
		if !u.wait(ctx, &c.opts.retry, failures) {
			break
		}
		err = c.repeatOnce(ctx, m, s)
	}
	return err
}

func (c *clientConn) repeatOnce(ctx context.Context, m *dragoman.Message, s *clientSession) error {
	ctx, cancel := context.WithTimeoutCause(ctx, clientRepeatOne, &TimeoutError{After: clientRepeatOne})
	defer cancel()
	return c.tellServer(ctx, m, s)
}

// clientPassing tells whether a message that was not taken may be taken soon, and
// how long the server asks to wait until then.
func clientPassing(err error) (time.Duration, bool) {
	if refusal, ok := errors.AsType[*protocol.StatusError](err); ok {
		return refusal.RetryAfter, clientPasses(refusal.Status)
	}
	return 0, err != nil && !errors.Is(err, ErrSessionGone)
}
