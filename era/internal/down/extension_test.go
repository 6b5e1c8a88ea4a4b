package down_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// extensionsOf returns the extensions that a client has declared at initialize.
func extensionsOf(c *scripted) string {
	return string(dragoman.Member(c.hello.Get("capabilities"), "extensions"))
}

// A session is opened with the extensions of one client, so it serves no client with others:
// a server may list other tools to a client that shows apps.
func TestServerKnowsTheExtensionsOfTheClientInCallsAndLists(t *testing.T) {
	t.Parallel()
	const apps = `{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`
	for name, shared := range map[string]bool{"a session of each caller": false, "shared sessions": true} {
		t.Run(name, func(t *testing.T) {
			peertest.NoLeak(t)
			var mu sync.Mutex
			seen := make(map[string]string) // extensions by the client's mark
			note := func(_ context.Context, c *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				seen[fmt.Sprint(req.Method(), " ", req.MetaText("mark"))] = extensionsOf(c)
				return object{"tools": []any{}, "skills": []any{}, "content": []any{}}, nil
			}
			s := &script{rev: protocol.V20251125, on: map[string]handler{
				protocol.MethodListTools: note, protocol.MethodCallTool: note, protocol.MethodListSkills: note,
			}}
			r := newRig(t, dragoman.Local(s), nil, &down.Options{Shared: shared})
			clients := map[string]struct{ extensions, want string }{
				"none":        {``, ``},
				"apps":        {apps, apps},
				"modern only": {`{"io.modelcontextprotocol/tasks":{}}`, ``},
			}
			for _, method := range []string{protocol.MethodListTools, protocol.MethodCallTool, protocol.MethodListSkills} {
				for mark, c := range clients {
					caps := object{}
					if c.extensions != "" {
						caps["extensions"] = json.RawMessage(c.extensions)
					}
					r.want(t.Context(), method, caps, object{"name": "x", "_meta": object{"mark": mark}})
					if got := seen[method+" "+mark]; got != c.want {
						t.Errorf("%s of the client with %s: the server saw %q, want %q", method, mark, got, c.want)
					}
				}
			}
			if n := s.inits.Load(); n != 2 {
				t.Errorf("%d sessions were opened, want one for each set of extensions, 2", n)
			}
		})
	}
}

func TestSkillsOfALegacyServerHaveTheMembersOfAModernResult(t *testing.T) {
	t.Parallel()
	answer := func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
		return object{"skills": []any{}, "nextCursor": "2"}, nil
	}
	s := &script{rev: protocol.V20251125, on: map[string]handler{protocol.MethodListSkills: answer, protocol.MethodGetSkill: answer}}
	r := newRig(t, dragoman.Local(s), nil, nil)
	for _, method := range []string{protocol.MethodListSkills, protocol.MethodGetSkill} {
		got := complete(t, r.send(t.Context(), r.request(method, nil, object{"uri": "skill://a/SKILL.md"}), nil))
		if got["ttlMs"] != 0.0 || got["cacheScope"] != "private" {
			t.Errorf("%s: got %v", method, got)
		}
		if sealed := got["nextCursor"] != "2"; sealed != (method == protocol.MethodListSkills) {
			t.Errorf("%s: the cursor is %v", method, got["nextCursor"])
		}
	}
}

func TestEventsOfALegacyServersStreamReachTheClient(t *testing.T) {
	t.Parallel()
	s := &script{rev: protocol.V20251125, on: map[string]handler{
		protocol.MethodStreamEvents: func(ctx context.Context, _ *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
			note, err := dragoman.NewNotification("notifications/events/event", object{"name": req.Name()})
			if err == nil {
				err = from.Notify(ctx, note)
			}
			return object{}, err
		},
	}}
	r := newRig(t, dragoman.Local(s), nil, nil)
	h := hear(t)
	complete(t, r.send(t.Context(), r.request(protocol.MethodStreamEvents, nil, object{"name": "e"}), h))
	if notes := h.all(); len(notes) != 1 || notes[0].Method() != "notifications/events/event" {
		t.Errorf("got %s", notes)
	}
}
