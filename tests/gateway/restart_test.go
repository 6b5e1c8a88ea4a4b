//go:build unix

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
)

// again starts a gateway in the place of one that has ended.
func again(t *testing.T, g *kit.Gateway, config object) *kit.Gateway {
	t.Helper()
	return kit.Serve(t, &kit.Options{Config: config, File: g.File, Listen: strings.TrimPrefix(g.Base, "http://")})
}

// TestPain2_SessionsOutliveARestart restarts the gateway, in order and by force. With
// a directory for state its clients do not notice; without one they are told by 404,
// as the protocol wants it.
func TestPain2_SessionsOutliveARestart(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, kept := range []bool{true, false} {
			for _, mode := range []string{fault.Legacy, fault.Modern} {
				t.Run(fmt.Sprintf("%v, kept: %v, %s server", signal, kept, mode), func(t *testing.T) {
					j := newJournal(t)
					config := object{"servers": object{server: child(t, mode, j)}}
					if kept {
						config["state"] = filepath.Join(t.TempDir(), "state")
					}
					g := kit.Serve(t, &kit.Options{Config: config})
					ctx := kit.Hurry(t, kit.Patience)
					v, all := openSession(ctx, t, g, server), openSession(ctx, t, g, "")
					v.mustEcho(ctx, 1)
					g.Leave()
					g.Signal(signal)
					g.Wait(kit.Patience)
					g = again(t, g, config)
					if kept {
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

// TestPain3_LostSessionsGet404 asks for sessions that do not exist, or no more.
func TestPain3_LostSessionsGet404(t *testing.T) {
	for _, front := range []string{"run", "serve"} {
		t.Run(front, func(t *testing.T) {
			g := start(t, front, child(t, fault.Legacy, newJournal(t)))
			ctx := kit.Hurry(t, kit.Patience)
			v := openSession(ctx, t, g, server)
			if status := v.delete(ctx); status < 200 || status > 299 {
				t.Errorf("DELETE gets %d", status)
			}
			for name, lost := range map[string]*session{"deleted": v, "unknown": {t: t, url: v.url, id: "0123456789abcdef0123456789abcdef"}} {
				resp := lost.call(ctx, 1, "echo", object{"text": "hello"})
				if body := read(t, resp); resp.StatusCode != http.StatusNotFound {
					t.Errorf("POST to a session that is %s gets %s %s", name, resp.Status, body)
				}
				resp, err := lost.tryGet(ctx, "")
				if err != nil {
					t.Fatal(err)
				}
				if body := read(t, resp); resp.StatusCode != http.StatusNotFound {
					t.Errorf("GET of a session that is %s gets %s %s", name, resp.Status, body)
				}
				if status := lost.delete(ctx); status != http.StatusNotFound {
					t.Errorf("DELETE of a session that is %s gets %d", name, status)
				}
			}
		})
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
// and is told that the call was lost.
func TestS49_StreamsAreResumedAfterARestart(t *testing.T) {
	j := newJournal(t)
	config := object{
		"state":   filepath.Join(t.TempDir(), "state"),
		"servers": object{server: child(t, fault.Legacy, j)},
	}
	g := kit.Serve(t, &kit.Options{Config: config})
	ctx := kit.Hurry(t, kit.Patience)
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
	g.Wait(kit.Patience)
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

// TestS47_DrainLetsCallsEnd ends the gateway while calls are under way and streams
// are open.
func TestS47_DrainLetsCallsEnd(t *testing.T) {
	const calls = 20
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			j := newJournal(t)
			g := kit.Serve(t, &kit.Options{Config: object{"servers": object{server: child(t, mode, j)}}})
			ctx := kit.Hurry(t, kit.Patience)
			s := &scene{T: t, Gateway: g, server: server, mode: mode, journal: j, ctx: ctx}
			var done []<-chan ending
			for i := range calls {
				era := kit.Eras[i%2]
				way := ways(era)[i/2%len(ways(era))]
				c := enter(ctx, t, g, server, way, era)
				key := fmt.Sprintf("%s call %d of a %s client over %s", mode, i, era, way)
				done = append(done, s.count(c, key, int(kit.Slow(500*time.Millisecond).Milliseconds())))
			}
			idle := openSession(ctx, t, g, server).get(ctx, "")
			defer idle.Body.Close()
			socket := enter(ctx, t, g, server, kit.WS, protocol.Legacy)
			listening := enter(ctx, t, g, server, kit.HTTP, protocol.Modern)
			listened := make(chan error, 1)
			go func() { // ends with the gateway
				_, err := listening.Once(ctx, protocol.MethodListen, object{"notifications": object{"toolsListChanged": true}})
				listened <- err
			}()
			if err := listening.Hear(ctx, protocol.NoteAcknowledged); err != nil {
				t.Fatal(err)
			}
			g.Leave()
			g.Signal(syscall.SIGTERM)
			for _, d := range done {
				ends(t, d)
			}
			if err := <-listened; err != nil {
				t.Errorf("the listen ends with %v, not with its result", err)
			}
			select {
			case <-socket.Conn.Done():
				if err := socket.Conn.Err(); !strings.Contains(err.Error(), "1001") {
					t.Errorf("the socket ends with %v", err)
				}
			case <-ctx.Done():
				t.Error("the socket stays open")
			}
			for events := newEvents(idle.Body); ; {
				if _, err := events.next(); err != nil {
					break // it ends
				}
			}
			if status := g.Wait(kit.Slow(5 * time.Second)); status != 0 {
				t.Errorf("it ends with status %d", status)
			}
			if err := g.Unwell(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestS47_DrainHasALimit has a call that does not end. It is told, and the gateway
// ends all the same: by itself after a while, or at once when it is told twice.
func TestS47_DrainHasALimit(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprintf("twice: %v", twice), func(t *testing.T) {
			t.Parallel() // it mostly waits
			j := newJournal(t)
			g := kit.Serve(t, &kit.Options{Config: object{"servers": object{server: child(t, fault.Legacy, j)}}})
			ctx := kit.Hurry(t, kit.Patience)
			s := &scene{T: t, Gateway: g, server: server, journal: j, ctx: ctx}
			done := s.count(enter(ctx, t, g, server, kit.HTTP, protocol.Legacy), t.Name(), forever)
			g.Leave()
			from := time.Now()
			g.Signal(syscall.SIGTERM)
			// Whoever comes now is turned away.
			kit.Eventually(t, func() error {
				if status, _ := g.Get("/readyz"); status == http.StatusOK {
					return fmt.Errorf("it still takes requests")
				}
				return nil
			})
			if twice {
				g.Signal(syscall.SIGTERM)
			}
			e := <-done
			if e.err == nil {
				t.Errorf("the call comes to %q", e.text)
			} else if code, outcome := kit.Outcome(e.err); !twice && (code != protocol.CodeLost || outcome != protocol.OutcomeUnknown) {
				t.Errorf("the call comes to %v", e.err)
			}
			g.Wait(kit.Patience)
			if took := time.Since(from); twice && took > kit.Slow(5*time.Second) || took > kit.Slow(16*time.Second) {
				t.Errorf("it ends after %v", took)
			}
		})
	}
}

// TestS48_ReloadTouchesOnlyWhatChanged_Pain32 changes the file while calls run.
func TestS48_ReloadTouchesOnlyWhatChanged_Pain32(t *testing.T) {
	for _, era := range kit.Eras {
		t.Run(era.String()+" clients", func(t *testing.T) {
			j := newJournal(t)
			a, b, c := child(t, fault.Legacy, j), child(t, fault.Modern, j), child(t, fault.Legacy, j)
			g := kit.Serve(t, &kit.Options{Config: object{"servers": object{"a": a, "b": b, "c": c}}, Flags: []string{"--no-watch"}, Witness: "a"})
			ctx := kit.Hurry(t, 2*kit.Patience)
			s := &scene{T: t, Gateway: g, journal: j, ctx: ctx}
			onA := enter(ctx, t, g, "a", kit.HTTP, era)
			before := who(ctx, t, onA)
			slow := s.count(onA, t.Name()+" on a", int(kit.Slow(time.Second).Milliseconds()))
			onC := enter(ctx, t, g, "c", kit.HTTP, era)
			last := s.count(onC, t.Name()+" on c", 1000)

			reload := func(config object, says string) {
				t.Helper()
				g.Write(config)
				n := strings.Count(g.Said(), says)
				g.Signal(syscall.SIGHUP)
				kit.Eventually(t, func() error {
					if strings.Count(g.Said(), says) == n {
						return fmt.Errorf("it does not say %q", says)
					}
					return nil
				})
			}
			// A file with errors changes nothing, and the error says where it is.
			reload(object{"servers": object{"a": with(a, object{"comand": "x"})}}, "comand")
			echoes(ctx, t, enter(ctx, t, g, "b", kit.HTTP, era), "still there")

			// B changes, C goes.
			reload(object{"servers": object{"a": a, "b": with(b, object{"args": []string{"changed"}})}}, "was read again")
			if got := ends(t, slow); got != t.Name()+" on a" {
				t.Errorf("the call on a says %q", got)
			}
			if got := ends(t, last); got != t.Name()+" on c" {
				t.Errorf("the call on c, which has been removed, says %q", got)
			}
			if era == protocol.Legacy {
				if after := who(ctx, t, onA); after.PID != before.PID {
					t.Errorf("a was process %d and is %d", before.PID, after.PID)
				}
			}
			echoes(ctx, t, onA, "the same conversation")
			if p := who(ctx, t, enter(ctx, t, g, "b", kit.HTTP, era)); !slices.Contains(p.Args, "changed") {
				t.Errorf("b was started with %q", p.Args)
			}
			if _, err := onC.Tool(ctx, "echo", object{"text": "hello"}); err == nil {
				t.Error("c is still there")
			}
			if _, there := g.Status()["c"]; there {
				t.Error("c is still in the status")
			}
		})
	}
}

// TestS48_ManyReloadsLeaveNothingBehind reloads a hundred times.
func TestS48_ManyReloadsLeaveNothingBehind(t *testing.T) {
	const reloads = 100
	j := newJournal(t)
	a := child(t, fault.Legacy, j)
	config := func(n int) object {
		return object{"servers": object{"a": a, "b": with(child(t, fault.Modern, j), object{"args": []string{fmt.Sprint("generation ", n)}})}}
	}
	g := kit.Serve(t, &kit.Options{Config: config(0), Flags: []string{"--no-watch"}, Witness: "a"})
	ctx := kit.Hurry(t, 2*kit.Patience)
	c := enter(ctx, t, g, "a", kit.HTTP, protocol.Legacy)
	before := who(ctx, t, c)
	kit.Eventually(t, func() error { return settled(g) })
	files := kit.Files(g.PID())
	var calling sync.WaitGroup
	stop := make(chan struct{})
	calling.Go(func() { // ends with stop
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := c.Tool(ctx, "echo", object{"text": "during it"}); err != nil {
				t.Errorf("during a reload: %v", err)
				return
			}
		}
	})
	for n := range reloads {
		g.Write(config(n + 1))
		g.Signal(syscall.SIGHUP)
		// Signals that come together are one, so each is waited for now and then.
		if n%10 == 0 {
			kit.Eventually(t, func() error {
				if !strings.Contains(g.Said(), "was read again") {
					return fmt.Errorf("nothing was read again")
				}
				return nil
			})
		}
	}
	kit.Eventually(t, func() error {
		text, err := enter(ctx, t, g, "b", kit.HTTP, protocol.Modern).Tool(ctx, "whoami", nil)
		if err == nil && !strings.Contains(text, fmt.Sprint("generation ", reloads, `"`)) {
			err = fmt.Errorf("b is %s", text)
		}
		return err
	})
	close(stop)
	calling.Wait()
	if after := who(ctx, t, c); after.PID != before.PID {
		t.Errorf("a was process %d and is %d", before.PID, after.PID)
	}
	kit.Eventually(t, func() error {
		if err := settled(g); err != nil {
			return err
		}
		if now := kit.Files(g.PID()); now > files+20 {
			return fmt.Errorf("it has %d files open, and had %d", now, files)
		}
		return nil
	})
}

// settled returns an error unless all servers are ready and no process is left over.
func settled(g *kit.Gateway) error {
	status := g.Status()
	for name, s := range status {
		if s.State != "ready" {
			return fmt.Errorf("%s is %s", name, s.State)
		}
	}
	// Ours and those of the servers: a session and the gateway's own for each, and
	// the guard.
	if all, _ := kit.Children(g.PID()); len(all) > 3*len(status)+1 {
		return fmt.Errorf("it has %d children", len(all))
	}
	return nil
}

// TestReloadByItself changes the file and tells nobody.
func TestReloadByItself(t *testing.T) {
	j := newJournal(t)
	a := child(t, fault.Legacy, j)
	g := kit.Serve(t, &kit.Options{Config: object{"servers": object{"a": a}}, Witness: "a"})
	g.Write(object{"servers": object{"a": a, "b": child(t, fault.Modern, j)}})
	g.Await("was read again")
	ctx := kit.Hurry(t, kit.Patience)
	echoes(ctx, t, enter(ctx, t, g, "b", kit.HTTP, protocol.Modern), "new")
}
