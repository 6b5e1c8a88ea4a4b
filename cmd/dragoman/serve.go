package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// serve lets clients to a server through all its doors, until ctx ends. It owns
// the entrances.
func serve(ctx context.Context, s *settings, what *served, entrances []*entrance, v *voice) error {
	defer closeEntrances(entrances)
	exposed := slices.ContainsFunc(entrances, (*entrance).exposed)
	var hosts []string
	if exposed {
		hosts = ownNames()
	}
	handler, doors, err := newDoors(s, what, hosts, v.log)
	if err != nil {
		return err
	}
	web := newHTTPServer(handler, v.log)
	lines := &stdio.Server{Acceptor: what.acceptor, Options: &stdio.Options{MaxMessage: s.maxMessage, Logger: v.log}}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, e := range entrances {
		// Ends with the servers below, or when it cannot accept any more, which
		// ends us.
		running.Go(func() {
			err := error(nil)
			if e.http {
				err = web.Serve(e)
			} else {
				err = lines.Serve(e)
			}
			if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, stdio.ErrServerClosed) {
				cancel(err)
			}
		})
	}
	// Ends at the end of standard input, which ends nothing else, or with ctx.
	running.Go(func() {
		ignoreTerminalStops()
		opts := &stdio.Options{MaxMessage: s.maxMessage, Logger: v.log}
		if err := stdio.Serve(ctx, what.acceptor, opts); err != nil && ctx.Err() == nil {
			v.log.Debug("standard input is not served any more", "error", err)
		}
	})
	if exposed {
		v.say("warning: everybody who can reach this machine can use the server: there is no authentication")
	}
	announce(s, what, entrances, v)
	<-ctx.Done()
	shutDown(ctx, doors, web, lines, v)
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// shutDown lets what is under way end, for a while, and ends the rest.
func shutDown(ctx context.Context, doors []stopper, web *http.Server, lines *stdio.Server, v *voice) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var stopping sync.WaitGroup
	for _, d := range doors {
		// Ends when the door is shut, which limit bounds.
		stopping.Go(func() {
			if err := d.Shutdown(limit); err != nil {
				v.log.Warn("requests under way were cut", "error", err)
			}
		})
	}
	stopping.Go(func() { _ = lines.Close() }) // it never fails
	stopping.Wait()
	if web.Shutdown(limit) != nil {
		_ = web.Close() // whoever is left has had the time
	}
}
