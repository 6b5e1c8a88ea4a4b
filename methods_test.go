package dragoman_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

func TestMethodsAnswerByTheirNames(t *testing.T) {
	cancelled := errors.New("cancelled")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(cancelled)
	told := ""
	m := dragoman.Methods{
		"value": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
			return map[string]int{"n": 1}, nil
		},
		"text": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) { return []byte(`{"n": 2}`), nil },
		"refused": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
			return nil, &dragoman.Error{Code: 7, Message: "no"}
		},
		"failed": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
			return nil, errors.New("disk full")
		},
		"broken": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) { return make(chan int), nil },
		"left":   func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (any, error) { return nil, ctx.Err() },
		"note": func(_ context.Context, note *dragoman.Message, _ dragoman.Peer) (any, error) {
			told = note.Method()
			return nil, nil
		},
	}
	for method, want := range map[string]string{
		"value":   `{"jsonrpc":"2.0","id":1,"result":{"n":1}}`,
		"text":    `{"jsonrpc":"2.0","id":1,"result":{"n": 2}}`,
		"refused": `{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"no"}}`,
		"failed":  `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error: disk full"}}`,
		"broken":  `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error: json: unsupported type: chan int"}}`,
		"other":   `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: other"}}`,
	} {
		resp, err := m.Call(t.Context(), request(t, method), nil)
		if err != nil || resp.String() != want {
			t.Errorf("%s: %v, %v, want %s", method, resp, err, want)
		}
	}
	if resp, err := m.Call(gone, request(t, "left"), nil); resp != nil || !errors.Is(err, cancelled) {
		t.Errorf("a caller who has left gets %v, %v", resp, err)
	}
	for _, method := range []string{"note", "other"} {
		note, err := dragoman.NewNotification(method, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Notify(t.Context(), note); err != nil || told != "note" {
			t.Errorf("%s: told %q, %v", method, told, err)
		}
	}
}

func request(t *testing.T, method string) *dragoman.Message {
	t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(1), method, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
