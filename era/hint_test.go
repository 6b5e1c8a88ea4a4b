package era_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestServerThatWasLegacyIsSentAnInitializeFirst(t *testing.T) {
	for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(r.String(), func(t *testing.T) {
			u := ending(protocol.LatestLegacy, protocol.MethodDiscover)
			s := start(t, &era.Server{Dialer: u, Hint: new(protocol.Legacy)})
			if got, err := s.Start(t.Context()); err != nil || got != protocol.Legacy {
				t.Errorf("got %v, error %v", got, err)
			}
			if u.dials() != 1 || len(u.asked) != 0 {
				t.Errorf("%d dials; the server saw %q before there is a client", u.dials(), u.asked)
			}
			join(t, s, r).echo()
			if u.dials() != 1 || u.asked[0] != protocol.MethodInitialize || u.saw(protocol.MethodPing) != 0 {
				t.Errorf("%d dials; the server saw %q", u.dials(), u.asked)
			}
		})
	}
}

func TestWrongHintIsCorrected(t *testing.T) {
	for _, test := range []struct {
		name   string
		hint   protocol.Era
		server func() *upstream
		want   protocol.Era
	}{
		{"modern, was legacy", protocol.Legacy, func() *upstream { return serving(protocol.Latest) }, protocol.Modern},
		{"modern and ends at a handshake, was legacy", protocol.Legacy, func() *upstream { return ending(protocol.Latest, protocol.MethodInitialize) }, protocol.Modern},
		{"legacy, was modern", protocol.Modern, func() *upstream { return serving(protocol.LatestLegacy) }, protocol.Legacy},
		{"legacy and ends when it is pinged", protocol.Legacy, func() *upstream { return ending(protocol.LatestLegacy, protocol.MethodPing) }, protocol.Legacy},
		{"legacy and ends at the probe, was modern", protocol.Modern, func() *upstream { return ending(protocol.LatestLegacy, protocol.MethodDiscover) }, protocol.Legacy},
		{"legacy and silent before the handshake, was modern", protocol.Modern, func() *upstream { return silent(protocol.LatestLegacy, 0) }, protocol.Legacy},
	} {
		for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
			t.Run(test.name+", "+r.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var told []protocol.Era
					s := start(t, &era.Server{Dialer: test.server(), Hint: &test.hint, OnEra: func(e protocol.Era) { told = append(told, e) }})
					if _, err := s.Start(t.Context()); err != nil {
						t.Error(err)
					}
					join(t, s, r).echo()
					if got, ok := s.Found(); !ok || got != test.want || told[len(told)-1] != test.want {
						t.Errorf("found is %v, told %v, want %v", got, told, test.want)
					}
				})
			})
		}
	}
}

// silent is a server that ignores what comes before an initialize, and reads nothing before some
// time has passed. Its connections know what it has read, as those with processes do.
func silent(r protocol.Revision, starts time.Duration) *upstream {
	built, began := serving(r), time.Now()
	return &upstream{reads: func() bool { return time.Since(began) >= starts }, acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		var ready atomic.Bool
		peer, err := built.acceptor.Accept(ctx, client)
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			time.Sleep(starts - time.Since(began))
			if req.Method() == protocol.MethodInitialize {
				ready.Store(true)
			} else if !ready.Load() {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return peer.Call(ctx, req, from)
		}, OnNotify: peer.Notify}, err
	})}
}

func TestServerThatIsSilentBeforeTheHandshakeIsStartedOnceAndSoon(t *testing.T) {
	for name, starts := range map[string]time.Duration{"at once": 0, "a slow starter": 20 * time.Second} {
		for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
			t.Run(name+", "+r.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					u := silent(protocol.LatestLegacy, starts)
					s := start(t, &era.Server{Dialer: u})
					if got, err := s.Start(t.Context()); err != nil || got != protocol.Legacy {
						t.Errorf("got %v, error %v", got, err)
					}
					join(t, s, r).echo()
					if took := time.Since(began) - starts; u.dials() != 1 || took > 2*time.Second {
						t.Errorf("%d dials; %v passed since it reads", u.dials(), took)
					}
				})
			})
		}
	}
}

func TestServerThatEndsAfterItsSilenceIsGreetedOnAnotherConversation(t *testing.T) {
	for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(r.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				built := serving(protocol.LatestLegacy)
				u := &upstream{reads: func() bool { return true }, acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
					var broken atomic.Bool
					peer, err := built.acceptor.Accept(ctx, client)
					return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
						switch {
						case req.Method() == protocol.MethodDiscover:
							broken.Store(true)
							<-ctx.Done()
							return nil, context.Cause(ctx)
						case broken.Load():
							_ = client.Close()
							return nil, dragoman.ErrClosed
						}
						return peer.Call(ctx, req, from)
					}, OnNotify: peer.Notify}, err
				})}
				s := start(t, &era.Server{Dialer: u})
				if got, err := s.Start(t.Context()); err != nil || got != protocol.Legacy {
					t.Errorf("got %v, error %v", got, err)
				}
				join(t, s, r).echo()
				if u.saw(protocol.MethodDiscover) != 1 || u.saw(protocol.MethodInitialize) > 3 {
					t.Errorf("%d dials; the server saw %q", u.dials(), u.asked)
				}
			})
		})
	}
}

// Servers of the Python SDK take a method that they do not know for an invalid request.
func TestServerThatTakesTheProbeForAnInvalidRequestIsStartedOnce(t *testing.T) {
	for _, code := range []int{protocol.CodeMethodNotFound, protocol.CodeInvalidRequest, protocol.CodeInvalidParams} {
		for _, bears := range []bool{true, false} {
			if code == protocol.CodeMethodNotFound && !bears {
				continue // all that answer so bear it
			}
			for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
				t.Run(fmt.Sprintf("%d, bears it %t, %s", code, bears, r), func(t *testing.T) {
					built := serving(protocol.LatestLegacy)
					u := &upstream{acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
						var probed atomic.Bool
						peer, err := built.acceptor.Accept(ctx, client)
						return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
							switch {
							case req.Method() == protocol.MethodDiscover:
								probed.Store(true)
								return req.Fail(&dragoman.Error{Code: code, Message: "no"}), nil
							case probed.Load() && !bears:
								_ = client.Close()
								return nil, dragoman.ErrClosed
							}
							return peer.Call(ctx, req, from)
						}, OnNotify: peer.Notify}, err
					})}
					s := start(t, &era.Server{Dialer: u})
					if got, err := s.Start(t.Context()); err != nil || got != protocol.Legacy {
						t.Errorf("got %v, error %v", got, err)
					}
					join(t, s, r).echo()
					if bears && u.dials() != 1 {
						t.Errorf("it was started %d times", u.dials())
					}
				})
			}
		}
	}
}

func TestModernServerThatWasTakenForSilentIsUsedInItsEra(t *testing.T) {
	for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(r.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := slowly(serving(protocol.Latest), 3*time.Second)
				u.reads = func() bool { return true }
				s := start(t, &era.Server{Dialer: u})
				if _, err := s.Start(t.Context()); err != nil {
					t.Error(err)
				}
				join(t, s, r).echo()
				if got, ok := s.Found(); !ok || got != protocol.Modern || u.dials() > 3 || u.saw(protocol.MethodInitialize) > 2 {
					t.Errorf("found is %v, %d dials; the server saw %q", got, u.dials(), u.asked)
				}
			})
		})
	}
}

// slowly is a server that answers nothing before some time has passed.
func slowly(u *upstream, after time.Duration) *upstream {
	built := u.acceptor
	return &upstream{acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		began := time.Now()
		peer, err := built.Accept(ctx, client)
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			time.Sleep(after - time.Since(began))
			return peer.Call(ctx, req, from)
		}, OnNotify: peer.Notify}, err
	})}
}

func TestServerThatWasModernIsLeftItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := slowly(serving(protocol.Latest), 20*time.Second)
		s := &era.Server{Dialer: u, Hint: new(protocol.Modern), ProbeTimeout: 2 * time.Second}
		defer s.Close()
		if got, err := s.Start(t.Context()); err != nil || got != protocol.Modern || u.dials() != 1 {
			t.Errorf("got %v, error %v, %d dials", got, err, u.dials())
		}
	})
}
