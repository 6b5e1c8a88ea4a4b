//go:build unix

package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
)

// A reply is what a call over HTTP has come to.
type reply struct {
	key        string
	status     int
	retryAfter string
	text       string // of the result
	code       int    // of the error
	outcome    string
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
	if m, err := dragoman.Parse([]byte(body)); err != nil {
		t.Errorf("%s gets %d %.200q", key, r.status, body)
	} else if m.IsError() {
		r.code, r.outcome = kit.Outcome(m.RPCError())
	} else {
		r.text, _ = textOf(body, id)
	}
	return r
}

// TestS37_SessionHasItsShare fires more calls in one session than it may have.
func TestS37_SessionHasItsShare(t *testing.T) {
	const most, calls = 8, 40
	j := newJournal(t)
	g := kit.Serve(t, &kit.Options{Config: object{
		"limits":  object{"calls": most},
		"servers": object{server: child(t, fault.Modern, j), "other": child(t, fault.Modern, j)},
	}})
	ctx := kit.Hurry(t, kit.Patience)
	v, other := openSession(ctx, t, g, server), enter(ctx, t, g, "other", kit.HTTP, protocol.Legacy)
	replies := make([]reply, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() { // ends with its call
			key := fmt.Sprint("s", i)
			replies[i] = replyTo(t, v.call(ctx, i+1, "count", object{"key": key, "ms": 2000}), i+1, key)
		})
	}
	echoes(ctx, t, other, "others do not notice")
	all.Wait()
	if got := j.Most("s"); got > most {
		t.Errorf("%d calls of the session ran at once, want %d at most", got, most)
	}
	judge(t, j, replies, http.StatusTooManyRequests, most)
}

// judge fails the test unless each call was carried out once and answered, or was
// refused in every respect.
func judge(t *testing.T, j fault.Journal, replies []reply, status, least int) {
	t.Helper()
	done := 0
	for _, r := range replies {
		ran := len(j.Of(fault.Ran, r.key))
		switch {
		case r.code == 0 && r.text == r.key && ran == 1:
			done++
		case r.status == status && r.retryAfter != "" && r.code == protocol.CodeOverloaded && r.outcome == protocol.OutcomeNotSent && ran == 0:
		default:
			t.Errorf("a call ran %d times and comes to %+v", ran, r)
		}
	}
	if done < least || done == len(replies) {
		t.Errorf("%d of %d calls were carried out", done, len(replies))
	}
}

// TestS37_ServerHasItsShare fires more calls at one server than it may have, from
// several clients.
func TestS37_ServerHasItsShare(t *testing.T) {
	const most, queue, clients, each = 16, 8, 5, 10
	for _, era := range kit.Eras {
		t.Run(era.String()+" clients", func(t *testing.T) {
			j := newJournal(t)
			g := kit.Serve(t, &kit.Options{Config: object{"servers": object{
				server:  with(child(t, fault.Modern, j), object{"calls": most, "queue": queue}),
				"other": child(t, fault.Modern, j),
			}}})
			ctx := kit.Hurry(t, kit.Patience)
			other := enter(ctx, t, g, "other", kit.HTTP, era)
			replies := make([]reply, clients*each)
			var all sync.WaitGroup
			sessions := make([]*session, clients)
			for c := range sessions {
				sessions[c] = openSession(ctx, t, g, server)
			}
			for c, v := range sessions {
				for n := range each {
					i := c*each + n
					all.Go(func() { // ends with its call
						key := fmt.Sprint("u", i)
						arguments := object{"key": key, "ms": 3000}
						resp := (*http.Response)(nil)
						if era == protocol.Legacy {
							resp = v.call(ctx, i+1, "count", arguments)
						} else {
							resp = modernPost(ctx, t, v.url, protocol.MethodCallTool, i+1, object{"name": "count", "arguments": arguments})
						}
						replies[i] = replyTo(t, resp, i+1, key)
					})
				}
			}
			echoes(ctx, t, other, "others do not notice")
			all.Wait()
			if got := j.Most("u"); got > most {
				t.Errorf("%d calls ran at once, want %d at most", got, most)
			}
			judge(t, j, replies, http.StatusServiceUnavailable, most)
		})
	}
}

// TestS38_SessionFloodIsBounded opens sessions that nobody closes, and tries ids that
// do not exist.
func TestS38_SessionFloodIsBounded(t *testing.T) {
	const most, flood, probes = 20, 60, 500
	j := newJournal(t)
	g := kit.Serve(t, &kit.Options{Config: object{
		"limits":  object{"sessions": most, "idleSession": "3s"},
		"servers": object{server: child(t, fault.Modern, j)},
	}})
	ctx := kit.Hurry(t, kit.Patience)
	first := openSession(ctx, t, g, server)
	opened := 1
	for range flood {
		v := &session{t: t, url: g.URL(server, "mcp")}
		resp, err := v.tryOpen(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch body := read(t, resp); {
		case resp.StatusCode == http.StatusOK && v.id != "":
			opened++
		case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" && strings.Contains(body, fmt.Sprint(protocol.CodeOverloaded)):
		default:
			t.Fatalf("initialize gets %s %s", resp.Status, body)
		}
	}
	if opened != most {
		t.Errorf("%d sessions were opened, want %d", opened, most)
	}
	first.mustEcho(ctx, 2)
	before := kit.Resident(g.PID())
	stranger := &session{t: t, url: first.url}
	for i := range probes {
		stranger.id = fmt.Sprintf("probe-%d-%s", i, strings.Repeat("x", 30))
		resp := stranger.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if _ = read(t, resp); resp.StatusCode != http.StatusNotFound {
			t.Fatalf("a session that does not exist gets %s", resp.Status)
		}
	}
	if grown := kit.Resident(g.PID()) - before; grown > 32<<20 {
		t.Errorf("the gateway has grown by %d MiB", grown>>20)
	}
	// Nobody uses them any more, so there is room again.
	kit.Eventually(t, func() error {
		v := &session{t: t, url: first.url}
		resp, err := v.tryOpen(ctx)
		if err != nil {
			return err
		}
		if _ = read(t, resp); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("initialize gets %s", resp.Status)
		}
		return nil
	})
}

// TestPain8_AbandonedSessionsEndWithAllTheyHave opens sessions that nobody closes,
// each with a process of its own.
func TestPain8_AbandonedSessionsEndWithAllTheyHave(t *testing.T) {
	const sessions = 6
	j := newJournal(t)
	g := kit.Serve(t, &kit.Options{Config: object{
		"limits":  object{"idleSession": "2s"},
		"servers": object{server: child(t, fault.Legacy, j)},
	}})
	ctx := kit.Hurry(t, kit.Patience)
	var left []*session
	var pids []int
	for range sessions {
		v := openSession(ctx, t, g, server)
		resp := v.call(ctx, 1, "whoami", nil)
		var p fault.Process
		if err := json.Unmarshal([]byte(v.answer(resp, 1)), &p); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if slices.Contains(pids, p.PID) {
			t.Errorf("two sessions share process %d", p.PID)
		}
		left, pids = append(left, v), append(pids, p.PID)
	}
	kit.Eventually(t, func() error { return kit.Gone(pids...) })
	for _, v := range left {
		resp := v.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if _ = read(t, resp); resp.StatusCode != http.StatusNotFound {
			t.Errorf("an abandoned session gets %s", resp.Status)
		}
	}
}
