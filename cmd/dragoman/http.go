package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// defaultListen is where servers are served unless told otherwise.
	defaultListen = "127.0.0.1:8808"

	// headerTimeout is how long a client may take over the headers of a
	// request, idleTimeout how long a connection may stay unused, maxHeader how
	// large the headers may be, stopTimeout how long requests under way may take
	// when we stop.
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10
	stopTimeout   = 10 * time.Second
)

// A stopper is a door that ends what it has open before its listener does.
type stopper interface{ Shutdown(context.Context) error }

// serveHTTP serves handler on address until ctx ends. ready is called with the
// address once it listens.
func serveHTTP(ctx context.Context, address string, handler http.Handler, log *slog.Logger, ready func(net.Addr), doors ...stopper) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", address, err)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ready(l.Addr())
	stopped := make(chan error, 1)
	// Ends when ctx has ended and everything is stopped.
	go func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		var errs []error
		for _, d := range doors {
			errs = append(errs, d.Shutdown(limit))
		}
		stopped <- errors.Join(append(errs, server.Shutdown(limit))...)
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// healthz says that we are there.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}
