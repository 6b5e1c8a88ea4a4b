package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// An ingress is where clients come in: sockets, and standard input and output.
type ingress struct {
	listeners []*listener
	handler   func(*listener) http.Handler // who answers over HTTP there
	acceptor  dragoman.Acceptor            // who is given conversations on plain streams
	room      *limit.Bytes                 // of what connections over HTTP hold of large requests; may be nil

	auth *config.Auth // who may come in

	// socketCaller returns who is on the other side of a plain socket, or refuses it.
	socketCaller func(net.Conn) (*dragoman.Caller, error)
	options      *stdio.Options // of those

	stdio   bool // standard input and output are served
	endless bool // the end of standard input does not end us

	// shutdown takes no new work, lets requests in flight end until its context
	// does, and ends the rest. It shuts what it is given at the same time, before the
	// servers are stopped. drain is how long requests may take.
	shutdown func(ctx context.Context, own ...func(context.Context) error) error
	drain    time.Duration
}

// finalWriteTime is how long the answers of requests that were cut may take to reach
// their clients.
const finalWriteTime = time.Second

// heapFloor is memory that the collector counts and nobody touches, so that it takes
// up none. Under load most memory is garbage of requests; with a live heap of few
// megabytes alone it would be collected dozens of times a second, which costs a
// sixth of the processor time. The process may become larger by as much.
const heapFloor = 16 << 20

// serve lets clients in until ctx ends. It owns the listeners.
func (f *ingress) serve(ctx context.Context, v *term.Console) error {
	defer closeListeners(f.listeners)
	defer watchLimits(v.Log)()
	for _, e := range f.listeners {
		e.warn(f.auth, v)
	}
	floor := make([]byte, min(heapFloor, debug.SetMemoryLimit(-1)/16)) // little of a small limit
	defer runtime.KeepAlive(floor)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := &stdio.Server{Acceptor: f.acceptor, Options: f.options, Caller: f.socketCaller}
	var (
		running sync.WaitGroup
		webs    []*httpserver.Server
	)
	for _, e := range f.listeners {
		serve := lines.Serve
		if e.http {
			e.proxies.Mistakes = httpserver.NewMistakes(v.Log)
			web := httpserver.New(e.proxies.Handler(f.handler(e)), &httpserver.Options{Certificate: e.cert, ConnContext: auth.WithPeer, OnlyNetHTTP: e.slow, Room: f.room, Logger: v.Log})
			webs = append(webs, web)
			serve = web.Serve
		}
		// Ends with the servers, or when it cannot accept any more, which ends us.
		running.Go(func() {
			if err := serve(e); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, stdio.ErrServerClosed) {
				cancel(err)
			}
		})
	}
	if f.stdio {
		// Ends at the end of standard input, or with the lines.
		running.Go(func() {
			ignoreTerminalStops()
			if err := lines.ServeIO(os.Stdin, os.Stdout); err != nil && !errors.Is(err, stdio.ErrServerClosed) {
				v.Log.Debug("standard input is not served any more", "error", err)
			}
			if !f.endless {
				cancel(context.Canceled)
			}
		})
	}
	notifyManager(v, notifyReady)
	<-ctx.Done()
	notifyManager(v, notifyStopping)
	f.stop(ctx, webs, lines, v)
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// stop lets what is in flight end, for a while, and ends the rest. Who asks for it
// once more does not want to wait.
func (f *ingress) stop(ctx context.Context, webs []*httpserver.Server, lines *stdio.Server, v *term.Console) {
	ctx = context.WithoutCancel(ctx)
	limit, cancel := context.WithTimeout(ctx, f.drain)
	defer cancel()
	limit, ignore := signal.NotifyContext(limit, os.Interrupt, syscall.SIGTERM)
	defer ignore()
	if err := f.shutdown(limit, lines.Shutdown); err != nil {
		v.Log.Warn("requests in flight were cut", "error", err)
	}
	last, cancel := context.WithTimeout(ctx, finalWriteTime)
	defer cancel()
	for _, web := range webs {
		if web.Shutdown(last) != nil {
			_ = web.Close() // whoever is left has had the time
		}
	}
}
