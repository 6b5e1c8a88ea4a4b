//go:build unix

package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// again starts a gateway in the place of one that has ended.
func again(t *testing.T, g *gatewaytest.Gateway, config object) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Serve(t, &gatewaytest.Options{Config: config, File: g.File, Listen: strings.TrimPrefix(g.Base, "http://")})
}

// TestPain2_SessionsOutliveARestart restarts the gateway, in order and by force. With
// a directory for state its clients do not notice; without one they are notified by 404,
// as the protocol wants it.
func TestPain2_SessionsOutliveARestart(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, withState := range []bool{true, false} {
			for _, mode := range []string{fault.Legacy, fault.Modern} {
				t.Run(fmt.Sprintf("%v, state kept: %v, %s server", signal, withState, mode), func(t *testing.T) {
					j := newJournal(t)
					config := object{"servers": object{server: child(t, mode, j)}}
					if withState {
						config["state"] = filepath.Join(t.TempDir(), "state")
					}
					g := gatewaytest.Serve(t, &gatewaytest.Options{Config: config})
					ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
					v, all := openSession(ctx, t, g, server), openSession(ctx, t, g, "")
					v.mustEcho(ctx, 1)
					g.Leave()
					g.Signal(signal)
					g.Wait(gatewaytest.Patience)
					g = again(t, g, config)
					if withState {
						v.mustEcho(ctx, 2)
						resp := all.post(ctx, callText(3, server+"_echo", object{"text": "all"}))
						defer resp.Body.Close()
						if got := all.answer(resp, 3); got != "all" {
							t.Errorf("a session with all servers: %q (%s)", got, resp.Status)
						}
						return
					}
					resp := v.call(ctx, 2, "echo", object{"text": "hello"})
					if body := read(t, resp); resp.StatusCode != http.StatusNotFound {
						t.Errorf("a lost session gets %s %s", resp.Status, body)
					}
					openSession(ctx, t, g, server).mustEcho(ctx, 1)
				})
			}
		}
	}
}

// TestPain2_SubscriptionsOutliveARestart kills the gateway. The client of a session that has
// subscribed is notified that the resource may have changed meanwhile, and of changes from then on.
func TestPain2_SubscriptionsOutliveARestart(t *testing.T) {
	t.Parallel() // with gateways of its own
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		for _, isolation := range []string{"session", "client", "shared"} {
			t.Run(mode+" server, isolation "+isolation, func(t *testing.T) {
				t.Parallel() // with a gateway of its own
				config := object{
					"state":   filepath.Join(t.TempDir(), "state"),
					"servers": object{server: with(child(t, mode, newJournal(t)), object{"isolation": isolation})},
				}
				g := gatewaytest.Serve(t, &gatewaytest.Options{Config: config})
				ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
				v := openSession(ctx, t, g, server)
				if got := read(t, v.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+watched+`"}}`)); !strings.Contains(got, `"result"`) {
					t.Fatalf("resources/subscribe: %s", got)
				}
				g.Leave()
				g.Signal(syscall.SIGKILL)
				g.Wait(gatewaytest.Patience)
				again(t, g, config)
				v.mustEcho(ctx, 2)
				stream := v.get(ctx, "")
				defer stream.Body.Close()
				events := newEvents(stream.Body)
				for id := 3; id < 5; id++ {
					for notified := false; !notified; {
						e, err := events.next()
						if err != nil {
							t.Fatal(err)
						}
						notified = strings.Contains(e.data, protocol.NoteResourceUpdated) && strings.Contains(e.data, watched)
					}
					_ = read(t, v.call(ctx, id, "update_resource", nil))
				}
			})
		}
	}
}

// delete ends a session, and returns the status.
func (v *session) delete(ctx context.Context) int {
	v.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, v.url, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header = v.header()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestS49_StreamsAreResumedAfterARestart kills the gateway in the middle of a call
// that tells its progress. Whoever comes back gets what was logged, in order and once,
// and is notified that the call was lost.
func TestS49_StreamsAreResumedAfterARestart(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	config := object{
		"state":   filepath.Join(t.TempDir(), "state"),
		"servers": object{server: child(t, fault.Legacy, j)},
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: config})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, server)
	resp := v.call(ctx, 7, "slow", object{"ms": 600_000, "steps": 10_000})
	events := newEvents(resp.Body)
	var ids, steps []string
	for len(steps) < 8 {
		e, err := events.next()
		if err != nil {
			t.Fatal(err)
		}
		if e.data != "" {
			ids, steps = append(ids, e.id), append(steps, e.data)
		}
	}
	g.Leave()
	g.Signal(syscall.SIGKILL)
	g.Wait(gatewaytest.Patience)
	_ = resp.Body.Close()
	again(t, g, config)
	resumed := v.get(ctx, ids[2])
	defer resumed.Body.Close()
	events = newEvents(resumed.Body)
	seen := map[string]bool{}
	for n := 3; ; n++ {
		e, err := events.next()
		if err != nil {
			t.Fatalf("the stream ends after %d events, without an answer: %v", n, err)
		}
		if e.data == "" {
			n--
			continue
		}
		if text, ok := textOf(e.data, 7); ok {
			if !strings.Contains(text, fmt.Sprint(protocol.CodeLost)) {
				t.Errorf("the call comes to %s", text)
			}
			if n < len(steps) {
				t.Errorf("%d events were lost", len(steps)-n)
			}
			break
		}
		if n < len(steps) && e.data != steps[n] {
			t.Errorf("event %d is %s, and was %s", n, e.data, steps[n])
		}
		if seen[e.id] || slices.Contains(ids[:3], e.id) {
			t.Errorf("event %s comes twice", e.id)
		}
		seen[e.id] = true
	}
	v.mustEcho(ctx, 8)
}

// TestS49_TrimmedStreamsAreRefused has a stream that is longer than what is kept of
// it. Whoever comes back for what is gone is notified, before a restart and after it:
// nobody gets a stream with a hole.
func TestS49_TrimmedStreamsAreRefused(t *testing.T) {
	t.Parallel()           // with a gateway of its own
	const maxEvents = 1000 // events, by default
	config := object{
		"state":   filepath.Join(t.TempDir(), "state"),
		"servers": object{server: child(t, fault.Legacy, newJournal(t))},
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: config})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	v := openSession(ctx, t, g, server)
	all := v.follow(v.call(ctx, 7, "notify", object{"n": 3 * maxEvents}))
	if len(all) < maxEvents+100 {
		t.Fatalf("the stream has %d events: nothing is trimmed", len(all))
	}
	for _, killed := range []bool{false, true} {
		if killed {
			g.Leave()
			g.Signal(syscall.SIGKILL)
			g.Wait(gatewaytest.Patience)
			g = again(t, g, config)
		}
		for _, behind := range []int{0, 1, len(all) / 2, len(all) - maxEvents - 2} {
			resp, err := v.tryGet(ctx, all[behind].id)
			if err != nil {
				t.Fatal(err)
			}
			body := read(t, resp)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "cannot be replayed") {
				t.Errorf("killed: %v, behind event %d of %d: %s %.200s", killed, behind, len(all), resp.Status, body)
			}
		}
		for _, behind := range []int{len(all) - maxEvents, len(all) - maxEvents/2, len(all) - 2} {
			if got := v.follow(v.get(ctx, all[behind].id)); !slices.Equal(got, all[behind+1:]) {
				t.Errorf("killed: %v, behind event %d of %d come %d events, or others", killed, behind, len(all), len(got))
			}
		}
	}
	v.mustEcho(ctx, 8)
}

// follow returns the events of a stream until its end.
func (v *session) follow(resp *http.Response) (all []event) {
	v.t.Helper()
	defer resp.Body.Close()
	for events := newEvents(resp.Body); ; {
		e, err := events.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			v.t.Fatal(err)
		}
		all = append(all, e)
	}
}
