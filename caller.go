package dragoman

import "context"

// A Caller is who makes a request. The endpoint through which a request comes makes
// it, once, and what is kept for somebody is bound to it: sessions, lists,
// suspended calls, limits, records. It is not changed once it is in a context.
type Caller struct {
	// Principal is who it is, if that was proven, and Credential says how. Both are
	// empty as long as noCaller is asked to prove anything.
	Principal, Credential string

	// Scopes and Claims are what was proven with it: what the principal has been
	// granted, and what is known of it, such as its groups, by names. They are not
	// changed.
	Scopes []string
	Claims map[string][]string

	// Rights stands for both: it differs between two proofs of one principal that say
	// different things.
	Rights string

	// OnEnd, if not nil, has f called when the proof ends: it has expired, or was
	// taken back. f is called at once if it has, and not any more after stop, which
	// waits for noCaller. Streams without an end of their own end then.
	OnEnd func(f func()) (stop func())

	// Metadata is where a client learns how to get a better proof (RFC 9728), or
	// empty.
	Metadata string

	// Address is where the request comes from, without a port. Client is the name
	// that the program gives itself, which proves nothing: it tells two programs on
	// one machine apart.
	Address, Client string

	// Transport is the transport by which the request came, in a word, or empty if that
	// is not known.
	Transport string

	// Session is the client's own session that the request belongs to, or empty if
	// it belongs to none.
	Session string

	// Header is what came with the request, by canonical names. Which of it is
	// passed on is for the server's configuration to say; Passed identifies what is,
	// without showing it. It may hold secrets.
	Header map[string][]string
	Passed string
}

// Key returns what tells callers apart: the principal, or as long as there is none
// the address and the client's name, and what is passed on for them.
func (c *Caller) Key() string {
	who := c.Principal
	if who == "" {
		who = c.Address
		if c.Client != "" {
			who += " " + c.Client
		}
	}
	if c.Passed != "" {
		who += " #" + c.Passed
	}
	return who
}

// View returns what tells callers apart that may get to see different things: Key, and
// what was proven besides.
func (c *Caller) View() string {
	if c.Rights == "" {
		return c.Key()
	}
	return c.Key() + "\x00" + c.Rights
}

// Identity returns what somebody must have in common with a caller to use what that
// has opened: the principal, and what is passed on. Where a request comes from does
// not count, since a client may change its network.
func (c *Caller) Identity() string {
	if c.Passed == "" {
		return c.Principal
	}
	return c.Principal + " #" + c.Passed
}

// InSession returns the caller in a session of its own.
func (c *Caller) InSession(id string) *Caller {
	in := *c
	in.Session = id
	return &in
}

// noCaller is the caller of a request whose endpoint sets none.
var noCaller = &Caller{}

type callerKey struct{}

// WithCaller returns the context of a request that c makes.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who makes a request. It is never nil.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok && c != nil {
		return c
	}
	return noCaller
}

// WithCallerOf returns ctx with the caller of another context, for what is done on behalf of
// a request but outlives it.
func WithCallerOf(ctx, other context.Context) context.Context {
	if c := CallerOf(other); c != noCaller {
		return WithCaller(ctx, c)
	}
	return ctx
}
