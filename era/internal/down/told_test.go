package down_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func meta(more object) object { return object{"_meta": more} }

// joined returns params with those of another.
func joined(params, more object) object {
	full := object{}
	for _, p := range []object{params, more} {
		for k, v := range p {
			full[k] = v
		}
	}
	return full
}

func levelsOf(t testing.TB, notes []*dragoman.Message) (levels []string) {
	t.Helper()
	for _, note := range notes {
		var level string
		if note.Method() != protocol.NoteMessage || json.Unmarshal(note.Get("level"), &level) != nil {
			t.Errorf("got %s, want a log message", note)
		}
		levels = append(levels, level)
	}
	return levels
}

func TestLogsAreThoseThatWereAskedFor(t *testing.T) {
	for _, caps := range []object{nil, canAll} {
		t.Run(fmt.Sprint(len(caps)), func(t *testing.T) {
			everyRevision(t, builtin.Options{}, func(t *testing.T, _ protocol.Revision, r *rig) {
				for _, test := range []struct {
					level string
					want  []string
				}{
					{"", nil},
					{"error", protocol.LogLevels[4:]},
					{"debug", protocol.LogLevels},
					{"warning", protocol.LogLevels[3:]}, // the session's level stays, the rest is filtered
				} {
					params := callParams("test_logging_tool", nil)
					if test.level != "" {
						params = joined(params, meta(object{protocol.MetaLogLevel: test.level}))
					}
					h := hear(t)
					complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, caps, params), h))
					h.over.Store(true)
					if got := levelsOf(t, h.all()); !slices.Equal(got, test.want) {
						t.Errorf("%q: got %v, want %v", test.level, got, test.want)
					}
				}
			})
		})
	}
}

func TestServerIsToldALevelOnlyToRaiseIt(t *testing.T) {
	peertest.NoLeak(t)
	for _, logging := range []bool{true, false} {
		var set []string
		s := &script{rev: protocol.V20250618}
		if logging {
			s.caps = object{"logging": object{}}
		}
		s.on = map[string]handler{
			protocol.MethodSetLevel: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
				set = append(set, string(req.Get("level")))
				return object{}, nil
			},
			"x": func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) { return object{}, nil },
		}
		r := newRig(t, dragoman.Local(s), nil, nil)
		for _, level := range []string{"error", "info", "warning", "info", "debug", "emergency"} {
			complete(t, r.send(t.Context(), r.request("x", nil, meta(object{protocol.MetaLogLevel: level})), hear(t)))
		}
		want := `["error" "info" "debug"]`
		if !logging {
			want = "[]"
		}
		if fmt.Sprint(set) != want {
			t.Errorf("the server was told %v, want %v", set, want)
		}
	}
}

func TestStrayLogBelongsToTheOnlyRequestThatWantsLogsUnlessItMayBeAnothers(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		arrived, leave := make(chan *scripted, 10), make(chan struct{})
		s := &script{rev: protocol.V20250618, caps: object{"logging": object{}}}
		s.on = map[string]handler{
			"x": func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
				arrived <- c
				<-leave
				return object{}, nil
			},
			protocol.MethodSetLevel: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) { return object{}, nil },
		}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		quiet, loud, second := hear(t), hear(t), hear(t)
		wants := meta(object{protocol.MetaLogLevel: "info"})
		done := []<-chan outcome{r.start(t.Context(), r.request("x", nil, nil), quiet)}
		receive(t, arrived, "the first")
		done = append(done, r.start(t.Context(), r.request("x", nil, wants), loud))
		c := receive(t, arrived, "the second")
		c.tell(t, protocol.NoteMessage, object{"level": "info", "data": "one"})
		c.tell(t, protocol.NoteMessage, object{"level": "debug", "data": "too quiet"})
		if wrap == nil { // on a pipe it may be late, and of a request that is over
			if note := loud.next(); string(note.Get("data")) != `"one"` {
				t.Errorf("got %s", note)
			}
		}
		done = append(done, r.start(t.Context(), r.request("x", nil, wants), second))
		receive(t, arrived, "the third")
		c.tell(t, protocol.NoteMessage, object{"level": "info", "data": "whose?"})
		close(leave)
		for _, d := range done {
			complete(t, r.finish(d))
		}
		for _, h := range []*hearer{quiet, loud, second} {
			h.over.Store(true)
			if notes := h.all(); len(notes) != 0 {
				t.Errorf("heard %s", notes)
			}
		}
		c.tell(t, protocol.NoteMessage, object{"level": "info", "data": "late"})
	})
}

func TestProgressHasTheTokenOfTheRequestThatWaits(t *testing.T) {
	both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
		s := &script{rev: protocol.V20251125, caps: object{"logging": object{}}}
		suspended, more, asked2 := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s.on = map[string]handler{
			protocol.MethodSetLevel: func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) { return object{}, nil },
			protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
				say := func(method string, params object) {
					note, err := dragoman.NewNotification(method, params)
					if err == nil {
						err = from.Notify(ctx, note)
					}
					if err != nil {
						t.Error(err)
					}
				}
				token := req.Meta(protocol.MetaProgressToken)
				progress := func(n float64) { say(protocol.NoteProgress, object{"progressToken": token, "progress": n, "total": 9}) }
				progress(1)
				progress(2)
				progress(2) // does not increase
				go func() {
					defer close(more)
					<-suspended
					progress(3)
					progress(4)
					say(protocol.NoteMessage, object{"level": "error", "data": "nobody listens"})
				}()
				if _, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm("?")); err != nil {
					return nil, err
				}
				progress(4) // told already
				progress(5)
				say(protocol.NoteMessage, object{"level": "info", "data": "quiet"})
				say(protocol.NoteMessage, object{"level": "error", "data": "loud"})
				close(asked2)
				return text("done"), nil
			},
		}
		r := newRig(t, dragoman.Local(s), wrap, nil)
		params := callParams("x", nil)
		h := hear(t)
		resp := r.send(t.Context(), r.request(protocol.MethodCallTool, canAll, joined(params, meta(object{"progressToken": "one"}))), h)
		h.over.Store(true)
		_, state := asked(t, resp)
		if got := steps(t, h.all()); got != `["one" 1 "one" 2]` {
			t.Errorf("at first: %s", got)
		}
		close(suspended)
		receive(t, more, "progress while nobody listens")
		h = hear(t)
		complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, canAll,
			joined(with(params, state, yes("1")), meta(object{"progressToken": 2, protocol.MetaLogLevel: "error"}))), h))
		h.over.Store(true)
		if got := steps(t, h.all()); got != `[2 4 2 5 "loud"]` {
			t.Errorf("then: %s", got)
		}
	})
}

// steps returns tokens and values of progress, and data of logs.
func steps(t testing.TB, notes []*dragoman.Message) string {
	t.Helper()
	all := []string{}
	for _, n := range notes {
		if n.Method() == protocol.NoteProgress {
			all = append(all, string(n.Get("progressToken")), string(n.Get("progress")))
		} else {
			all = append(all, string(n.Get("data")))
		}
	}
	return fmt.Sprint(all)
}

func TestProgressOfPlainRequests(t *testing.T) {
	everyRevision(t, builtin.Options{}, func(t *testing.T, _ protocol.Revision, r *rig) {
		for _, caps := range []object{nil, canAll} {
			h := hear(t)
			params := joined(callParams("slow", object{"ms": 1, "steps": 3}), meta(object{"progressToken": "t"}))
			complete(t, r.send(t.Context(), r.request(protocol.MethodCallTool, caps, params), h))
			h.over.Store(true)
			if got := steps(t, h.all()); got != `["t" 1 "t" 2 "t" 3]` {
				t.Errorf("got %s", got)
			}
		}
	})
}

func TestErrorsHaveTheCodesOfTheModernEra(t *testing.T) {
	everyRevision(t, builtin.Options{}, func(t *testing.T, _ protocol.Revision, r *rig) {
		r.refused(t.Context(), r.request(protocol.MethodReadResource, nil, object{"uri": "test://no-such"}), protocol.CodeInvalidParams, "not found")
		for sent, want := range map[int]int{-32050: protocol.CodeInternal, -32000: -32000, -1: -1} {
			for _, caps := range []object{nil, canAll} {
				r.refused(t.Context(), r.request(protocol.MethodCallTool, caps, callParams("raise", object{"code": sent, "message": "raised"})), want, "raised")
			}
		}
	})
}
