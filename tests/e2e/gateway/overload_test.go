//go:build unix

package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A reply is what a call over HTTP has come to.
type reply struct {
	key        string
	status     int
	retryAfter string
	text       string // of the result
	code       int    // of the error
	outcome    string
	at         time.Time // when it came
}

// replyTo reads the reply to a request, and closes its body.
func replyTo(t *testing.T, resp *http.Response, id int, key string) reply {
	t.Helper()
	defer resp.Body.Close()
	r := reply{key: key, status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	var body string
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for events := newEvents(resp.Body); ; {
			e, err := events.next()
			if err != nil {
				t.Errorf("%s has no answer: %v", key, err)
				return r
			}
			if _, ok := textOf(e.data, id); ok {
				body = e.data
				break
			}
		}
	} else {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s has no answer: %v", key, err)
		}
		body = string(text)
	}
	r.at = time.Now()
	if m, err := dragoman.Parse([]byte(body)); err != nil {
		t.Errorf("%s gets %d %.200q", key, r.status, body)
	} else if m.IsError() {
		r.code, r.outcome = gatewaytest.Outcome(m.RPCError())
	} else {
		r.text, _ = textOf(body, id)
	}
	return r
}

// TestS37_SessionHasItsShare fires 200 calls in one session that may have 32. There
// are no sessions in the modern era: there a caller is bounded by the server's share.
func TestS37_SessionHasItsShare(t *testing.T) {
	const most, calls = 32, 200
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"limits":  object{"calls": most},
		"servers": object{server: child(t, fault.Modern, j), "other": child(t, fault.Modern, j)},
	}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, server)
	replies := make([]reply, calls)
	var all sync.WaitGroup
	quick := watchOthers(ctx, t, g, protocol.Legacy)
	for i := range calls {
		all.Go(func() { // ends with its call
			key := fmt.Sprint("s", i)
			replies[i] = replyTo(t, v.call(ctx, i+1, "count", object{"key": key, "ms": gatewaytest.Long(time.Second).Milliseconds()}), i+1, key)
		})
	}
	all.Wait()
	quick()
	wantCallsOnce(t, j, "s", replies, http.StatusTooManyRequests, most)
}

// pause is between two calls of who shows that it is served meanwhile: the rest of the
// processor is for what it watches.
const pause = 10 * time.Millisecond

// watchOthers has a client of another server call it again and again, until the
// function that it returns is called: that fails the test unless the client was served
// well. How well that can be is shown by a gateway that has nothing else to do, on the same
// machine at the same time.
func watchOthers(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, era protocol.Era) (end func()) {
	t.Helper()
	const least = 200
	idle := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{"other": child(t, fault.Modern, newJournal(t))}}})
	clients := []*gatewaytest.Client{enter(ctx, t, g, "other", gatewaytest.HTTP, era), enter(ctx, t, idle, "other", gatewaytest.HTTP, era)}
	took := make([][]time.Duration, len(clients))
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { // ends when the test has called end, and with ctx
		for over := false; !over || len(took[0]) < least; {
			for i, c := range clients {
				began := time.Now()
				if got, err := c.Tool(ctx, "echo", object{"text": "quick"}); err != nil || got != "quick" {
					done <- fmt.Errorf("another server says %q, error %w", got, err)
					return
				}
				took[i] = append(took[i], time.Since(began))
			}
			select {
			case <-stop:
				over = true
			case <-time.After(2 * pause): // it calls two
			}
		}
		done <- nil
	}()
	return func() {
		t.Helper()
		close(stop)
		if err := <-done; err != nil {
			t.Error(err)
			return
		}
		var p99 [2]time.Duration
		for i, list := range took {
			slices.Sort(list)
			p99[i] = list[len(list)*99/100]
		}
		if gatewaytest.Exceeds(p99[0], 100*time.Millisecond+10*p99[1]) {
			t.Errorf("1 %% of %d calls of another server take more than %v, and %v where nothing else is done", len(took[0]), p99[0], p99[1])
		}
	}
}

// wantCallsOnce fails the test unless each call was carried out once and answered, or was
// refused in every respect, and never more than most ran at once. It returns those
// that were carried out.
func wantCallsOnce(t *testing.T, j fault.Journal, prefix string, replies []reply, status, most int) (done []reply) {
	t.Helper()
	if got := j.MaxCount(prefix); got > most {
		t.Errorf("%d calls ran at once, want %d at most", got, most)
	}
	ran := map[string]int{}
	for _, e := range j.Of(fault.Ran, "") {
		ran[e.Key]++
	}
	for _, r := range replies {
		switch {
		case r.code == 0 && r.text == r.key && ran[r.key] == 1:
			done = append(done, r)
		case r.status == status && r.retryAfter != "" && r.code == protocol.CodeOverloaded && r.outcome == protocol.OutcomeNotSent && ran[r.key] == 0:
		default:
			t.Errorf("a call ran %d times and comes to %+v", ran[r.key], r)
		}
	}
	if len(done) < most || len(done) == len(replies) {
		t.Errorf("%d of %d calls were carried out", len(done), len(replies))
	}
	return done
}

// TestS37_ServerHasItsShare fires 100 calls of each of ten clients at one server, which
// may have 128, while 64 wait.
func TestS37_ServerHasItsShare(t *testing.T) {
	const most, queue, clients = 128, 64, 10
	each := max(gatewaytest.Few(100), 30) // more than may run and wait
	for _, era := range gatewaytest.Eras {
		t.Run(era.String()+" clients", func(t *testing.T) {
			j := newJournal(t)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
				server:  with(child(t, fault.Modern, j), object{"calls": most, "queue": queue}),
				"other": child(t, fault.Modern, j),
			}}})
			ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
			sessions := make([]*session, clients)
			for c := range sessions {
				sessions[c] = openSession(ctx, t, g, server)
			}
			replies := make([]reply, clients*each)
			takes := gatewaytest.Long(3 * time.Second)
			var all sync.WaitGroup
			quick := watchOthers(ctx, t, g, era)
			for i := range replies {
				all.Go(func() { // ends with its call
					key, v := fmt.Sprint("u", i), sessions[i%clients]
					arguments := object{"key": key, "ms": takes.Milliseconds()}
					resp := (*http.Response)(nil)
					if era == protocol.Legacy {
						resp = v.call(ctx, i+1, "count", arguments)
					} else {
						resp = modernPost(ctx, t, v.url, protocol.MethodCallTool, i+1, object{"name": "count", "arguments": arguments})
					}
					replies[i] = replyTo(t, resp, i+1, key)
				})
			}
			all.Wait()
			quick()
			done := wantCallsOnce(t, j, "u", replies, http.StatusServiceUnavailable, most)
			// Who waits does so for a second and not until there is room, which is
			// after three. Who comes later than that may find some.
			first := j.Of(fault.Ended, "")[0].At
			late := func(r reply) bool {
				return r.code != 0 && r.at.After(first) || r.code == 0 && r.at.After(first.Add(takes))
			}
			if len(done) != most && !slices.ContainsFunc(replies, late) {
				t.Errorf("%d calls were carried out, and nobody came when there was room; want %d", len(done), most)
			}
			waited(t, g)
		})
	}
}

// waited fails the test unless some of the calls that were refused have waited, and
// none for much longer than it should.
func waited(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	least, most := time.Hour, time.Duration(0)
	for line := range strings.Lines(g.Stderr()) {
		_, rest, ok := strings.Cut(line, " took=")
		if took, _, _ := strings.Cut(rest, " "); ok && strings.Contains(line, "in flight") {
			d, err := time.ParseDuration(took)
			if err != nil {
				t.Fatal(err)
			}
			least, most = min(least, d), max(most, d)
		}
	}
	if least < upstream.MaxAdmission || most == 0 || gatewaytest.Exceeds(most, upstream.MaxAdmission+500*time.Millisecond) {
		t.Errorf("those who waited did so between %v and %v, want %v", least, most, upstream.MaxAdmission)
	}
}
