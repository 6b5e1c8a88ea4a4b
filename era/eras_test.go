package era_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestServerOfBothErasIsSpokenToInTheEraOfEachClient(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("its era is known: %v", known), func(t *testing.T) {
			u := serving(protocol.LatestLegacy, protocol.Latest)
			s := start(t, &era.Server{Dialer: u})
			if known {
				if found, err := s.Start(t.Context()); err != nil || found != protocol.Modern {
					t.Fatalf("got the %s era, error %v", found, err)
				}
			}
			old := join(t, s, protocol.LatestLegacy)
			old.echo()
			if u.saw(protocol.MethodInitialize) != 1 {
				t.Errorf("a legacy client was not passed on: the server saw %q", u.asked)
			}
			join(t, s, protocol.Latest).echo()
			if u.saw(protocol.MethodInitialize) != 1 {
				t.Errorf("a modern client was not served in its era: the server saw %q", u.asked)
			}
		})
	}
}

func TestLegacySessionBehindAUnionIsServedInItsOwnEraToo(t *testing.T) {
	for name, c := range map[string]struct {
		revisions []protocol.Revision
		sessions  int
	}{
		"both eras":   {[]protocol.Revision{protocol.LatestLegacy, protocol.Latest}, 1},
		"modern only": {[]protocol.Revision{protocol.Latest}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			u := serving(c.revisions...)
			s := start(t, &era.Server{Dialer: u})
			// That is how a union passes on what a legacy client asks.
			ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "here", Client: "c", Session: "1"})
			for range 2 {
				client := &client{t: t, revision: protocol.Latest, peer: s.Requests()}
				resp, err := client.request(ctx, protocol.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`)
				if err != nil || resp.IsError() {
					t.Fatalf("%v, error %v", resp, err)
				}
			}
			if got := u.saw(protocol.MethodInitialize); got != c.sessions {
				t.Errorf("the server was asked %d times to initialize, want %d", got, c.sessions)
			}
			open := u.open()
			s.End(ctx)
			eventually(t, "what the session had open is closed", func() bool { return u.open() < open })
		})
	}
}

func TestModernOnlyServerServesLegacyClientsThatTriedTheirOwnEraFirst(t *testing.T) {
	u := serving(protocol.Latest)
	s := start(t, &era.Server{Dialer: u})
	for range 3 {
		join(t, s, protocol.LatestLegacy).echo()
	}
	if got := u.saw(protocol.MethodInitialize); got != 1 {
		t.Errorf("the server was asked %d times to initialize, want once", got)
	}
}

func TestModernServerIsSharedByNobodyWhoIsKeptApart(t *testing.T) {
	for name, c := range map[string]struct {
		isolation era.Isolation
		stateless bool
		want      int
	}{
		"sessions": {era.PerSession, false, 2}, "callers": {era.PerCaller, false, 2},
		"shared": {era.Shared, false, 1}, "over HTTP": {era.PerSession, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			u := serving(protocol.Latest)
			s := start(t, &era.Server{Dialer: u, Isolation: c.isolation, Stateless: c.stateless})
			for _, who := range []string{"ann", "bob", "ann", "bob"} {
				ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "here", Client: who})
				resp, err := (&client{t: t, revision: protocol.Latest, peer: s.Requests()}).request(ctx, protocol.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`)
				if err != nil || resp.IsError() {
					t.Fatalf("%v, error %v", resp, err)
				}
			}
			if got := u.open(); got != c.want {
				t.Errorf("%d conversations, want %d", got, c.want)
			}
		})
	}
}

func TestServerThatComesBackInAnotherEra(t *testing.T) {
	eras := map[protocol.Era]protocol.Revision{protocol.Legacy: protocol.LatestLegacy, protocol.Modern: protocol.Latest}
	for before, after := range map[protocol.Era]protocol.Era{protocol.Legacy: protocol.Modern, protocol.Modern: protocol.Legacy} {
		t.Run(fmt.Sprintf("%s, then %s", before, after), func(t *testing.T) {
			u := serving(eras[before])
			s := start(t, &era.Server{Dialer: u})
			if _, err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			clients := []*client{join(t, s, protocol.Latest)}
			for _, c := range clients {
				c.echo()
			}
			u.fail()
			u.acceptor = serving(eras[after]).acceptor
			for _, c := range clients {
				c.echo()
			}
			join(t, s, protocol.LatestLegacy).echo()
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("Ping: %v", err)
			}
		})
	}
}

func TestLegacySessionCrossesOverWhenAModernServerTakesNoMoreThanItsHandshake(t *testing.T) {
	u := serving(protocol.Latest)
	modern := u.acceptor
	u.acceptor = dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
		peer, err := modern.Accept(ctx, client)
		return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			switch {
			case req.Method() == protocol.MethodInitialize:
				return dragoman.NewResult(req.ID(), json.RawMessage(`{"protocolVersion":"`+protocol.LatestLegacy.String()+`","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`))
			case !protocol.IsModern(req):
				return nil, errors.New("nothing without an envelope")
			}
			return peer.Call(ctx, req, from)
		}}, err
	})
	s := start(t, &era.Server{Dialer: u})
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	join(t, s, protocol.LatestLegacy).echo()
}

func TestLegacySessionContinuesWithAServerThatComesBackInAnotherRevision(t *testing.T) {
	for _, after := range protocol.Revisions() {
		if after == protocol.LatestLegacy {
			continue
		}
		t.Run(after.String(), func(t *testing.T) {
			u := serving(protocol.LatestLegacy)
			s := start(t, &era.Server{Dialer: u})
			c := join(t, s, protocol.LatestLegacy)
			c.must(protocol.MethodSubscribe, `{"uri":"test://watched-resource"}`)
			c.echo()
			u.acceptor = serving(after).acceptor
			u.fail()
			c.echo()
			reminded := c.count(protocol.NoteResourceUpdated)
			if reminded == 0 {
				t.Error("the client was not told that the resource may have changed")
			}
			eventually(t, "the client is told of an update", func() bool {
				c.must(protocol.MethodCallTool, `{"name":"update_resource","arguments":{}}`)
				return c.count(protocol.NoteResourceUpdated) > reminded
			})
		})
	}
}

func TestServerThatHangsAtTheProbeIsGreetedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built := serving(protocol.LatestLegacy)
		var probed atomic.Int32
		u := &upstream{acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			peer, err := built.acceptor.Accept(ctx, client)
			var hung atomic.Bool
			return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodDiscover {
					hung.Store(true)
					probed.Add(1)
				}
				if hung.Load() {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return peer.Call(ctx, req, from)
			}, OnNotify: peer.Notify}, err
		})}
		s := &era.Server{Dialer: u, ProbeTimeout: 2 * time.Second}
		defer s.Close()
		began := time.Now()
		found, err := s.Start(t.Context())
		if err != nil || found != protocol.Legacy || time.Since(began) != 2*time.Second {
			t.Errorf("got the %s era after %v, error %v", found, time.Since(began), err)
		}
		join(t, s, protocol.Latest).echo()
		if probed.Load() != 1 {
			t.Errorf("it was probed %d times", probed.Load())
		}
	})
}

func TestServerThatStartsSlowlyIsNotStoppedForIt(t *testing.T) {
	for name, list := range map[string][]protocol.Revision{
		"legacy": {protocol.LatestLegacy}, "modern": {protocol.Latest}, "both": {protocol.Latest, protocol.LatestLegacy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, built := list[0], serving(list...)
				u := &upstream{acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
					up := time.Now().Add(10 * time.Second)
					peer, err := built.acceptor.Accept(ctx, client)
					return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
						time.Sleep(time.Until(up))
						return peer.Call(ctx, req, from)
					}, OnNotify: peer.Notify}, err
				})}
				s := &era.Server{Dialer: u, ProbeTimeout: 2 * time.Second}
				defer s.Close()
				began := time.Now()
				found, err := s.Start(t.Context())
				if err != nil || found != r.Era() || time.Since(began) != 10*time.Second {
					t.Errorf("got the %s era after %v, error %v", found, time.Since(began), err)
				}
				join(t, s, r).echo()
				if took := time.Since(began); took != 10*time.Second || u.dials() > 2 {
					t.Errorf("the first answer came after %v, of one of %d servers", took, u.dials())
				}
				time.Sleep(20 * time.Second)
				if n := u.open(); n != 1 && r == protocol.Latest { // a legacy server keeps the session of our own
					t.Errorf("%d conversations are left open, want one", n)
				}
			})
		})
	}
}

func TestLegacyClientIsNotMadeToWaitForAProbe(t *testing.T) {
	u := serving(protocol.LatestLegacy)
	s := start(t, &era.Server{Dialer: u})
	join(t, s, protocol.LatestLegacy).echo()
	if u.saw(protocol.MethodDiscover) != 0 || u.dials() != 1 {
		t.Errorf("%d dials; the server saw %q", u.dials(), u.asked)
	}
}
