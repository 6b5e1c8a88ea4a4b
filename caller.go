package dragoman

import "context"

type callerKey struct{}

// WithCaller returns the context of a request that who makes. The door through
// which a request comes sets it, and nobody else does.
func WithCaller(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// CallerOf returns who makes a request, or "" if its door does not tell callers
// apart.
func CallerOf(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(string)
	return who
}

type sessionKey struct{}

// WithSession returns the context of a request that belongs to a session of its
// caller. Who carries sessions to a peer that has none sets it.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// SessionOf returns the session that a request belongs to, or "" if it belongs to
// none, or to one that its peer knows anyway.
func SessionOf(ctx context.Context) string {
	id, _ := ctx.Value(sessionKey{}).(string)
	return id
}

// As returns ctx with caller and session of another context, for what is done on
// behalf of a request but outlives it.
func As(ctx, other context.Context) context.Context {
	if who := CallerOf(other); who != "" {
		ctx = WithCaller(ctx, who)
	}
	if id := SessionOf(other); id != "" {
		ctx = WithSession(ctx, id)
	}
	return ctx
}
