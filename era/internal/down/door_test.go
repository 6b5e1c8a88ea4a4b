package down_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestEnvelopeIsChecked(t *testing.T) {
	peertest.NoLeak(t)
	r := newRig(t, legacy(protocol.V20251125, builtin.Options{}), nil,
		&down.Options{Revisions: []protocol.Revision{protocol.V20260728, protocol.V20251125}})
	for _, test := range []struct {
		what string
		meta object
		code int
		why  string
	}{
		{"no version", object{protocol.MetaProtocolVersion: nil}, protocol.CodeInvalidParams, "lacks"},
		{"no capabilities", object{protocol.MetaClientCapabilities: nil}, protocol.CodeInvalidParams, "lacks"},
		{"capabilities that cannot be read", object{protocol.MetaClientCapabilities: object{"elicitation": 3}}, protocol.CodeInvalidParams, "cannot be read"},
		{"bad client", object{protocol.MetaClientInfo: object{"name": "x"}}, protocol.CodeInvalidParams, "version"},
		{"bad level", object{protocol.MetaLogLevel: "shout"}, protocol.CodeInvalidParams, "emergency"},
		{"unknown version", object{protocol.MetaProtocolVersion: "v999.0.0"}, protocol.CodeUnsupported, "v999.0.0"},
		{"legacy version", object{protocol.MetaProtocolVersion: "2025-11-25"}, protocol.CodeUnsupported, "2025-11-25"},
	} {
		t.Run(test.what, func(t *testing.T) {
			r.t = t
			e := r.refused(t.Context(), r.request(protocol.MethodListTools, nil, object{"_meta": test.meta}), test.code, test.why)
			if test.code == protocol.CodeUnsupported {
				var data struct {
					Supported []string
					Requested string
				}
				if json.Unmarshal(e.Data, &data) != nil || len(data.Supported) != 2 || data.Requested != test.meta[protocol.MetaProtocolVersion] {
					t.Errorf("data is %s", e.Data)
				}
			}
		})
	}
	r.t = t
	r.want(t.Context(), protocol.MethodListTools, nil, object{"_meta": object{protocol.MetaClientInfo: nil}})
}

func TestWhatTheModernEraLacksIsNotFound(t *testing.T) {
	peertest.NoLeak(t)
	r := newRig(t, legacy(protocol.V20251125, builtin.Options{}), nil, nil)
	for _, method := range []string{
		protocol.MethodPing, protocol.MethodInitialize, protocol.MethodSetLevel, protocol.MethodSubscribe, protocol.MethodUnsubscribe,
		protocol.MethodTaskResult, protocol.MethodListTasks, protocol.MethodGetTask, protocol.MethodCancelTask, protocol.MethodListRoots,
	} {
		r.refused(t.Context(), r.request(method, nil, nil), protocol.CodeMethodNotFound, method)
	}
	if n := r.dial.opened(); n != 0 {
		t.Errorf("%d sessions were opened for that", n)
	}
}

func TestUnknownRequestsPass(t *testing.T) {
	peertest.NoLeak(t)
	got := make(chan *dragoman.Message, 1)
	s := &script{rev: protocol.V20250618}
	s.on = map[string]handler{"acme/frob": func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
		got <- req
		return json.RawMessage(`{"n":12345678901234567890,"z":1.0}`), nil
	}}
	r := newRig(t, dragoman.Local(s), nil, nil)
	resp := r.send(t.Context(), r.request("acme/frob", canAll, object{"a": 1, "_meta": object{"traceparent": "x"}}), nil)
	if string(resp.Get("n")) != "12345678901234567890" || string(resp.Get("z")) != "1.0" || string(resp.Get("resultType")) != `"complete"` {
		t.Errorf("got %s", resp)
	}
	req := receive(t, got, "the request")
	if protocol.IsModern(req) || req.Meta(protocol.MetaClientCapabilities) != nil || req.MetaText("traceparent") != "x" || string(req.Get("a")) != "1" {
		t.Errorf("the server got %s", req)
	}
}

type handler = func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error)

func TestServerIsToldWhoTheClientIs(t *testing.T) {
	peertest.NoLeak(t)
	hello := make(chan *dragoman.Message, 2)
	initialized := make(chan string, 2)
	s := &script{rev: protocol.V20250618}
	s.note = func(_ *scripted, note *dragoman.Message) { initialized <- note.Method() }
	s.on = map[string]handler{
		protocol.MethodInitialize: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			hello <- req
			return object{"protocolVersion": "2025-06-18", "capabilities": object{}}, nil
		},
		"x": func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) { return object{}, nil },
	}
	r := newRig(t, dragoman.Local(s), nil, &down.Options{Name: "us", Version: "7"})
	r.want(t.Context(), "x", object{"sampling": object{}, "extensions": object{"e": object{}}}, nil)
	req := receive(t, hello, "initialize")
	if string(req.Get("protocolVersion")) != `"2025-11-25"` || string(req.Get("capabilities")) != `{"extensions":{"e":{}},"sampling":{}}` ||
		string(req.Get("clientInfo")) != `{"name":"test","version":"1"}` {
		t.Errorf("the server got %s", req)
	}
	if m := receive(t, initialized, "initialized"); m != protocol.NoteInitialized {
		t.Errorf("got %s", m)
	}
	r.want(as(t.Context(), "other"), "x", nil, object{"_meta": object{protocol.MetaClientInfo: nil}})
	if req = receive(t, hello, "initialize"); string(req.Get("clientInfo")) != `{"name":"us","version":"7"}` {
		t.Errorf("the server got %s", req)
	}
}

func TestHandshakeThatFails(t *testing.T) {
	initialize := func(f handler) *script {
		return &script{on: map[string]handler{protocol.MethodInitialize: f}}
	}
	for _, test := range []struct {
		what   string
		server *script
		code   int
		why    string
	}{
		{"refused", initialize(func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
			return nil, &dragoman.Error{Code: -32000, Message: "go away"}
		}), protocol.CodeUnavailable, "go away"},
		{"a version nobody knows", initialize(func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
			return object{"protocolVersion": "1999-01-01"}, nil
		}), protocol.CodeInternal, "1999-01-01"},
		{"a modern version", initialize(func(context.Context, *scripted, *dragoman.Message, dragoman.Peer) (any, error) {
			return object{"protocolVersion": "2026-07-28"}, nil
		}), protocol.CodeInternal, "2026-07-28"},
		{"lost", initialize(func(_ context.Context, c *scripted, _ *dragoman.Message, _ dragoman.Peer) (any, error) {
			_ = c.client.Close()
			return object{}, nil
		}), protocol.CodeUnavailable, "initialize failed"},
	} {
		t.Run(test.what, func(t *testing.T) {
			peertest.NoLeak(t)
			r := newRig(t, dragoman.Local(test.server), nil, nil)
			e := r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("x", nil)), test.code, test.why)
			if test.code == protocol.CodeUnavailable && string(e.Data) != `{"source":"gateway","outcome":"not_sent"}` {
				t.Errorf("data is %s", e.Data)
			}
			if n := len(r.dial.living()); n != 0 {
				t.Errorf("%d conversations were left open", n)
			}
		})
	}
	t.Run("not dialled", func(t *testing.T) {
		r := newRig(t, dragoman.Local(&script{}), nil, nil)
		r.dial.failWith(errors.New("no such program"))
		r.refused(t.Context(), r.request(protocol.MethodDiscover, nil, nil), protocol.CodeUnavailable, "no such program")
		r.dial.failWith(nil)
		r.refused(t.Context(), r.request(protocol.MethodDiscover, nil, nil), protocol.CodeInternal, "")
	})
}

func TestRevisionThatTheServerNamesIsAskedFor(t *testing.T) {
	peertest.NoLeak(t)
	var asked []string
	s := &script{on: map[string]handler{
		protocol.MethodInitialize: func(_ context.Context, _ *scripted, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			var version string
			_ = json.Unmarshal(req.Get("protocolVersion"), &version)
			if asked = append(asked, version); version != "2025-03-26" {
				return nil, &dragoman.Error{Code: -32602, Message: "Unsupported protocol version", Data: json.RawMessage(`{"supported":["2024-11-05","2025-03-26","2030-01-01"]}`)}
			}
			return object{"protocolVersion": version}, nil
		},
	}}
	r := newRig(t, dragoman.Local(s), nil, nil)
	r.want(t.Context(), protocol.MethodDiscover, nil, nil)
	if len(asked) != 2 {
		t.Errorf("asked for %v", asked)
	}
}

func TestNothingIsServedAfterClose(t *testing.T) {
	peertest.NoLeak(t)
	r := newRig(t, legacy(protocol.V20251125, builtin.Options{}), nil, nil)
	r.want(t.Context(), protocol.MethodListTools, nil, nil)
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	r.refused(t.Context(), r.request(protocol.MethodListTools, nil, nil), protocol.CodeDraining, "stopping")
	r.refused(t.Context(), r.request(protocol.MethodCallTool, canAll, callParams("echo", nil)), protocol.CodeDraining, "stopping")
	if n := len(r.dial.living()); n != 0 {
		t.Errorf("%d conversations are open", n)
	}
}
