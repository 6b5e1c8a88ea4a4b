package stdio

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

// abortWait is how long requests that were told to stop are waited for, so that
// their clients hear that they were lost.
const abortWait = 500 * time.Millisecond

// A talk is the conversation with one client of a Server.
type talk struct {
	conn   *mux.Conn
	ctx    context.Context // of Accept; ends with the conversation
	cancel context.CancelCauseFunc
}

func newTalk(ctx context.Context, conn *mux.Conn) *talk {
	t := &talk{conn: conn}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// serve answers the client until the conversation is over. An end in good order is
// no error.
func (t *talk) serve(a dragoman.Acceptor) error {
	defer t.close()
	peer, err := t.accept(a)
	if err != nil {
		return err
	}
	t.conn.Start(peer)
	<-t.conn.Done()
	if err := t.conn.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// accept calls Accept. When the conversation ends first, an Acceptor that does not
// return soon is left behind.
func (t *talk) accept(a dragoman.Acceptor) (dragoman.Peer, error) {
	type outcome struct {
		peer dragoman.Peer
		err  error
	}
	accepted := make(chan outcome, 1)
	go func() { // ends with Accept, whose context ends with the conversation
		peer, err := a.Accept(t.ctx, t.conn)
		accepted <- outcome{peer, err}
	}()
	over := t.conn.Done()
	var late <-chan time.Time
	for {
		select {
		case o := <-accepted:
			return o.peer, o.err
		case <-over:
			over, late = nil, time.After(abortWait)
		case <-late:
			return nil, t.conn.Err()
		}
	}
}

// finish takes no new requests, lets those under way end until ctx does, tells the
// rest that they are lost, and closes. It returns the error of ctx if there was a
// rest.
func (t *talk) finish(ctx context.Context) error {
	defer t.close()
	err := t.conn.Drain(ctx)
	if err == nil {
		return nil
	}
	t.conn.Abort()
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWait)
	defer cancel()
	_ = t.conn.Drain(wait) // whoever is left does not stop when told to, or read when written to
	return err
}

// close ends the conversation, and waits for its goroutines.
func (t *talk) close() {
	t.cancel(ErrServerClosed)
	_ = t.conn.Close() // it never fails
}
