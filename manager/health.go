package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// errSick is why a server is given up that does not answer.
var errSick = errors.New("it does not answer when it is asked whether it is there")

// looks tells whether the server's health is looked after. Where each request has a
// session of its own, a look would start another.
func (a *attendance) looks() bool {
	return a.up.set.interval > 0 && (a.era == protocol.Modern || a.up.set.isolation != era.PerRequest)
}

// look asks the server whether it is there, unless somebody else has just asked it
// something or waits for an answer: many servers do one thing at a time. After too many failures its conversations are closed, so that others
// are opened.
func (a *attendance) look(ctx context.Context) {
	heard := time.Unix(0, a.keeper.heard.Load())
	if running, _ := a.up.admission.counts(); running > 0 || time.Since(heard) < a.up.set.interval/2 {
		return
	}
	limit, cancel := context.WithTimeout(ctx, min(pingTimeout, a.up.set.interval))
	err := a.server.Ping(limit)
	cancel()
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	a.sick++
	if err == nil {
		a.sick = 0
	}
	sick := a.sick
	a.mu.Unlock()
	if err == nil {
		return
	}
	a.up.event(nil, fmt.Sprintf("it does not answer (%d of %d)", sick, a.up.set.threshold))
	a.keeper.signal.fire()
	if sick < a.up.set.threshold {
		return
	}
	since := a.keeper.age()
	a.keeper.hangUp(errSick, true)
	if a.keeper.age() == since {
		a.keeper.failed(since, time.Now(), errSick)
	}
	a.mu.Lock()
	a.sick = 0
	a.mu.Unlock()
}
