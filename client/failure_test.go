package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// The tests of this file are the ways in which a client fails. The comment says
// what a plain client does, and the test shows that, and what ours does besides.

// failure returns the error as ours, and fails t if it is of another kind.
func failure(t *testing.T, err error, kind client.Kind) *client.Error {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Kind != kind || !errors.Is(err, kind) {
		t.Fatalf("the error is %v, want a %v", err, kind)
	}
	if e.Advice == "" && !strings.Contains(err.Error(), ";") {
		t.Errorf("it does not say what to do: %v", err)
	}
	return e
}

// works fails t if the client is of no use any more.
func works(t *testing.T, c *client.Client) {
	t.Helper()
	if _, err := c.CallTool(within(t), "echo", object{"text": "x"}, nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A malformed line is dropped and the stream continues. Besides: so is an answer
// to nobody, and the call among them has its answer.
func TestD11_D04_MalformedLinesAreDroppedAndTheStreamContinues(t *testing.T) {
	peertest.NoLeak(t)
	c := connect(t, child(t, "odd"), nil)
	got, err := c.CallTool(within(t), "garble", nil, nil)
	if err != nil || got.Text() != "here" {
		t.Errorf("%+v, %v", got, err)
	}
	works(t, c)
}

// When the process ends, pending requests are rejected as closed. Besides: with
// its exit status and last lines, all of them, and the next request starts it
// again.
func TestC07_C08_D13_D21_AProcessThatEndsFailsItsCallsWithTheReasonAndIsStartedAgain(t *testing.T) {
	peertest.NoLeak(t)
	c := connect(t, child(t, "odd"), nil)
	_, err := c.CallTool(within(t), "crash", nil, nil)
	e := failure(t, err, client.ProcessCrashed)
	if e.Exit == nil || e.Exit.Status != 3 || !slices.Equal(e.Stderr, []string{"first line", "out of memory"}) || !e.Sent {
		t.Errorf("%+v", e)
	}
	if exit, ok := errors.AsType[*stdio.ExitError](err); !ok || exit.Status != 3 || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("%v", err)
	}
	if !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("it is not a closed conversation: %v", err)
	}
	works(t, c)
	_, err = c.CallTool(within(t), "close", nil, nil) // it ends in good order, but without the answer
	if e := failure(t, err, client.ProcessCrashed); e.Exit.Status != 0 {
		t.Errorf("%+v", e)
	}
	works(t, c)
}

func TestC08_AStreamThatEndsIsToldApartFromAnErrorOfTheServer(t *testing.T) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			peertest.NoLeak(t)
			server := newCuttable(rev)
			c := connect(t, &client.Server{Name: "cuttable", Dialer: server}, nil)
			done := make(chan error)
			go func() {
				_, err := c.CallTool(within(t), "wait", nil, nil)
				done <- err
			}()
			<-server.began
			server.cut()
			err := <-done
			if e := failure(t, err, client.ConnectionLost); !e.Sent {
				t.Errorf("%+v", e)
			}
			if _, ok := errors.AsType[*dragoman.Error](err); ok {
				t.Errorf("it is taken for an answer: %v", err)
			}
			works(t, c)
			if n := server.dials.Load(); n < 2 {
				t.Errorf("it was dialled %d times", n)
			}
		})
	}
}

// A cuttable is a spy in memory whose conversations can be cut.
type cuttable struct {
	*spy
	dials atomic.Int32
	last  atomic.Pointer[dragoman.Conn]
}

func newCuttable(rev protocol.Revision) *cuttable { return &cuttable{spy: newSpy(rev)} }

func (c *cuttable) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	c.dials.Add(1)
	conn, err := dragoman.Local(c.spy).Dial(ctx, local)
	c.last.Store(&conn)
	return conn, err
}

func (c *cuttable) cut() { _ = (*c.last.Load()).Close() }

func TestC08_AServerThatCannotBeStartedSaysWhatToDo(t *testing.T) {
	peertest.NoLeak(t)
	_, err := client.Connect(within(t), &client.Server{Command: []string{"does-not-exist-anywhere"}}, nil)
	if e := failure(t, err, client.ConnectionFailed); e.Sent || e.Method != "" || !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%+v", e)
	}
	_, err = client.Connect(within(t), child(t, "exits"), nil)
	e := failure(t, err, client.ProcessCrashed)
	if e.Exit.Status != 7 || len(e.Stderr) != 10 || e.Stderr[8] != "cannot open the database" {
		t.Errorf("%+v", e)
	}
	if strings.Contains(fmt.Sprint(e.Stderr), "abcdefgh") {
		t.Errorf("a secret is repeated: %q", e.Stderr)
	}
}

func TestC08_AServerThatIsNotThereIsAConnectionThatFailed(t *testing.T) {
	peertest.NoLeak(t)
	web := rewriting(t, http.NotFoundHandler(), func(http.ResponseWriter, *http.Request, string) bool { return false })
	web.Close()
	for _, url := range []string{web.URL, "ws" + strings.TrimPrefix(web.URL, "http"), "tcp:" + strings.TrimPrefix(web.URL, "http://"), web.URL + "/sse"} {
		_, err := client.Connect(within(t), &client.Server{URL: url}, nil)
		if e := failure(t, err, client.ConnectionFailed); e.Sent {
			t.Errorf("%s: %+v", url, e)
		}
	}
}

func TestAServerThatGoesAwayAndComesBackIsUsedAgain(t *testing.T) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			peertest.NoLeak(t)
			server := newCuttable(rev)
			var away atomic.Bool
			gone := errors.New("nobody is there")
			dialer := dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
				if away.Load() {
					return nil, gone
				}
				return server.Dial(ctx, local)
			})
			c := connect(t, &client.Server{Name: "here", Dialer: dialer}, nil)
			away.Store(true)
			server.cut()
			_, err := c.CallTool(within(t), "echo", object{"text": "x"}, nil)
			if e := failure(t, err, client.ConnectionFailed); e.Sent || !errors.Is(err, gone) {
				t.Errorf("%+v", e)
			}
			away.Store(false)
			works(t, c)
		})
	}
}

// subverted connects to the built-in server over HTTP, which answers the tool
// "odd" in its own way.
func subverted(t *testing.T, rev protocol.Revision, odd func(w http.ResponseWriter, r *http.Request, id string)) *client.Client {
	t.Helper()
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{rev}})
	h := &streamable.Server{Sessions: server, Requests: server.Requests()}
	t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
	web := rewriting(t, h, func(w http.ResponseWriter, r *http.Request, body string) bool {
		var req struct {
			ID     json.RawMessage
			Params struct{ Name string }
		}
		_ = json.Unmarshal([]byte(body), &req)
		if req.Params.Name != "odd" {
			return false
		}
		odd(w, r, string(req.ID))
		return true
	})
	return connect(t, &client.Server{URL: web.URL}, nil)
}

func callOdd(t *testing.T, c *client.Client) error {
	t.Helper()
	_, err := c.CallTool(within(t), "odd", nil, nil)
	return err
}

// An answer that is not 2xx throws an error with the status and the text.
// Besides: its kind, how long to wait, hints about authorization, advice; and a
// JSON-RPC error in the body is an answer like any other.
func TestD16_D17_HTTPErrorsCarryStatusTextAndHints(t *testing.T) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			peertest.NoLeak(t)
			c := subverted(t, rev, func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("Retry-After", "7")
				http.Error(w, "the cellar is flooded", http.StatusInternalServerError)
			})
			err := callOdd(t, c)
			failure(t, err, client.NetworkError)
			e, ok := errors.AsType[*protocol.StatusError](err)
			if !ok || e.Status != 500 || !strings.Contains(string(e.Body), "cellar") || e.RetryAfter != 7*time.Second || !strings.Contains(err.Error(), "500") {
				t.Errorf("%v", err)
			}
			works(t, c)

			c = subverted(t, rev, func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="mcp"`)
				w.Header().Set("Mcp-Auth-Server", "https://auth.example.com")
				http.Error(w, "who are you", http.StatusUnauthorized)
			})
			err = callOdd(t, c)
			if got := failure(t, err, client.NetworkError); !strings.Contains(got.Advice, "Authorization") {
				t.Errorf("the advice is %q", got.Advice)
			}
			e, ok = errors.AsType[*protocol.StatusError](err)
			if !ok || !slices.Equal(e.Challenges, []string{`Bearer realm="mcp"`}) || e.AuthServer != "https://auth.example.com" {
				t.Errorf("%+v", e)
			}

			c = subverted(t, rev, func(w http.ResponseWriter, _ *http.Request, id string) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool","data":{"n":1}}}`, id)
			})
			rpc, ok := errors.AsType[*dragoman.Error](callOdd(t, c))
			if !ok || rpc.Code != -32602 || rpc.Message != "no such tool" || string(rpc.Data) != `{"n":1}` {
				t.Errorf("%+v", rpc)
			}
		})
	}
}

// Invalid JSON throws whatever the parser throws. Besides: it is of a kind, says
// where the fault lies, and the client continues.
func TestAnAnswerThatIsNoJSONFailsItsCallAlone(t *testing.T) {
	for _, rev := range revisions {
		for name, odd := range map[string]func(w http.ResponseWriter, r *http.Request, id string){
			"JSON": func(w http.ResponseWriter, _ *http.Request, id string) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{`, id)
			},
			"a page": func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, "<html>hello</html>")
			},
		} {
			t.Run(rev.Era().String()+" "+name, func(t *testing.T) {
				peertest.NoLeak(t)
				c := subverted(t, rev, odd)
				failure(t, callOdd(t, c), client.NetworkError)
				works(t, c)
			})
		}
	}
}

// A stream that ends without the answer fails with "no response received".
// Besides: a stream that can be resumed is, and the client continues.
func TestD06_AStreamThatEndsWithoutTheAnswerFailsItsCallAlone(t *testing.T) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			peertest.NoLeak(t)
			c := subverted(t, rev, func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n")
			})
			if e := failure(t, callOdd(t, c), client.NetworkError); !e.Sent {
				t.Errorf("%+v", e)
			}
			works(t, c)
		})
	}
}

// For a timeout and for the caller's abort, see time_test.go. Besides what a
// plain client does, the server is told of both.

func TestD15_ASessionIsEndedByClose(t *testing.T) {
	peertest.NoLeak(t)
	var deleted atomic.Int32
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.V20251125}})
	h := &streamable.Server{Sessions: server, Requests: server.Requests()}
	t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
	web := rewriting(t, h, func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Method == http.MethodDelete && r.Header.Get(protocol.HeaderSession) != "" {
			deleted.Add(1)
		}
		return false
	})
	c, err := client.Connect(within(t), &client.Server{URL: web.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	works(t, c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := deleted.Load(); n == 0 {
		t.Error("the session was left open")
	}
}

func TestARevisionThatIsWantedIsSpokenOrRefused(t *testing.T) {
	peertest.NoLeak(t)
	both := func() *client.Server {
		return &client.Server{Name: "both", Dialer: dragoman.Local(builtin.New(&builtin.Options{
			Revisions: []protocol.Revision{protocol.V20250326, protocol.V20251125, protocol.V20260728},
		}))}
	}
	for _, rev := range []protocol.Revision{protocol.V20250326, protocol.V20251125, protocol.V20260728} {
		c := connect(t, both(), &client.Options{Revision: rev})
		if c.Revision() != rev {
			t.Errorf("asked for %v, speaks %v", rev, c.Revision())
		}
		works(t, c)
	}
	legacy := protocol.Legacy
	if c := connect(t, both(), &client.Options{Era: &legacy}); c.Revision() != protocol.V20251125 {
		t.Errorf("the legacy era is %v", c.Revision())
	}
	_, err := client.Connect(within(t), both(), &client.Options{Revision: protocol.V20250618})
	if e := failure(t, err, client.ConnectionFailed); !strings.Contains(e.Error(), "2025-06-18") {
		t.Errorf("%v", e)
	}
}

func TestAServerThatSaysNothingIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &client.Server{Name: "silent", Dialer: dragoman.Local(dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
			return dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}}, nil
		}))}
		_, err := client.Connect(t.Context(), silent, &client.Options{ConnectTimeout: time.Minute})
		if e := failure(t, err, client.ConnectionFailed); !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%v", e)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := client.Connect(ctx, silent, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who has left gets %v", err)
		}
	})
}

func TestAServerIsNamedOnceAndInFull(t *testing.T) {
	dialer := dragoman.Local(builtin.New(nil))
	for _, test := range []struct {
		server client.Server
		want   string
	}{
		{client.Server{}, "client: no server is named; give a command or a URL"},
		{client.Server{URL: "http://127.0.0.1:1/mcp", Command: []string{"x"}}, "client: a URL and a command are named; name one server"},
		{client.Server{Dialer: dialer, Command: []string{"x"}}, "client: a Dialer and a command or a URL are named; name one server"},
		{client.Server{URL: "http://127.0.0.1:1/mcp", Dialer: dialer}, "client: a Dialer and a command or a URL are named; name one server"},
	} {
		if _, err := client.Connect(t.Context(), &test.server, nil); err == nil || err.Error() != test.want {
			t.Errorf("%+v: %v, want %s", test.server, err, test.want)
		}
	}
}
