//go:build npm

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// eachSocketServer runs a test with a server of each library, at whose URL there
// are the paths of ts/wsserver.mjs.
func eachSocketServer(t *testing.T, f func(t *testing.T, url string)) {
	eachLanguage(t, "wsserver", func(t *testing.T, program []string) {
		args := append(slices.Clone(program[1:]), dragomanProgram.in(t), "everything")
		f(t, serve(t, exec.Command(program[0], args...), `ws://[0-9.:]+`))
	})
}

func TestNpmPipSocketServersAreUsedByOurClient(t *testing.T) {
	t.Parallel()
	eachSocketServer(t, func(t *testing.T, url string) {
		for _, rev := range bothEras {
			t.Run(rev.String(), func(t *testing.T) {
				t.Parallel()
				useEverything(t, &ws.Client{URL: url + "/mcp", Compression: rev.HasSessions()}, rev)
			})
		}
		t.Run("A28 noise", func(t *testing.T) {
			t.Parallel()
			c, _ := begin(t, &ws.Client{URL: url + "/noise"}, protocol.LatestLegacy)
			callAtOnce(t, c, atOnce(protocol.LatestLegacy))
			c.notes.wait(t, 1, "notifications/noise", "")
		})
	})
}

func TestNpmPipA26_A27_A28_SocketServersAnswerToolFramesOfOurClient(t *testing.T) {
	t.Parallel()
	eachSocketServer(t, func(t *testing.T, url string) {
		for _, deflate := range []bool{true, false} {
			t.Run(fmt.Sprintf("compression=%v", deflate), func(t *testing.T) {
				t.Parallel()
				c := dial(t, &ws.Client{URL: url + "/tools", Tools: true, Compression: deflate})
				c.rev = protocol.Latest
				want := "permessage-deflate"
				if !deflate {
					want = ""
				}
				result := c.want(protocol.MethodCallTool, object{"name": "extensions"})
				if got := decode[[]object](t, result["content"])[0]["text"]; got != want {
					t.Errorf("the socket has the extensions %q, want %q", got, want)
				}
				var calls sync.WaitGroup
				for i := range 200 {
					calls.Go(func() {
						text := strings.Repeat("é", 20*i)
						result, err := c.call(t.Context(), "echo", object{"text": text}, "")
						if err != nil {
							t.Error(err)
							return
						}
						checkResult(t, "echo", result, expected{text: text})
					})
				}
				calls.Wait()
				c.wantError(protocol.CodeInvalidParams, protocol.MethodCallTool, object{"name": "none"})
			})
		}
	})
}

func TestNpmPipA29_SocketServerThatIsGoneEndsAllCallsOfOurClient(t *testing.T) {
	t.Parallel()
	eachSocketServer(t, func(t *testing.T, url string) {
		for _, name := range []string{"drop", "leave"} {
			t.Run(name+"/mcp", func(t *testing.T) {
				t.Parallel()
				c := dial(t, &ws.Client{URL: url + "/mcp"})
				c.rev = protocol.Latest
				args := object{"name": "slow", "arguments": object{"ms": 600_000, "steps": 10_000}, "_meta": object{protocol.MetaProgressToken: 1}}
				ended := c.callInVain(args, 1)
				c.notes.wait(t, 1, protocol.NoteProgress, "")
				c.endsBy(name, ended)
			})
			t.Run(name+"/tools", func(t *testing.T) {
				t.Parallel()
				c := dial(t, &ws.Client{URL: url + "/tools", Tools: true})
				c.rev = protocol.Latest
				ended := c.callInVain(object{"name": "wait"}, 10)
				for deadline := time.Now().Add(patience); ; {
					content := c.want(protocol.MethodCallTool, object{"name": "waiting"})["content"]
					if decode[[]object](t, content)[0]["text"] == "10" {
						break
					}
					if time.Now().After(deadline) {
						t.Fatal("the calls do not arrive")
					}
				}
				c.endsBy(name, ended)
			})
		}
	})
}

// callInVain makes calls that are not answered. What they return comes from the
// channel.
func (c *dragomanClient) callInVain(params object, n int) <-chan error {
	c.t.Helper()
	ended := make(chan error, n)
	for range n {
		req := c.request(protocol.MethodCallTool, params)
		go func() { // ends with the conversation
			_, err := c.conn.Call(context.Background(), req, c)
			ended <- err
		}()
	}
	return ended
}

// endsBy has the server end the conversation, and checks what calls in flight
// and later ones return.
func (c *dragomanClient) endsBy(name string, ended <-chan error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	check := func(err error) {
		c.t.Helper()
		var closed *ws.CloseError
		if !errors.Is(err, dragoman.ErrClosed) || errors.As(err, &closed) != (name == "leave") {
			c.t.Errorf("a call returns %v", err)
		} else if closed != nil && (closed.Code != 1011 || closed.Reason != "as asked") {
			c.t.Errorf("the socket was closed by %v", closed)
		}
	}
	_, err := c.conn.Call(ctx, c.request(protocol.MethodCallTool, object{"name": name}), nil)
	check(err)
	for range cap(ended) {
		select {
		case err := <-ended:
			check(err)
		case <-ctx.Done():
			c.t.Fatal("a call does not end")
		}
	}
	_, err = c.conn.Call(ctx, c.request(protocol.MethodCallTool, object{"name": "echo"}), nil)
	check(err)
}
