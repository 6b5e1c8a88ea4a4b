package auth

import (
	"context"
	"errors"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
)

type userKey struct{}

// A localUser is a user of this machine.
type localUser struct {
	uid  int
	name string // as a principal
}

// SocketCaller returns who is on the other side of a socket without HTTP, where a system
// user is all that can be proven, or why that one is not let in.
func (p *Policy) SocketCaller(c net.Conn) (*dragoman.Caller, error) {
	o := p.now.Load()
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		host = c.RemoteAddr().Network()
	}
	caller := &dragoman.Caller{Address: host}
	if o.Anyone {
		return caller, nil
	}
	id := o.local(WithPeer(context.Background(), c))
	if id == nil {
		return nil, errors.New("it has not proven who it is: auth.users names who may come in by Unix sockets")
	}
	caller.Principal, caller.Credential = id.principal, id.proof
	return caller, nil
}

// Self returns the caller that is whoever has started this process.
func Self() *dragoman.Caller {
	return &dragoman.Caller{Principal: localName(os.Getuid()), Credential: "process", Address: "stdio"}
}

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
	return context.WithValue(ctx, userKey{}, localUser{uid, localName(uid)})
}

// local returns which user of this machine is on the other side of a connection, if that
// one is let in, or nil.
func (o *Options) local(ctx context.Context) *identity {
	u, ok := ctx.Value(userKey{}).(localUser)
	if !ok || !slices.Contains(o.Users, u.uid) {
		return nil
	}
	return &identity{principal: u.name, proof: "socket"}
}

// localName returns how a user of this machine is called.
func localName(uid int) string {
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return "local:" + name
}
