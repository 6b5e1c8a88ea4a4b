package jsonrpc_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

func TestACallClockCountsFromProgressAndNotDuringQuestions(t *testing.T) {
	const limit, atMost = 10 * time.Second, 25 * time.Second
	for name, test := range map[string]struct {
		during func(c *jsonrpc.CallClock)
		want   time.Duration
		err    dragoman.TimeoutError
	}{
		"nothing": {func(*jsonrpc.CallClock) {}, limit, dragoman.TimeoutError{After: limit}},
		"progress": {func(c *jsonrpc.CallClock) {
			time.Sleep(9 * time.Second)
			c.Renew()
		}, 19 * time.Second, dragoman.TimeoutError{After: limit, Renewed: true}},
		"progress until the maximum": {func(c *jsonrpc.CallClock) {
			for range 3 {
				time.Sleep(8 * time.Second)
				c.Renew()
			}
		}, atMost, dragoman.TimeoutError{After: atMost}},
		"questions": {func(c *jsonrpc.CallClock) {
			time.Sleep(time.Second)
			first, second := c.Pause(), c.Pause()
			time.Sleep(time.Minute)
			first()
			c.Renew() // not while there is another
			time.Sleep(time.Minute)
			second()
		}, 131 * time.Second, dragoman.TimeoutError{After: limit, Renewed: true}},
		"a question, and progress until the maximum": {func(c *jsonrpc.CallClock) {
			resume := c.Pause()
			time.Sleep(time.Minute)
			resume()
			for range 3 {
				time.Sleep(8 * time.Second)
				c.Renew()
			}
		}, time.Minute + atMost, dragoman.TimeoutError{After: time.Minute + atMost}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, expired := time.Now(), make(chan *dragoman.TimeoutError, 1)
				c := jsonrpc.NewCallClock(limit, atMost, func(e *dragoman.TimeoutError) { expired <- e })
				test.during(c)
				if e := <-expired; *e != test.err || time.Since(began) != test.want {
					t.Errorf("after %v: %v, want %v after %v", time.Since(began), *e, test.err, test.want)
				}
				c.Stop()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := jsonrpc.NewCallClock(limit, 0, func(e *dragoman.TimeoutError) { t.Errorf("it expires after it was stopped: %v", e) })
		resume := c.Pause()
		c.Stop()
		resume()
		c.Renew()
		time.Sleep(time.Hour)
		var none *jsonrpc.CallClock
		none.Pause()()
		none.Renew()
		none.Stop()
	})
}
