package streamable_test

import (
	"fmt"
	"github.com/dragoman-mcp/dragoman"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// Requests and a notification wait for one session that cannot be taken up.
func TestPain3_EachRequestThatWaitedForALostSessionGetsItsOwnAnswer(t *testing.T) {
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
	v := first.hello(protocol.LatestLegacy)
	stop()
	hold := make(chan struct{})
	h.set(func() { h.closed, h.hold = true, hold })
	var came atomic.Int32
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store, Caller: func(*http.Request) (*dragoman.Caller, error) {
		came.Add(1)
		return &dragoman.Caller{}, nil
	}})
	const requests = 16
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() { // ends with its answer
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":"own %d","method":"tools/list"}`, i)
			resp := v.at(next).do(t.Context(), http.MethodPost, text)
			if body := v.read(resp); resp.StatusCode != http.StatusOK || !strings.Contains(body, fmt.Sprintf(`"id":"own %d"`, i)) {
				t.Errorf("request %d is answered with %d %s", i, resp.StatusCode, body)
			}
		})
	}
	all.Go(func() { // likewise
		resp := v.at(next).do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/x"}`)
		if body := v.read(resp); resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, "own") {
			t.Errorf("the notification is answered with %d %s", resp.StatusCode, body)
		}
	})
	until(t, "all have come", func() bool { return came.Load() >= requests+1 })
	close(hold)
	all.Wait()
}

// A session is not taken for gone because a request names it twice: the client would
// begin another.
func TestSessionIDThatIsThereTwiceDoesNotEndTheSession(t *testing.T) {
	for name, store := range map[string]eventlog.Records{"recorded": newLedger(), "not recorded": nil} {
		t.Run(name, func(t *testing.T) {
			s := open(t, &streamable.Server{Sessions: newHotel(), Store: store})
			v := s.hello(protocol.LatestLegacy)
			twice := v.with(protocol.HeaderSession, v.session, protocol.HeaderSession, v.session)
			twice.want(echoCall("7", "x"), http.StatusBadRequest, `"id":7,"error":{"code":-32000,"message":"Bad Request: the header Mcp-Session-Id is there more than once"}`)
			if resp := twice.do(t.Context(), http.MethodDelete, ""); resp.StatusCode != http.StatusBadRequest {
				t.Errorf("DELETE is answered with %d", resp.StatusCode)
			}
			v.want(`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`, http.StatusOK, `"id":8`)
		})
	}
}
