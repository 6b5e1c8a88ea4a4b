package era_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func start(t *testing.T, s *era.Server) *era.Server {
	t.Helper()
	peertest.NoLeak(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestEveryClientReachesEveryServer(t *testing.T) {
	for _, server := range protocol.Revisions() {
		for _, isolation := range []era.Isolation{era.PerSession, era.PerCaller, era.Shared, era.PerRequest} {
			for _, r := range protocol.Revisions() {
				t.Run(fmt.Sprintf("%s client, %s server, isolation %d", r, server, isolation), func(t *testing.T) {
					s := start(t, &era.Server{Dialer: serving(server), Isolation: isolation})
					join(t, s, r).echo()
				})
			}
		}
	}
}

func TestEraIsFoundByAsking(t *testing.T) {
	const discover = `{"supportedVersions":[%s],"capabilities":{},"resultType":"complete"}`
	legacy, modern := protocol.LatestLegacy.String(), protocol.Latest.String()
	fail := func(code int, data string) func(*dragoman.Message) (*dragoman.Message, error) {
		return func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: code, Message: "no", Data: []byte(data)}), nil
		}
	}
	says := func(versions string) func(*dragoman.Message) (*dragoman.Message, error) {
		return func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Reply([]byte(fmt.Sprintf(discover, versions)))
		}
	}
	for name, c := range map[string]struct {
		answer func(*dragoman.Message) (*dragoman.Message, error)
		want   protocol.Era
		bad    bool
	}{
		"a modern server":                     {says(`"` + modern + `"`), protocol.Modern, false},
		"a server of both eras":               {says(`"` + legacy + `","` + modern + `"`), protocol.Modern, false},
		"a discover with legacy ones":         {says(`"` + legacy + `"`), protocol.Legacy, false},
		"a discover from the future":          {says(`"2099-01-01"`), 0, true},
		"unsupported, but another modern one": {fail(protocol.CodeUnsupported, `{"supported":["`+modern+`"]}`), protocol.Modern, false},
		"unsupported, legacy ones":            {fail(protocol.CodeUnsupported, `{"supported":["`+legacy+`"]}`), protocol.Legacy, false},
		"unsupported, none that we know":      {fail(protocol.CodeUnsupported, `{"supported":["2099-01-01"]}`), 0, true},
		"no such method":                      {fail(protocol.CodeMethodNotFound, `null`), protocol.Legacy, false},
		"not initialized":                     {fail(-32000, `null`), protocol.Legacy, false},
		"code 0":                              {fail(0, `null`), protocol.Legacy, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := &upstream{acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
				return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
					return c.answer(req)
				}}, nil
			})}
			got, err := start(t, &era.Server{Dialer: u}).Start(t.Context())
			if got != c.want || (err != nil) != c.bad || c.bad && !errors.Is(err, era.ErrNoRevision) {
				t.Errorf("got %v, error %v", got, err)
			}
		})
	}
}

func TestServerThatDoesNotAnswerTheProbeIsLegacy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built := serving(protocol.LatestLegacy)
		deaf := &upstream{acceptor: dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			peer, err := built.acceptor.Accept(ctx, client)
			return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodDiscover {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return peer.Call(ctx, req, from)
			}, OnNotify: peer.Notify}, err
		})}
		s := &era.Server{Dialer: deaf}
		defer s.Close()
		began := time.Now()
		got, err := s.Start(t.Context())
		if err != nil || got != protocol.Legacy || time.Since(began) != era.DefaultProbeTimeout {
			t.Errorf("got %v, error %v after %v", got, err, time.Since(began))
		}
		join(t, s, protocol.Latest).echo()
	})
}

func TestServerThatIsNotThereIsReportedAndTriedAgain(t *testing.T) {
	built, there := serving(protocol.LatestLegacy), false
	s := start(t, &era.Server{Dialer: dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		if !there {
			return nil, errors.New("nobody listens")
		}
		return built.Dial(ctx, local)
	})})
	if _, err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("Start: got %v", err)
	}
	c := &client{t: t, revision: protocol.Latest, peer: s.Requests()}
	resp, err := c.request(t.Context(), protocol.MethodListTools, `{}`)
	if codeOf(resp, err) != protocol.CodeUnavailable || !strings.Contains(resp.RPCError().Message, "nobody listens") {
		t.Errorf("got %v, error %v", resp, err)
	}
	there = true
	c.echo()
}

func TestSessionOutlivesTheLossOfItsServer(t *testing.T) {
	u := serving(protocol.LatestLegacy)
	s := start(t, &era.Server{Dialer: u})
	c := join(t, s, protocol.LatestLegacy)
	c.must(protocol.MethodSetLevel, `{"level":"error"}`)
	c.must(protocol.MethodSubscribe, `{"uri":"test://watched-resource"}`)
	before := u.dials()
	u.fail()
	c.echo()
	if u.dials() != before+1 || u.saw(protocol.MethodInitialize) != 2 || u.saw(protocol.NoteInitialized) != 2 ||
		u.saw(protocol.MethodSetLevel) != 2 || u.saw(protocol.MethodSubscribe) != 2 {
		t.Errorf("%d dials; the server saw %q", u.dials(), u.asked)
	}
	for _, note := range []string{protocol.NoteToolsChanged, protocol.NotePromptsChanged, protocol.NoteResourcesChanged, protocol.NoteResourceUpdated} {
		if !c.hears(note) {
			t.Errorf("the client was not told %s", note)
		}
	}
	c.must(protocol.MethodCallTool, `{"name":"update_resource","arguments":{}}`)
}

func TestToolThatRunsWhenTheServerIsLostIsNotRunAgain(t *testing.T) {
	for _, r := range protocol.Revisions() {
		t.Run(r.String()+" server", func(t *testing.T) {
			u := serving(r)
			s := start(t, &era.Server{Dialer: u})
			for _, from := range []protocol.Revision{protocol.Latest, protocol.LatestLegacy} {
				c := join(t, s, from)
				c.echo()
				ran := u.saw(protocol.MethodCallTool)
				done := make(chan error, 1)
				go func() { // ends when the call does, which the loss brings about
					resp, err := c.request(t.Context(), protocol.MethodCallTool, `{"name":"wait","arguments":{}}`)
					if err == nil && resp.IsError() {
						err = resp.RPCError()
					}
					done <- err
				}()
				eventually(t, "the tool runs", func() bool { return u.saw(protocol.MethodCallTool) == ran+1 })
				u.fail()
				if err := <-done; !errors.Is(err, dragoman.ErrClosed) && codeOf(nil, err) != protocol.CodeLost {
					t.Errorf("%s client: got %v", from, err)
				}
				c.echo()
				if got := u.saw(protocol.MethodCallTool); got != ran+2 {
					t.Errorf("%s client: tools were called %d times, not twice", from, got-ran)
				}
			}
		})
	}
}

func TestCallThatTheServerRefusedForItsSessionIsSentAgain(t *testing.T) {
	for _, server := range []protocol.Revision{protocol.Latest, protocol.LatestLegacy} {
		for _, from := range []protocol.Revision{protocol.Latest, protocol.LatestLegacy} {
			t.Run(fmt.Sprintf("%s client, %s server", from, server), func(t *testing.T) {
				u := serving(server)
				s := start(t, &era.Server{Dialer: u})
				c := join(t, s, from)
				c.echo()
				ran := u.saw(protocol.MethodCallTool)
				u.forget()
				c.echo()
				if got := u.saw(protocol.MethodCallTool); got != ran+1 {
					t.Errorf("tools were called %d times, not once", got-ran)
				}
			})
		}
	}
}

func TestIsolationSaysWhoSharesASession(t *testing.T) {
	for _, c := range []struct {
		isolation era.Isolation
		clients   []protocol.Revision
		want      int
	}{
		{era.PerSession, []protocol.Revision{protocol.V20241105, protocol.LatestLegacy, protocol.LatestLegacy}, 3},
		{era.PerSession, []protocol.Revision{protocol.Latest, protocol.Latest}, 1},
		{era.Shared, []protocol.Revision{protocol.LatestLegacy, protocol.LatestLegacy, protocol.V20241105}, 1},
		{era.PerCaller, []protocol.Revision{protocol.LatestLegacy, protocol.Latest}, 1},
	} {
		t.Run(fmt.Sprintf("isolation %d, clients %v", c.isolation, c.clients), func(t *testing.T) {
			u := serving(protocol.LatestLegacy)
			s := start(t, &era.Server{Dialer: u, Isolation: c.isolation})
			for range 2 {
				for _, r := range c.clients {
					join(t, s, r).echo()
				}
			}
			want := c.want
			if c.isolation == era.PerSession && c.clients[0] != protocol.Latest {
				want *= 2
			}
			if got := u.saw(protocol.MethodInitialize); got > want || got == 0 {
				t.Errorf("%d sessions, want %d", got, want)
			}
		})
	}
}

func TestCallersDoNotShare(t *testing.T) {
	u := serving(protocol.LatestLegacy)
	s := start(t, &era.Server{Dialer: u, Isolation: era.PerCaller})
	for _, who := range []string{"ann", "bob", "ann", "bob"} {
		c := &client{t: t, revision: protocol.Latest, peer: s.Requests()}
		resp, err := c.request(dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "here", Client: who}), protocol.MethodCallTool, `{"name":"echo","arguments":{"text":"x"}}`)
		if err != nil || resp.IsError() {
			t.Fatalf("%v, error %v", resp, err)
		}
	}
	if got := u.saw(protocol.MethodInitialize); got != 2 {
		t.Errorf("%d sessions for two callers", got)
	}
}

func TestConversationsAreKeptWarm(t *testing.T) {
	u := serving(protocol.LatestLegacy)
	s := start(t, &era.Server{Dialer: u, Warm: 3})
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three conversations are open", func() bool { return u.open() == 3 })
	join(t, s, protocol.LatestLegacy).echo()
	eventually(t, "the one that was taken is replaced", func() bool { return u.open() == 4 })
	if err := s.Close(); err != nil || u.open() != 0 {
		t.Errorf("after Close %d conversations are open, error %v", u.open(), err)
	}
}

func TestServerThatTakesTooLongIsCancelled(t *testing.T) {
	for _, r := range []protocol.Revision{protocol.Latest, protocol.LatestLegacy} {
		t.Run(r.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &era.Server{Dialer: serving(r), Timeout: time.Second}
				defer s.Close()
				c := join(t, s, r)
				began := time.Now()
				resp, err := c.request(t.Context(), protocol.MethodCallTool, `{"name":"wait","arguments":{}}`)
				if err == nil || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, error %v", resp, err)
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("it took %v", took)
				}
				// Progress begins the time again.
				c.must(protocol.MethodCallTool, `{"name":"slow","arguments":{"ms":5000,"steps":10},"_meta":{"progressToken":1}}`)
			})
		})
	}
}

func TestClientGetsTheRevisionItAskedForFromAServerThatSpeaksAnother(t *testing.T) {
	for _, server := range protocol.Revisions() {
		for _, r := range protocol.Revisions() {
			if !r.HasSessions() {
				continue
			}
			t.Run(fmt.Sprintf("%s client, %s server", r, server), func(t *testing.T) {
				s := start(t, &era.Server{Dialer: serving(server)})
				c := join(t, s, r) // fails if it gets another
				resp := c.must(protocol.MethodCallTool, `{"name":"test_audio_content","arguments":{}}`)
				if strings.Contains(string(resp.Get("content")), `"type":"audio"`) && !r.HasAudio() {
					t.Errorf("got %.100s", resp.Get("content"))
				}
			})
		}
	}
}

func TestNothingIsServedAfterClose(t *testing.T) {
	u := serving(protocol.LatestLegacy)
	s := start(t, &era.Server{Dialer: u})
	c := join(t, s, protocol.LatestLegacy)
	m := join(t, s, protocol.Latest)
	c.echo()
	m.echo()
	if err := s.Close(); err != nil || u.open() != 0 {
		t.Errorf("%d conversations are open, error %v", u.open(), err)
	}
	for _, c := range []*client{c, m} {
		if resp, err := c.request(t.Context(), protocol.MethodListTools, `{}`); err == nil && !resp.IsError() {
			t.Errorf("%s client: got %s", c.revision, resp.Bytes())
		}
	}
	if _, err := s.Accept(t.Context(), c.conn); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
}
