package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// inEachRevision is eachRevision with a clock of its own.
func inEachRevision(t *testing.T, f func(t *testing.T, rev protocol.Revision)) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		synctest.Test(t, func(t *testing.T) { f(t, rev) })
	})
}

func TestProgress(t *testing.T) {
	inEachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		for _, token := range []any{"tok", 7} {
			d.want(protocol.MethodCallTool, object{"name": "test_tool_with_progress", "_meta": object{"progressToken": token}})
			notes := d.received()
			if methods(notes) != "progress progress progress" {
				t.Fatalf("heard %q", methods(notes))
			}
			for i, n := range notes {
				var p struct {
					ProgressToken any
					Progress      float64
					Total         float64
					Message       *string
				}
				if err := n.Decode(&p); err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(p.ProgressToken) != fmt.Sprint(token) || p.Progress != float64(50*i) || p.Total != 100 {
					t.Errorf("progress %d is %s", i, n)
				}
				if (p.Message != nil) != rev.HasProgressMessage() {
					t.Errorf("progress %d is %s", i, n)
				}
			}
		}
		d.tool("test_tool_with_progress", nil)
		if got := methods(d.received()); got != "" {
			t.Errorf("heard %q without a token", got)
		}
		start := time.Now()
		d.want(protocol.MethodCallTool, object{"name": "slow", "arguments": object{"ms": 5000, "steps": 5}, "_meta": object{"progressToken": 1}})
		if took, got := time.Since(start), methods(d.received()); took != 5*time.Second || strings.Count(got, "progress") != 5 {
			t.Errorf("it took %v and told %q", took, got)
		}
	})
}

func TestLogMessages(t *testing.T) {
	inEachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		setLevel := func(level string) {
			if d.level = level; rev.HasSessions() {
				d.want(protocol.MethodSetLevel, object{"level": level})
			}
		}
		// What is heard before a level is set: nothing in the modern era.
		d.tool("test_logging_tool", nil)
		if got := len(d.received()); got != map[bool]int{true: 7, false: 0}[rev.HasSessions()] {
			t.Errorf("heard %d messages before a level was set", got)
		}
		for i, level := range protocol.LogLevels {
			setLevel(level)
			d.tool("test_logging_tool", nil)
			notes := d.received()
			if want := len(protocol.LogLevels) - i; len(notes) != want {
				t.Errorf("level %s: heard %d messages, want %d", level, len(notes), want)
			}
			if got := string(notes[0].Get("level")); got != `"`+level+`"` {
				t.Errorf("level %s: the first is %s", level, notes[0])
			}
		}
		setLevel("debug")
		d.tool("test_tool_with_logging", nil)
		if got := methods(d.received()); got != "message message message" {
			t.Errorf("heard %q", got)
		}
		if rev.HasSessions() {
			d.wantError(protocol.CodeInvalidParams, protocol.MethodSetLevel, object{"level": "loud"})
			d.wantError(protocol.CodeInvalidParams, protocol.MethodSetLevel, object{})
		}
	})
}

func TestCancel(t *testing.T) {
	stop := errors.New("stop")
	cancelled := func(t *testing.T, rev protocol.Revision, tool string) {
		d := open(t, builtin.New(nil), rev, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		// The cancel comes while the tool waits.
		time.AfterFunc(10*time.Millisecond, func() { cancel(stop) })
		start := time.Now()
		resp, err := d.conn.Call(ctx, d.request(protocol.MethodCallTool, object{"name": tool, "arguments": object{"ms": 60000}}), d)
		if resp != nil || !errors.Is(err, stop) {
			t.Errorf("got %v, %v", resp, err)
		}
		if took := time.Since(start); took != 10*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	}
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		for _, tool := range []string{"wait", "slow", "test_tool_with_progress", "test_tool_with_logging", "test_reconnection"} {
			t.Run("D10 "+tool, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cancelled(t, rev, tool) })
			})
		}
	})
}

// A question that is in flight ends with its call.
func TestCancelDuringAQuestion(t *testing.T) {
	stop := errors.New("stop")
	d := open(t, builtin.New(nil), protocol.LatestLegacy, canAll)
	ctx, cancel := context.WithCancelCause(t.Context())
	from := dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		cancel(stop)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	req := d.request(protocol.MethodCallTool, object{"name": "test_sampling", "arguments": object{"prompt": "x"}})
	if resp, err := d.conn.Call(ctx, req, from); resp != nil || !errors.Is(err, stop) {
		t.Errorf("got %v, %v", resp, err)
	}
}

// cutter is a caller whose stream can be cut.
type cutter struct {
	dragoman.Funcs
	cut time.Duration
}

func (c *cutter) CutStream(retry time.Duration) { c.cut = retry }

func TestReconnectionCutsTheStream(t *testing.T) {
	inEachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		var from cutter
		start := time.Now()
		resp, err := d.conn.Call(t.Context(), d.request(protocol.MethodCallTool, object{"name": "test_reconnection"}), &from)
		if err != nil || resp.IsError() {
			t.Fatalf("got %v, %v", resp, err)
		}
		if from.cut == 0 || time.Since(start) <= from.cut {
			t.Errorf("the stream was cut for %v, and the answer came after %v", from.cut, time.Since(start))
		}
	})
}

// Many calls of both eras at once, for the race detector.
func TestManyCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := builtin.New(nil)
		sub := listen(t, s, dragoman.IntID(1), object{"toolsListChanged": true, "resourceSubscriptions": []string{watched}})
		done := make(chan error)
		const callers = 16
		for i := range callers {
			d := open(t, s, protocol.Revisions()[i%5], canAll)
			d.answer = answeringClient
			// Ends after its calls.
			go func() {
				var err error
				for j := range 8 {
					want := fmt.Sprint(i, j)
					d.tool("test_trigger_tool_change", nil)
					d.tool("update_resource", nil)
					d.tool("test_sampling", object{"prompt": want})
					d.want(protocol.MethodListTools, nil)
					if got := d.toolText("echo", object{"text": want}); got != want {
						err = fmt.Errorf("echo says %q, want %q", got, want)
					}
				}
				done <- err
			}()
		}
		for range callers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if len(sub.received()) < 3 {
			t.Error("the subscription heard too little")
		}
		s.Close()
		<-sub.done
	})
}
