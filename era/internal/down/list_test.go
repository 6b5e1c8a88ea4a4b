package down_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestPagesComeFromOneSession(t *testing.T) {
	everyRevision(t, builtin.Options{PageSize: 3, Numbered: 20}, func(t *testing.T, _ protocol.Revision, r *rig) {
		for method, kind := range map[string]string{
			protocol.MethodListResources: "resources", protocol.MethodListTools: "tools",
			protocol.MethodListPrompts: "prompts", protocol.MethodListTemplates: "resourceTemplates",
		} {
			seen, params, pages := map[string]bool{}, object{}, 0
			for {
				got := complete(t, r.send(t.Context(), r.request(method, nil, params), nil))
				for _, e := range got[kind].([]any) {
					name := fmt.Sprint(e.(object)["name"])
					if seen[name] {
						t.Errorf("%s: %s comes twice", method, name)
					}
					seen[name] = true
				}
				pages++
				next, more := got["nextCursor"]
				if !more {
					break
				}
				params = object{"cursor": next}
			}
			if method == protocol.MethodListResources && (len(seen) != 24 || pages != 8) {
				t.Errorf("%d resources on %d pages", len(seen), pages)
			}
		}
	})
}

func TestCursorsThatAreNotGood(t *testing.T) {
	peertest.NoLeak(t)
	r := newRig(t, legacy(protocol.V20250618, builtin.Options{PageSize: 3}), nil, nil)
	ctx := as(t.Context(), "ada")
	next := r.want(ctx, protocol.MethodListTools, nil, nil)["nextCursor"]
	at := object{"cursor": next}
	r.want(ctx, protocol.MethodListTools, nil, at)
	r.want(ctx, protocol.MethodListTools, canAll, at) // the session of the cursor, not of the capabilities
	r.want(ctx, protocol.MethodListTools, nil, object{"cursor": ""})
	r.refused(as(t.Context(), "eve"), r.request(protocol.MethodListTools, nil, at), protocol.CodeInvalidParams, "start over")
	r.refused(ctx, r.request(protocol.MethodListPrompts, nil, at), protocol.CodeInvalidParams, "start over")
	r.refused(ctx, r.request(protocol.MethodListTools, nil, object{"cursor": "dG9vbHMgMw"}), protocol.CodeInvalidParams, "start over")
	r.refused(ctx, r.request(protocol.MethodListTools, nil, object{"cursor": 3}), protocol.CodeInvalidParams, "start over")
	if n := r.dial.opened(); n != 1 {
		t.Errorf("%d sessions were opened", n)
	}
	r.dial.cut()
	r.refused(ctx, r.request(protocol.MethodListTools, nil, at), protocol.CodeInvalidParams, "start over")
}

func TestListsSayForHowLongTheyAreGood(t *testing.T) {
	peertest.NoLeak(t)
	r := newRig(t, legacy(protocol.V20250618, builtin.Options{}), nil, &down.Options{TTL: 3 * time.Second})
	for _, method := range []string{protocol.MethodDiscover, protocol.MethodListTools, protocol.MethodListTemplates} {
		if got := r.want(t.Context(), method, nil, nil); got["ttlMs"] != 3000.0 {
			t.Errorf("%s: %v", method, got["ttlMs"])
		}
	}
	if got := r.want(t.Context(), protocol.MethodReadResource, nil, object{"uri": "test://static-text"}); got["ttlMs"] != 0.0 {
		t.Errorf("a resource that may change: %v", got["ttlMs"])
	}
}
