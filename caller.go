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
