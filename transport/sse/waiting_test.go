package sse

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// Of large messages, one waits at a time: the number alone bounds no memory.
func TestLargeMessagesThatWaitAreBounded(t *testing.T) {
	for name, row := range map[string]struct{ size, waiting int }{"small": {100, maxWaiting}, "large": {largeMessage + 1, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				endpoint := httpserver.NewBase(&httpserver.BaseOptions{Trusted: true})
				ss := &session{in: make(chan []byte, maxWaiting), large: make(chan struct{}, 1), first: make(chan struct{}), drained: make(chan struct{}), gone: make(chan struct{})}
				body := []byte(strings.Repeat("x", row.size))
				var statuses sync.Map
				post := func(i int) {
					w := httptest.NewRecorder()
					endpoint.Serve(w, httptest.NewRequest(http.MethodPost, "/messages", nil), func(x *httpserver.Exchange) error { return ss.enqueue(x, body, nil) })
					statuses.Store(i, w.Code)
				}
				count := func(status int) (n int) {
					statuses.Range(func(_, code any) bool {
						if code == status {
							n++
						}
						return true
					})
					return n
				}
				var posting sync.WaitGroup
				for i := range 2 * maxWaiting {
					posting.Go(func() { post(i) }) // ends after queueWait
				}
				synctest.Wait()
				if n := count(http.StatusAccepted); n != row.waiting {
					t.Errorf("%d wait, want %d", n, row.waiting)
				}
				posting.Wait()
				if n := count(http.StatusServiceUnavailable); n != 2*maxWaiting-row.waiting {
					t.Errorf("%d are refused", n)
				}
				for range row.waiting {
					if b, err := ss.Read(); err != nil || len(b) != row.size {
						t.Errorf("read %d bytes: %v", len(b), err)
					}
				}
				post(-1)
				if code, _ := statuses.Load(-1); code != http.StatusAccepted {
					t.Errorf("when there is room again: %v", code)
				}
			})
		})
	}
}
