//go:build linux

package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS46_LostPacketsLoseNothing has links on both sides that lose packets and are
// slow, by the means of the kernel.
func TestS46_LostPacketsLoseNothing(t *testing.T) {
	t.Parallel() // it mostly waits, in a process of its own
	if !alone(t, 4*gatewaytest.Patience) {
		return
	}
	const clients, streams = 20, 4
	calls := max(gatewaytest.Few(100), 30) // enough that packets of each link are lost
	j := newJournal(t)
	servers := object{"other": child(t, fault.Legacy, j)}
	var upstreams []string
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		far := remote(t, mode, j)
		servers[mode] = object{"url": far.URL + "/mcp"}
		upstreams = append(upstreams, far.Listener.Addr().String())
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": servers}})
	link := spoil(t, append(upstreams, strings.TrimPrefix(g.Base, "http://"))...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*gatewaytest.Patience)
	defer cancel()
	from := time.Now()
	var all sync.WaitGroup
	for i := range clients {
		era, mode := gatewaytest.Eras[i%2], []string{fault.Legacy, fault.Modern}[i/2%2]
		way := ways(era)[i/4%len(ways(era))]
		name := fmt.Sprintf("client %d, %s over %s, %s server", i, era, way, mode)
		all.Go(func() { // ends with its calls
			c, err := gatewaytest.Dial(ctx, g.Dialer(mode, way), name, era)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Conn.Close()
			for n := range calls {
				key := fmt.Sprintf("%s, call %d", name, n)
				if got, err := c.Tool(ctx, "count", object{"key": key}); err != nil || got != key {
					t.Errorf("%s: %q, error %v", key, got, err)
				}
			}
			if got := len(c.Notes(protocol.NoteProgress)); got != calls {
				t.Errorf("%s was told of progress %d times, want %d", name, got, calls)
			}
		})
	}
	for i := range streams {
		all.Go(func() { follow(ctx, t, g, []string{fault.Legacy, fault.Modern}[i%2]) }) // ends with its call
	}
	all.Wait()
	t.Logf("%d calls took %v", clients*calls, time.Since(from))
	link.mend()
	if got := len(j.Of(fault.Ran, "")); got != clients*calls {
		t.Errorf("%d calls were carried out, want %d", got, clients*calls)
	}
}

// follow makes a call that tells its progress, and loses the connection again and
// again. What it is told must be all, once and in order.
func follow(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, name string) {
	const steps, each = 50, 7
	v, err := trySession(ctx, t, g, name)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := gatewaytest.Post(ctx, v.url, v.header(), callText(3, "slow", object{"ms": 10_000, "steps": steps}))
	next, last, cuts := 0, "", 0
	for position := int64(1); err == nil; cuts++ {
		events := newEvents(resp.Body)
		for n := 0; n < each; n++ {
			var e event
			if e, err = events.next(); err != nil {
				t.Errorf("%s: the stream ends behind %s: %v", name, last, err)
				return
			}
			stream, number, _ := strings.Cut(e.id, "_")
			if want := fmt.Sprint(position); number != want {
				t.Errorf("%s: event %s of stream %s comes behind %s", name, number, stream, last)
				return
			}
			position++
			last = e.id
			switch _, over := textOf(e.data, 3); {
			case over && next != steps:
				t.Errorf("%s: the call ends after %d steps", name, next)
				return
			case over:
				if cuts < 2 {
					t.Errorf("%s: the connection was lost %d times only", name, cuts)
				}
				return
			case e.data != "":
				if next++; !strings.Contains(e.data, fmt.Sprintf(`"step %d of`, next)) {
					t.Errorf("%s: step %d is %s", name, next, e.data)
					return
				}
			}
		}
		_ = resp.Body.Close() // and with it the connection
		resp, err = v.tryGet(ctx, last)
		if err == nil && resp.StatusCode != 200 {
			err = fmt.Errorf("%s %s", resp.Status, read(t, resp))
		}
	}
	t.Errorf("%s: the stream cannot be resumed behind %s: %v", name, last, err)
}

// trySession is openSession for goroutines of a test.
func trySession(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, name string) (*session, error) {
	v := &session{t: t, url: g.URL(name, "mcp")}
	resp, err := v.tryOpen(ctx)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	if v.id == "" {
		return nil, fmt.Errorf("initialize: %s", resp.Status)
	}
	resp, err = gatewaytest.Post(ctx, v.url, v.header(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err != nil {
		return nil, err
	}
	return v, resp.Body.Close()
}
