package dragoman

import (
	"context"
	"errors"
)

// Methods is a Peer made of functions, by the methods that they answer. A function
// returns the result, as JSON text or as a value to encode, or an error. An [*Error] is
// the answer as it is, any other error one with the code -32603; a request whose method is
// not there is answered with -32601. The function of a notification is called too, and its
// result is of no use; a notification whose method is not there is ignored.
//
// The zero value refuses everything. The map must not change while it is used.
type Methods map[string]func(ctx context.Context, req *Message, from Peer) (result any, err error)

// Call answers a request by the function of its method.
func (m Methods) Call(ctx context.Context, req *Message, from Peer) (*Message, error) {
	f := m[req.Method()]
	if f == nil {
		return NoPeer.Call(ctx, req, from)
	}
	result, err := f(ctx, req, from)
	if err == nil {
		var resp *Message
		if resp, err = req.Reply(result); err == nil {
			return resp, nil
		}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return req.Fail(e), nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return req.Fail(&Error{Code: codeInternal, Message: "Internal error: " + err.Error()}), nil
}

// Notify calls the function of a notification.
func (m Methods) Notify(ctx context.Context, note *Message) error {
	f := m[note.Method()]
	if f == nil {
		return nil
	}
	_, err := f(ctx, note, nil)
	return err
}
