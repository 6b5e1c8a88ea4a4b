package check

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// stream returns the stream of the conversation in which most is looked at, which was opened first.
func (r *run) stream() *rawclient.OldSession { return r.streams[0] }

// postOld posts a notification that says nothing, but for what is changed.
func (r *run) postOld(ctx context.Context, change func(*rawclient.Call)) *rawclient.Exchange {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, rawclient.ErrSilent)
	defer cancel()
	return r.stream().Post(ctx, []byte(`{"jsonrpc":"2.0","method":"`+protocol.NoteCancelled+`","params":{"requestId":"dragoman-none"}}`), change).Exchange()
}

func oldOrigin(ctx context.Context, r *run) outcome {
	return refuses(r.old.GlanceOld(ctx, r.Timeout, rawclient.FromForeignOrigin), "a foreign Origin")
}

func oldPostOrigin(ctx context.Context, r *run) outcome {
	return refuses(r.postOld(ctx, rawclient.FromForeignOrigin), "a foreign Origin")
}

func oldHost(ctx context.Context, r *run) outcome {
	if !r.old.Local() {
		return skip(elsewhere)
	}
	return refuses(r.old.GlanceOld(ctx, r.Timeout, rawclient.ForForeignHost), "a foreign Host")
}

func oldAccepted(ctx context.Context, r *run) outcome {
	x := r.postOld(ctx, nil)
	return verify(x.Status() == http.StatusAccepted, x, "it gets %s", x.Summary())
}

func oldContentType(ctx context.Context, r *run) outcome {
	return refuses(r.postOld(ctx, asText), "a body of text/plain")
}

// secret returns what tells one endpoint from another: its longest part.
func secret(endpoint *url.URL) (longest string) {
	for _, part := range strings.FieldsFunc(endpoint.RequestURI(), func(c rune) bool { return strings.ContainsRune("/?&=", c) }) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func oldSession(ctx context.Context, r *run) outcome {
	if len(r.streams) < 2 {
		if _, err := r.fresh(ctx); err != nil {
			return fail(nil, "another stream cannot be opened: %v", err)
		}
	}
	a, b := r.streams[0].Endpoint, r.streams[1].Endpoint
	switch {
	case a.String() == b.String():
		return fail(nil, "two streams have the same endpoint")
	case len(secret(a)) < minSession:
		return fail(nil, "no part of the endpoint has %d characters, so it can be guessed", minSession)
	}
	return pass()
}

func oldUnknown(ctx context.Context, r *run) outcome {
	known := secret(r.stream().Endpoint)
	if len(known) < minSession {
		return skip("sse-session looks at it")
	}
	other := *r.stream().Endpoint
	other.Path = strings.ReplaceAll(other.Path, known, rawclient.NoSession)
	other.RawPath, other.RawQuery = "", strings.ReplaceAll(other.RawQuery, known, rawclient.NoSession)
	return refuses(r.postOld(ctx, func(c *rawclient.Call) { c.URL = &other }), "it")
}

// How often it is looked whether a server has seen the end of a stream.
const (
	endTries = 10
	endPause = 100 * time.Millisecond
)

func oldEnd(ctx context.Context, r *run) outcome {
	w, err := r.fresh(ctx)
	if err != nil {
		return fail(nil, "another stream cannot be opened: %v", err)
	}
	gone := r.streams[len(r.streams)-1].Endpoint
	w.Close()
	r.wires = r.wires[:len(r.wires)-1]
	var x *rawclient.Exchange
	for range endTries { // it may take the server a moment to see the end
		if x = r.postOld(ctx, func(c *rawclient.Call) { c.URL = gone }); x.Refused() {
			return pass()
		}
		select {
		case <-time.After(endPause):
		case <-ctx.Done():
			return pass() // nobody asks any more
		}
	}
	return fail(x, "it still gets %s", x.Summary())
}

func oldEvent(_ context.Context, r *run) outcome {
	for _, s := range r.streams {
		if name := s.Strange(); name != "" {
			return fail(nil, "a message is an event called %q, which clients do not hear", name)
		}
	}
	return pass()
}

func oldBuffering(_ context.Context, r *run) outcome {
	if opened := r.stream().Opened; !unbuffered(opened.Header) {
		return fail(opened.Exchange(), "the stream says neither")
	}
	return pass()
}

func oldEra(_ context.Context, r *run) outcome {
	if r.modern != nil {
		return fail(r.discovered, "server/discover is answered here")
	}
	return pass()
}

func oldTLS(_ context.Context, r *run) outcome {
	return secure(r.old.Local(), r.old.At.Scheme == "https")
}
