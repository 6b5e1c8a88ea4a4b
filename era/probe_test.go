package era_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// ending is a server that ends when it is asked for one of some methods.
func ending(r protocol.Revision, methods ...string) *upstream {
	built := serving(r)
	return &upstream{acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		peer, err := built.acceptor.Accept(ctx, client)
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if slices.Contains(methods, req.Method()) {
				_ = client.Close()
				return nil, dragoman.ErrClosed
			}
			return peer.Call(ctx, req, from)
		}, OnNotify: peer.Notify}, err
	})}
}

func TestLegacyServerThatEndsAtTheProbeIsGreetedOnAnotherConversation(t *testing.T) {
	u := ending(protocol.LatestLegacy, protocol.MethodDiscover)
	s := start(t, &era.Server{Dialer: u})
	if got, err := s.Start(t.Context()); err != nil || got != protocol.Legacy {
		t.Errorf("got %v, error %v", got, err)
	}
	if u.dials() != 2 || u.saw(protocol.MethodDiscover) != 1 {
		t.Errorf("%d dials; the server saw %q", u.dials(), u.asked)
	}
	for _, r := range protocol.Revisions() {
		join(t, s, r).echo()
	}
}

func TestServerIsGreetedWhateverItSaysToTheProbe(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(*dragoman.Message) (*dragoman.Message, error)
		bad    string
	}{
		"refuses the revision and names none": {func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeUnsupported, Message: "no"}), nil
		}, ""},
		"refuses the revision and names others": {func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeUnsupported, Message: "no", Data: []byte(`{"supported":["2099-01-01"]}`)}), nil
		}, "no revision that we know"},
		"refuses the revision and names nothing in a list": {func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeUnsupported, Message: "no", Data: []byte(`{"supported":[]}`)}), nil
		}, "no revision that we know"},
		"fails":          {func(*dragoman.Message) (*dragoman.Message, error) { return nil, &protocol.StatusError{Status: 500} }, ""},
		"is not reached": {func(*dragoman.Message) (*dragoman.Message, error) { return nil, &protocol.StatusError{Status: 503} }, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			built := serving(protocol.LatestLegacy)
			s := start(t, &era.Server{Dialer: dragoman.Local(dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
				peer, err := built.acceptor.Accept(ctx, client)
				return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
					if req.Method() == protocol.MethodDiscover {
						return c.answer(req)
					}
					return peer.Call(ctx, req, from)
				}, OnNotify: peer.Notify}, err
			}))})
			got, err := s.Start(t.Context())
			if c.bad != "" {
				if err == nil || !strings.Contains(err.Error(), c.bad) {
					t.Errorf("got %v, error %v", got, err)
				}
				return
			}
			if err != nil || got != protocol.Legacy {
				t.Fatalf("got %v, error %v", got, err)
			}
			join(t, s, protocol.Latest).echo()
		})
	}
}

func TestProbeAndHandshakeTakeTurnsWithAServerThatKeepsEnding(t *testing.T) {
	u := ending(protocol.LatestLegacy, protocol.MethodDiscover, protocol.MethodInitialize)
	errLater := errors.New("not now")
	may := 0 // how many dials may succeed
	s := start(t, &era.Server{Dialer: dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		if may == 0 {
			return nil, errLater
		}
		may--
		return u.Dial(ctx, local)
	})})
	for range 2 {
		for _, method := range []string{protocol.MethodDiscover, protocol.MethodInitialize} {
			before := u.saw(method)
			may = 1
			if got, err := s.Start(t.Context()); err == nil {
				t.Fatalf("a server that ends is taken to be of the %v era", got)
			}
			if u.saw(method) != before+1 {
				t.Errorf("the server saw %q, want %s last", u.asked, method)
			}
			if _, err := s.Start(t.Context()); err == nil { // nothing is dialled, so nothing is learned
				t.Fatal("a server that cannot be dialled has an era")
			}
		}
	}
	if u.dials() != 4 || len(u.asked) != 4 {
		t.Errorf("%d dials; the server saw %q", u.dials(), u.asked)
	}
	// One that is well again is told by the answer to the probe.
	u.acceptor, may = serving(protocol.Latest).acceptor, 1
	if got, err := s.Start(t.Context()); err != nil || got != protocol.Modern {
		t.Errorf("got %v, error %v", got, err)
	}
}

func TestServerThatNeverAnswersIsStartedOnceInEachAttemptAfterTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
			return dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}}, nil
		})}
		s := &era.Server{Dialer: u, ProbeTimeout: 2 * time.Second, DialTimeout: 10 * time.Second}
		defer s.Close()
		for attempt, want := range []int{2, 3, 4, 5, 6} {
			if got, err := s.Start(t.Context()); err == nil {
				t.Fatalf("it is of the %s era", got)
			}
			if got := u.dials(); got != want {
				t.Errorf("%d conversations after attempt %d, want %d", got, attempt+1, want)
			}
			time.Sleep(time.Minute)
		}
		// One that is well again is told by the answer to the probe, or to the handshake.
		u.acceptor = serving(protocol.Latest, protocol.LatestLegacy).acceptor
		if _, err := s.Start(t.Context()); err != nil {
			t.Error(err)
		}
		join(t, s, protocol.Latest).echo()
	})
}

// Where callers pass something on to the server, it may refuse one of them and not the
// other.
func TestCallerThatTheServerRefusesDoesNotSpeakForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("who are you?")
		s := &era.Server{Dialer: serving(protocol.Latest), Stateless: true, Probe: func(ctx context.Context) (protocol.Era, error) {
			time.Sleep(time.Second)
			if dragoman.CallerOf(ctx).Passed == "bad" {
				return 0, refused
			}
			return protocol.Modern, nil
		}}
		defer s.Close()
		call := func(passed string) <-chan bool {
			done := make(chan bool, 1)
			ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "here", Passed: passed})
			go func() {
				c := &client{t: t, revision: protocol.Latest, peer: s.Requests()}
				resp, err := c.request(ctx, protocol.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`)
				done <- err == nil && !resp.IsError()
			}()
			synctest.Wait()
			return done
		}
		bad, good := call("bad"), call("good")
		if !<-good {
			t.Error("one caller gets what the server said to another")
		}
		<-bad
	})
}

func TestWhatSendsBackWhatItIsSentIsNoServer(t *testing.T) {
	u := &upstream{acceptor: dragoman.AcceptFunc(func(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return client.Call(ctx, req, nil) // and our answer is its answer
		}}, nil
	})}
	if got, err := start(t, &era.Server{Dialer: u}).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "it sends back what it is sent") {
		t.Errorf("got %v, error %v", got, err)
	}
}
