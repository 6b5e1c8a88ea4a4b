package check

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// send makes a request as the first one of a conversation is, but for what is changed.
func (r *run) send(ctx context.Context, change func(*rawclient.Call)) *rawclient.Exchange {
	x, s := r.main().GreetAs(ctx, r.http, change)
	if s != nil {
		r.sessions = append(r.sessions, s)
	}
	return x
}

func httpType(_ context.Context, r *run) outcome {
	for _, x := range r.exchanges {
		if x.HTTP != nil && x.HTTP.Status == http.StatusOK && x.Answer != nil && !x.HTTP.IsJSON() && !x.HTTP.Stream {
			return fail(x, "an answer is of the type %q", x.HTTP.Header.Get("Content-Type"))
		}
	}
	return pass()
}

func httpAccepted(ctx context.Context, r *run) outcome {
	x := r.legacy.Note(ctx, protocol.NoteCancelled, rawclient.Object{"requestId": "dragoman-none"})
	return verify(x.Status() == http.StatusAccepted && len(x.HTTP.Body) == 0, x, "it gets %s, with a body of %d bytes", x.HTTP.Summary(), len(x.HTTP.Body))
}

func httpStreamEnd(_ context.Context, r *run) outcome {
	streams := false
	for _, x := range r.exchanges {
		if x.HTTP == nil || !x.HTTP.Stream || x.Answer == nil || x.Misnamed {
			continue
		}
		streams = true
		if !x.HTTP.Ended {
			return fail(x, "the stream continues behind the response")
		}
	}
	if !streams {
		return skip("answers are JSON")
	}
	return pass()
}

func httpBuffering(_ context.Context, r *run) outcome {
	for _, x := range r.exchanges {
		if x.HTTP == nil || !x.HTTP.Stream {
			continue
		}
		if !unbuffered(x.HTTP.Header) {
			return fail(x, "a stream says neither")
		}
		return pass()
	}
	return skip("answers are JSON")
}

func httpMethods(ctx context.Context, r *run) outcome {
	x := r.send(ctx, func(c *rawclient.Call) { c.Method = http.MethodPut })
	return verify(x.Status() == http.StatusMethodNotAllowed || x.Status() == http.StatusNotImplemented, x, "PUT gets %s", x.Summary())
}

func httpGet(ctx context.Context, r *run) outcome {
	s, ok := r.main().Wire.(*rawclient.Session)
	if !ok {
		return skip("there is no session")
	}
	x := s.Background(ctx, r.Timeout)
	return verify(x.Status() == http.StatusMethodNotAllowed || x.IsStream(), x, "it gets %s", x.Summary())
}

// getAnswers asks while the stream of GET is open.
func getAnswers(ctx context.Context, r *run) outcome {
	c, err := r.begin(ctx)
	if err != nil {
		return fail(nil, "another session cannot be begun: %v", err)
	}
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	opened, done := make(chan struct{}), make(chan *rawclient.Exchange, 1)
	go func() { // until the stream ends, there is a response on it, or it was open long enough
		begun := sync.OnceFunc(func() { close(opened) })
		done <- c.Session().Stream(open, r.Timeout, "", func(reply *rawclient.Reply) bool {
			begun()
			return rawclient.HasAnswer(reply)
		}, 0)
	}()
	select {
	case <-opened:
	case <-done:
		return skip("GET opens no stream")
	}
	r.ask(ctx, c, protocol.MethodPing, nil)
	wait := time.AfterFunc(cmp.Or(r.Glance, glance), cancel)
	defer wait.Stop()
	if x := <-done; rawclient.HasAnswer(x.HTTP) {
		x.Got = append(x.Got, rawclient.ReadMessage(x.HTTP.Events[len(x.HTTP.Events)-1].Data))
		return fail(x, "the answer to a POST is on it")
	}
	return pass()
}

// asText has a body said to be no JSON.
func asText(c *rawclient.Call) { c.Header["Content-Type"] = "text/plain" }

// refuses fails unless a request was refused.
func refuses(x *rawclient.Exchange, what string) outcome {
	return verify(x.Refused(), x, "%s gets %s", what, x.Summary())
}

func httpContentType(ctx context.Context, r *run) outcome {
	return refuses(r.send(ctx, asText), "a body of text/plain")
}

// fromForeignOrigin makes the request of a foreign page, once. The status that refuses it is a
// matter of the revision.
func (r *run) fromForeignOrigin(ctx context.Context) (x *rawclient.Exchange, needs403 bool) {
	if r.foreign == nil {
		r.foreign = r.send(ctx, rawclient.FromForeignOrigin)
	}
	return r.foreign, r.modern != nil || r.legacy.Revision.Since(protocol.V20251125)
}

func httpOrigin(ctx context.Context, r *run) outcome {
	switch x, needs403 := r.fromForeignOrigin(ctx); {
	case !x.Refused():
		return fail(x, "a foreign Origin gets %s", x.Summary())
	case needs403 && x.Status() != http.StatusForbidden:
		return fail(x, "a foreign Origin is refused with status %d, and not 403", x.Status())
	}
	return pass()
}

func httpOriginStatus(ctx context.Context, r *run) outcome {
	switch x, needs403 := r.fromForeignOrigin(ctx); {
	case needs403 || !x.Refused():
		return skip("http-origin looks at it")
	case x.Status() != http.StatusForbidden:
		return fail(x, "a foreign Origin is refused with status %d", x.Status())
	}
	return pass()
}

func httpHost(ctx context.Context, r *run) outcome {
	if !r.http.Local() {
		return skip(elsewhere)
	}
	return refuses(r.send(ctx, rawclient.ForForeignHost), "a foreign Host")
}

// pingAs pings in the legacy session, but for what is changed.
func (r *run) pingAs(ctx context.Context, change func(*rawclient.Session)) *rawclient.Exchange {
	other, own := *r.legacy, r.legacy.Session()
	s := &rawclient.Session{HTTP: own.HTTP, ID: own.ID, Version: own.Version}
	change(s)
	other.Wire = s
	return other.Ask(ctx, protocol.MethodPing, nil)
}

func httpVersion(ctx context.Context, r *run) outcome {
	x := r.pingAs(ctx, func(s *rawclient.Session) { s.Version = rawclient.NoRevision })
	return verify(x.Status() == http.StatusBadRequest, x, "it gets %s", x.Summary())
}

func versionAbsent(ctx context.Context, r *run) outcome {
	x := r.pingAs(ctx, func(s *rawclient.Session) { s.Version = "" })
	return verify(x.Result() != nil, x, "without it a request in a session gets %s", x.Summary())
}

// minSession is how long a session id must be that cannot be guessed.
const minSession = 16

func sessionID(_ context.Context, r *run) outcome {
	id := r.legacy.Session().ID
	switch {
	case strings.ContainsFunc(id, func(c rune) bool { return c < 0x21 || c > 0x7e }):
		return fail(nil, "it has characters that a header should not have")
	case len(id) < minSession:
		return fail(nil, "it has %d characters, which can be guessed", len(id))
	}
	return pass()
}

func sessionUnique(_ context.Context, r *run) outcome {
	seen := map[string]bool{}
	for _, s := range r.sessions {
		if s.ID != "" && seen[s.ID] {
			return fail(nil, "two sessions have the same id: what one client does, another sees")
		}
		seen[s.ID] = true
	}
	return pass()
}

func sessionNeeded(ctx context.Context, r *run) outcome {
	x := r.pingAs(ctx, func(s *rawclient.Session) { s.ID = "" })
	return verify(x.Status() == http.StatusBadRequest, x, "it gets %s", x.Summary())
}

func sessionUnknown(ctx context.Context, r *run) outcome {
	x := r.pingAs(ctx, func(s *rawclient.Session) { s.ID = rawclient.NoSession })
	return verify(x.Status() == http.StatusNotFound, x, "it gets %s: clients start over at a 404 only", x.Summary())
}

func sessionDelete(ctx context.Context, r *run) outcome {
	c, err := r.begin(ctx)
	if err != nil {
		return fail(nil, "another session cannot be begun: %v", err)
	}
	deleted := c.Session().Delete(ctx, r.Timeout)
	switch {
	case deleted.Status() == http.StatusMethodNotAllowed:
		return pass()
	case deleted.Status()/100 != 2:
		return fail(deleted, "DELETE gets %s", deleted.Summary())
	}
	after := c.Ask(ctx, protocol.MethodPing, nil)
	if after.Result() != nil {
		return fail(after, "after DELETE the session continues")
	}
	return verify(after.Status() == http.StatusNotFound, after, "after DELETE the session gets %s, and not 404", after.Summary())
}

func resume(ctx context.Context, r *run) outcome {
	s, last, behind := r.legacy.Session(), "", 0
	for _, x := range r.exchanges {
		if x.HTTP == nil || !x.HTTP.Stream || x.Answer == nil || x.Session != s.ID || isModern(x) {
			continue
		}
		if id, n := x.HTTP.Resumable(); id != "" {
			last, behind = id, n
		}
	}
	if last == "" {
		return skip(noIDs)
	}
	enough := func(r *rawclient.Reply) bool { return len(r.Events) >= behind }
	switch x := s.Stream(ctx, r.Timeout, last, enough, cmp.Or(r.Glance, glance)); {
	case !x.IsStream():
		return fail(x, "Last-Event-ID gets %s", x.Summary())
	case behind > 0 && len(x.HTTP.Events) == 0:
		return fail(x, "Last-Event-ID brings none of the %d events behind it", behind)
	}
	return pass()
}

// legacyStreams returns the exchanges of the legacy era that are event streams with an answer, and the revision of each.
func (r *run) legacyStreams() func(yield func(*rawclient.Exchange, protocol.Revision) bool) {
	return func(yield func(*rawclient.Exchange, protocol.Revision) bool) {
		for _, x := range r.exchanges {
			if x.HTTP == nil || !x.HTTP.Stream || len(x.HTTP.Events) == 0 || x.Result() == nil || isModern(x) {
				continue
			}
			rev := r.legacy.Revision
			if named := x.Named(); named != "" { // a handshake, which may go by the revision that is asked for or by its own
				var asked string
				_ = json.Unmarshal(members(members(x.Sent)["params"])["protocolVersion"], &asked) // it is ours
				if rev = protocol.ParseRevision(named); asked != named {
					continue
				}
			}
			if !yield(x, rev) {
				return
			}
		}
	}
}

// noIDs is why rules of events do not apply.
const noIDs = "events have no ids"

func eventIDs(_ context.Context, r *run) outcome {
	type place struct{ session, id string }
	seen := map[place]bool{}
	for x := range r.legacyStreams() {
		for i, e := range x.HTTP.Events {
			same := i > 0 && x.HTTP.Events[i-1].ID == e.ID // an event without an id has that of the one before
			switch at := (place{x.Session, e.ID}); {
			case x.Session == "" || e.ID == "" || same:
			case seen[at]:
				return fail(x, "the id %s was that of another event: who resumes behind it gets what is of another stream", redact.Printable(e.ID, ""))
			default:
				seen[at] = true
			}
		}
	}
	if len(seen) == 0 {
		return skip(noIDs)
	}
	return pass()
}

// primes reports whether a stream begins with an event that has an id and no data.
func primes(x *rawclient.Exchange) bool {
	first := x.HTTP.Events[0]
	return first.ID != "" && len(first.Data) == 0
}

func priming(_ context.Context, r *run) outcome {
	ids := false
	for x, rev := range r.legacyStreams() {
		if id, _ := x.HTTP.Resumable(); id == "" || !rev.Since(protocol.V20251125) {
			continue
		}
		ids = true
		if !primes(x) {
			return fail(x, "the first event has data: who loses the stream before it cannot resume")
		}
	}
	if !ids {
		return skip(noIDs)
	}
	return pass()
}

func primingOld(_ context.Context, r *run) outcome {
	old := false
	for x, rev := range r.legacyStreams() {
		if rev == protocol.Unknown || rev.Since(protocol.V20251125) {
			continue
		}
		old = true
		if primes(x) {
			return fail(x, "a client of %s gets an event without data, which it takes for a message that is broken", rev)
		}
	}
	if !old {
		return skip("no stream is of an older revision")
	}
	return pass()
}

func httpTLS(_ context.Context, r *run) outcome {
	return secure(r.http.Local() || r.http.At.Hostname() == "", r.http.At.Scheme == "https")
}

// elsewhere is why rules of servers on this machine do not apply.
const elsewhere = "the server is not on this machine"

// secure fails if a server is neither on this machine nor reached by TLS.
func secure(local, encrypted bool) outcome {
	switch {
	case local:
		return skip("the server is on this machine")
	case !encrypted:
		return fail(nil, "others on the way can read and change what is sent")
	}
	return pass()
}

// unbuffered reports whether a stream tells proxies not to hold it back.
func unbuffered(h http.Header) bool {
	held := h.Get("Cache-Control")
	return strings.Contains(held, "no-cache") || strings.Contains(held, "no-store") || h.Get("X-Accel-Buffering") == "no"
}
