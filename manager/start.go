package manager

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// start makes one attempt to start the server, and to have it say who it is.
func (i *instance) start() error {
	ctx, cancel := context.WithTimeoutCause(i.ctx, i.up.set.connect, errHang)
	defer cancel()
	i.mu.Lock()
	if !i.starting {
		i.starting, i.since = true, time.Now()
	}
	i.begun = i.round
	i.keeper.setAsleep(false)
	i.mu.Unlock()
	i.keeper.signal.fire()
	began, since := time.Now(), i.keeper.age()
	found, err := i.server.Start(ctx)
	if err == nil && i.attended() {
		err = i.greet(ctx, found)
	}
	if err == nil && i.attended() && i.keeper.down() {
		// What it said may be what it said before.
		err = i.server.Ping(dragoman.WithCaller(ctx, attendant))
	}
	if err != nil && i.ctx.Err() == nil {
		if ctx.Err() != nil {
			err = errHang
			i.keeper.hangUp(errHang, false)
		}
		if i.keeper.age() == since && !isRefusal(err) { // it is nothing that the keeper has seen
			i.keeper.failed(since, began, err)
		}
	}
	i.mu.Lock()
	i.starting = false
	switch {
	case err == nil:
		i.started, i.era, i.asleep, i.sick, i.used = true, found, false, 0, time.Now()
		i.visits++
	case i.begun == i.round: // else it failed because of a restart
		i.tries++
	}
	i.mu.Unlock()
	select {
	case <-i.wake: // who still wants the server says so again
	default:
	}
	i.keeper.signal.fire()
	return err
}

func (i *instance) newServer() *era.Server {
	conf, set := i.up.conf.Load(), &i.up.set
	s := &era.Server{
		Dialer: i.keeper, Probe: i.target.Probe,
		ProbeTimeout: min(orDefault(i.target.ProbeTimeout, era.DefaultProbeTimeout), set.connect/3), DialTimeout: set.connect,
		Timeout: longest(set.timeout, conf.Tools.Timeout), Isolation: set.isolation, Stateless: i.target.Stateless, Warm: conf.Pool,
		MaxSessions: conf.Sessions, MaxPerCaller: conf.SessionsPerClient, MaxSuspended: conf.Suspended, IdleTimeout: set.sessionIdle(conf),
		Changed: i.up.changed, Name: i.up.manager.opts.Name, Version: i.up.manager.opts.Version, Logger: i.up.log,
	}
	legacy, modern := protocol.Legacy, protocol.Modern
	switch conf.Era {
	case "legacy":
		s.Era = &legacy
	case "modern":
		s.Era = &modern
	}
	return s
}

// attended tells whether we are a client of the server ourselves. We are not where
// callers have servers of their own.
func (i *instance) attended() bool { return i.passed == nil && !i.up.set.passes }

// attendant is who we are as a client.
var attendant = &dragoman.Caller{Principal: "dragoman"}

// greet has the server say who it is and what it can do.
func (i *instance) greet(ctx context.Context, found protocol.Era) error {
	ctx = dragoman.WithCaller(ctx, attendant)
	req, err := i.up.request(protocol.MethodDiscover, nil)
	if err != nil {
		return err
	}
	resp, err := i.server.Main().Call(ctx, req, nil)
	if err != nil {
		return err
	}
	if e := resp.RPCError(); e != nil {
		if protocol.Ours(e) {
			return e
		}
		return nil // it refuses, but it is there
	}
	i.up.lists.learn(resp, found == protocol.Modern)
	return nil
}
