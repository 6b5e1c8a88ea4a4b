//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// limit is how long a call may take until it must have come to an end: what the
// servers may take, and what a queue and a backoff may add.
const limit = 60 * time.Second

// listen serves a fault server over HTTP, and returns its address.
func listen(t *testing.T, mode string, j fault.Journal) string {
	t.Helper()
	s := fault.New(&fault.Options{Revisions: fault.Revisions(mode), Journal: j, Exit: func() {}})
	h := s.Handler()
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = h.Shutdown(ctx)
		_ = s.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return web.Listener.Addr().String()
}

// client comes, calls a while, leaves, and comes again elsewhere.
func (w *rig) client(phase string, i int, stop <-chan struct{}) {
	era := gatewaytest.Eras[i%2]
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		server, way := names[rand.IntN(len(names))], w.way(era)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		began := time.Now()
		c, err := gatewaytest.Dial(ctx, w.gateway.Dialer(server, way), fmt.Sprint("client ", i), era)
		if err == nil {
			v := &clientRun{rig: w, client: c, server: server, way: way, opened: began}
			for m := range 1 + rand.IntN(20) {
				if err = v.call(fmt.Sprintf("%s/%d/%d/%d", phase, i, n, m)); err != nil {
					break
				}
			}
			_ = c.Conn.Close()
		} else {
			w.note(err, &event{what: "to connect", server: server, way: way, era: era, began: began, opened: began})
		}
		cancel()
	}
}

func (w *rig) way(era protocol.Era) string {
	if era == protocol.Modern {
		return []string{gatewaytest.HTTP, gatewaytest.WS}[rand.IntN(2)]
	}
	return []string{gatewaytest.HTTP, gatewaytest.WS, gatewaytest.SSE}[rand.IntN(3)]
}

// A clientRun is one conversation of a client.
type clientRun struct {
	*rig
	client      *gatewaytest.Client
	server, way string
	opened      time.Time
}

// call makes one call. An error means that the client must connect again.
func (v *clientRun) call(key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, server := v.client, ""
	e := &event{server: v.server, way: v.way, era: c.Revision.Era(), all: v.server == "", began: time.Now(), opened: v.opened}
	if e.all {
		e.server = names[rand.IntN(10)]
		server = e.server + "_"
	}
	var got, want, tool string
	var err error
	switch rand.IntN(10) {
	case 0:
		tool, e.server = "tools/list", v.server // all of them, if that is ""
		_, err = c.Tools(ctx)
	case 1, 2, 3:
		tool, want, e.key = "count", key, key
		got, err = c.Tool(ctx, server+tool, object{"key": key, "ms": rand.IntN(50)})
	case 4:
		tool, want = "sleep", key
		got, err = c.Tool(ctx, server+tool, object{"text": key, "ms": rand.IntN(300)})
	case 5:
		tool, want = "notify", "10"
		got, err = c.Tool(ctx, server+tool, object{"n": 10})
	case 6:
		tool, want = "serverreq", "file:///"+c.Name
		got, err = c.Tool(ctx, server+tool, nil)
	case 7: // it loses interest
		tool = "cancelled"
		soon, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
		defer cancel()
		if _, err = c.Tool(soon, server+"sleep", object{"ms": 1000}); soon.Err() != nil {
			err = errLeft
		}
	case 8:
		tool, want = "echo", strings.Repeat(key+" ", rand.IntN(20_000))
		got, err = c.Tool(ctx, server+tool, object{"text": want})
	default:
		tool, want = "echo", key
		got, err = c.Tool(ctx, server+tool, object{"text": key})
	}
	e.what = tool
	if err == nil && got != want {
		v.problem("%s says %.100q instead of %.100q", tool, got, want)
	}
	return v.note(err, e)
}
