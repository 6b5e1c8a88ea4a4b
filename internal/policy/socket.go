package policy

import (
	"context"
	"net"
	"os/user"
	"slices"
	"strconv"
)

type userKey struct{}

// WithPeer returns the context of a connection that remembers which user of this machine
// is on the other side, where the system says that: of Unix sockets on Linux.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	for {
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = inner.NetConn()
	}
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, ok := peerUser(socket)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, userKey{}, uid)
}

// local returns which user of this machine is on the other side of a connection, if that
// one is let in, or nil.
func (o *Options) local(ctx context.Context) *identity {
	uid, ok := ctx.Value(userKey{}).(int)
	if !ok || !slices.Contains(o.Users, uid) {
		return nil
	}
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return &identity{principal: "local:" + name, proof: "socket"}
}
