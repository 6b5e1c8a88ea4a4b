package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// inBubble runs a test with a fake clock against the built-in server in memory,
// in each era.
func inBubble(t *testing.T, test func(t *testing.T, server *client.Server)) {
	for _, rev := range revisions {
		t.Run(rev.Era().String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, &client.Server{Name: "memory", Dialer: dragoman.Local(builtin.New(&builtin.Options{Revisions: []protocol.Revision{rev}}))})
			})
		})
	}
}

type (
	object   = map[string]any
	jsonText = json.RawMessage
)

func TestD09_ARequestEndsAfterItsTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		options client.Options
		call    *client.CallOptions
		want    time.Duration
	}{
		"by default":          {client.Options{}, nil, 30 * time.Second},
		"as configured":       {client.Options{Timeout: time.Second}, nil, time.Second},
		"of the tool":         {client.Options{ToolTimeouts: map[string]time.Duration{"wait": time.Minute}}, nil, time.Minute},
		"of another tool":     {client.Options{ToolTimeouts: map[string]time.Duration{"echo": time.Minute}}, nil, 30 * time.Second},
		"of the call":         {client.Options{Timeout: time.Second}, &client.CallOptions{Timeout: time.Hour}, time.Hour},
		"longer than at most": {client.Options{Timeout: time.Hour, MaxTimeout: time.Second}, nil, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *client.Server) {
				c := bubbled(t, server, &test.options)
				began := time.Now()
				_, err := c.CallTool(t.Context(), "wait", nil, test.call)
				e, ok := errors.AsType[*client.Error](err)
				if !ok || !errors.Is(err, client.Timeout) || !errors.Is(err, context.DeadlineExceeded) || !e.Sent || e.Method != protocol.MethodCallTool {
					t.Errorf("the error is %v", err)
				}
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
			})
		})
	}
}

func bubbled(t *testing.T, server *client.Server, o *client.Options) *client.Client {
	t.Helper()
	c, err := client.Connect(t.Context(), server, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestProgressExtendsTheTimeUpToALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, server *client.Server) {
		c := bubbled(t, server, &client.Options{Timeout: 10 * time.Second, MaxTimeout: time.Minute})
		var seen []client.Progress
		got, err := c.CallTool(t.Context(), "slow", object{"ms": 50_000, "steps": 10}, &client.CallOptions{OnProgress: func(p client.Progress) { seen = append(seen, p) }})
		if err != nil || got.IsError {
			t.Errorf("with progress: %+v, %v", got, err)
		}
		if len(seen) != 10 || seen[9].Progress != 10 || seen[9].Total != 10 || !strings.Contains(seen[9].Message, "10 of 10") {
			t.Errorf("progress is %+v", seen)
		}
		began := time.Now()
		if _, err = c.CallTool(t.Context(), "slow", object{"ms": 100_000, "steps": 20}, nil); !errors.Is(err, client.Timeout) {
			t.Errorf("forever: %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

func TestNegativeTimeoutsMeanForever(t *testing.T) {
	inBubble(t, func(t *testing.T, server *client.Server) {
		c := bubbled(t, server, &client.Options{Timeout: -1})
		if _, err := c.CallTool(t.Context(), "slow", object{"ms": 3_600_000}, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestTheTimeOfOurOwnAnswersDoesNotCount(t *testing.T) {
	inBubble(t, func(t *testing.T, server *client.Server) {
		c := bubbled(t, server, &client.Options{
			Timeout: time.Second, MaxTimeout: 2 * time.Second,
			Elicitation: func(context.Context, jsonText) (any, error) {
				time.Sleep(time.Hour) // a user thinks
				return object{"action": "decline"}, nil
			},
		})
		if _, err := c.CallTool(t.Context(), "test_elicitation", object{"message": "who?"}, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestD09_D10_WhoeverCancelsGetsTheirOwnReasonAndTheToolSeesIt(t *testing.T) {
	overEach(t, func(t *testing.T, server *client.Server, s *spy) {
		c := connect(t, server, nil)
		reason := errors.New("never mind")
		ctx, cancel := context.WithCancelCause(within(t))
		done := make(chan error)
		go func() {
			_, err := c.CallTool(ctx, "wait", nil, nil)
			done <- err
		}()
		<-s.began
		cancel(reason)
		if err := <-done; !errors.Is(err, reason) {
			t.Errorf("the call ends with %v", err)
		}
		select {
		case err := <-s.ended:
			if err == nil {
				t.Error("the tool ended by itself")
			}
		case <-time.After(patience):
			t.Error("the tool continues")
		}
		if _, err := c.CallTool(within(t), "echo", object{"text": "x"}, nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestD10_ATimeoutCancelsTheTool(t *testing.T) {
	overEach(t, func(t *testing.T, server *client.Server, s *spy) {
		c := connect(t, server, nil)
		if _, err := c.CallTool(within(t), "wait", nil, &client.CallOptions{Timeout: 20 * time.Millisecond}); !errors.Is(err, client.Timeout) {
			t.Errorf("the error is %v", err)
		}
		select {
		case <-s.began:
		default:
			return // it was given up before it was sent, on a busy machine
		}
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Error("the tool continues")
		}
	})
}

func TestD08_CloseEndsWhatIsUnderWay(t *testing.T) {
	overEach(t, func(t *testing.T, server *client.Server, s *spy) {
		c := connect(t, server, nil)
		done := make(chan error)
		go func() {
			_, err := c.CallTool(within(t), "wait", nil, nil)
			done <- err
		}()
		<-s.began
		if err := c.Err(); err != nil {
			t.Errorf("before: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		<-c.Done()
		if err := <-done; !errors.Is(err, client.ConnectionLost) || !errors.Is(err, dragoman.ErrClosed) {
			t.Errorf("the call ends with %v", err)
		}
		if _, err := c.Tools(within(t)); err == nil || !errors.Is(c.Err(), dragoman.ErrClosed) {
			t.Errorf("afterwards: %v, %v", err, c.Err())
		}
		if err := c.Subscribe(within(t), "test://watched-resource"); err == nil {
			t.Error("a closed client subscribes")
		}
	})
}
