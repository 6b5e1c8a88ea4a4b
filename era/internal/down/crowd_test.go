package down_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A hundred clients do the same at once, with the same ids and tokens, and each
// hears what is its own.
func TestAHundredClientsAtOnce(t *testing.T) {
	const clients, calls = 100, 5
	for _, callers := range []int{1, 10} {
		t.Run(fmt.Sprint(callers, " callers"), func(t *testing.T) {
			both(t, func(t *testing.T, wrap func(dragoman.Conn, dragoman.Peer) dragoman.Conn) {
				var j journal
				r := newRig(t, dragoman.Local(talkative(&j)), wrap, &down.Options{SuspendedPerCaller: clients})
				var all sync.WaitGroup
				for i := range clients {
					all.Go(func() {
						caller := fmt.Sprint(i % callers)
						for n := range calls {
							who := fmt.Sprintf("%s/%d/%d", caller, i, n)
							about := who + "?"
							if wrap != nil {
								about = caller + "/" // any call of a caller may be asked what another one needs
							}
							if err := r.oneOfMany(as(t.Context(), caller), t, who, about); err != nil {
								t.Error(err)
							}
						}
					})
				}
				all.Wait()
				for i := range clients {
					for n := range calls {
						j.wantOnce(t, fmt.Sprintf("%d/%d/%d", i%callers, i, n))
					}
				}
				if n := r.dial.opened(); n != 2*callers {
					t.Errorf("%d sessions were opened, want two for each caller", n)
				}
			})
		})
	}
}

// talkative is a server whose tools say who they are told they are for, by
// progress, questions and result. It refuses callers that are not the first of
// their conversation.
func talkative(j *journal) *script {
	var mu sync.Mutex
	owners := map[*scripted]string{}
	s := &script{rev: protocol.V20251125}
	s.on = map[string]handler{protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
		who := req.Name()
		caller, _, _ := strings.Cut(who, "/")
		mu.Lock()
		if owners[c] == "" {
			owners[c] = caller
		}
		owner := owners[c]
		mu.Unlock()
		if owner != caller {
			return nil, fmt.Errorf("a call of %s in a session of %s", caller, owner)
		}
		j.note(who)
		note, err := dragoman.NewNotification(protocol.NoteProgress, object{"progressToken": req.Meta("progressToken"), "progress": 1, "message": who})
		if err == nil {
			err = from.Notify(ctx, note)
		}
		if err != nil {
			return nil, err
		}
		if string(req.Get("arguments")) == "{}" {
			return text(who), nil
		}
		var all sync.WaitGroup
		got := make([]string, 2)
		for i := range got {
			all.Go(func() {
				a, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm(fmt.Sprintf("%s?%d", who, i)))
				if want := fmt.Sprintf(`{"action":"accept","content":{"q":"%s?%d"}}`, who, i); err != nil || a != want {
					got[i] = fmt.Sprintf("answered %s, %v, want %s", a, err, want)
				}
			})
		}
		all.Wait()
		return text(who + strings.Join(got, "")), nil
	}}
	return s
}

// oneOfMany makes one call, or one with rounds, and tells what is wrong with what
// it hears. about is how all that it is asked begins.
func (r *rig) oneOfMany(ctx context.Context, t *testing.T, who, about string) error {
	caps, args := object{}, object{}
	if rand.IntN(2) == 0 {
		caps, args = canAll, object{"ask": 1}
	}
	params := joined(callParams(who, args), meta(object{"progressToken": 1}))
	for round := 0; ; round++ {
		h := hear(t)
		resp, err := r.s.Call(ctx, request(t, 1, protocol.MethodCallTool, caps, params), h)
		h.over.Store(true)
		if err != nil {
			return err
		}
		for _, note := range h.all() {
			if string(note.Get("message")) != `"`+who+`"` || string(note.Get("progressToken")) != "1" {
				return fmt.Errorf("%s heard %s", who, note)
			}
		}
		if resp.IsError() || resp.ID() != dragoman.IntID(1) {
			return fmt.Errorf("%s got %s", who, resp)
		}
		got := result(t, resp)
		if got["resultType"] == "complete" {
			if s := said(t, got); s != who {
				return fmt.Errorf("%s got %s", who, s)
			}
			return nil
		}
		questions, state := asked(t, resp)
		answers := object{}
		for key, q := range questions {
			message := q["params"].(object)["message"].(string)
			if !strings.HasPrefix(message, about) {
				return fmt.Errorf("%s was asked %s", who, message)
			}
			answers[key] = object{"action": "accept", "content": object{"q": message}}
		}
		params = joined(with(callParams(who, args), state, answers), meta(object{"progressToken": 1}))
	}
}
