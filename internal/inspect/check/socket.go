package check

import (
	"context"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
)

func socketOrigin(ctx context.Context, r *run) outcome {
	return refuses(rawclient.Upgrade(ctx, r.Spec, r.Timeout, rawclient.FromForeignOrigin), "a foreign Origin")
}

func socketHost(ctx context.Context, r *run) outcome {
	if !rawclient.IsLocal(r.Spec.URL) {
		return skip(elsewhere)
	}
	return refuses(rawclient.Upgrade(ctx, r.Spec, r.Timeout, rawclient.ForForeignHost), "a foreign Host")
}

func socketSubprotocol(_ context.Context, r *run) outcome {
	got := r.opened.Header.Get("Sec-WebSocket-Protocol")
	return verify(strings.EqualFold(got, "mcp"), r.opened.Exchange(), "mcp is offered, and it agrees to %q", got)
}

func socketPing(ctx context.Context, r *run) outcome {
	c, err := r.begin(ctx)
	if err != nil {
		return fail(nil, "another WebSocket cannot be used: %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, rawclient.ErrSilent)
	defer cancel()
	return verify(r.sockets[len(r.sockets)-1].Ping(ctx) == nil, nil, "there is no pong within %v", c.Timeout)
}

func socketClose(ctx context.Context, r *run) outcome {
	dial, cancel := context.WithTimeoutCause(ctx, r.Timeout, rawclient.ErrSilent)
	defer cancel()
	socket, _, err := rawclient.DialWebSocket(dial, r.Spec, nil)
	if err != nil {
		return fail(nil, "another WebSocket cannot be opened: %v", err)
	}
	if err := socket.Finish(); err != nil {
		return fail(nil, "the close is not answered: %v", err)
	}
	return pass()
}

func socketText(_ context.Context, r *run) outcome {
	for _, s := range r.sockets {
		if s.Binary() {
			return fail(nil, "a message is a binary frame")
		}
	}
	return pass()
}

func socketTLS(_ context.Context, r *run) outcome {
	return secure(rawclient.IsLocal(r.Spec.URL), target.Scheme(r.Spec.URL) == "wss")
}
