package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/aggregate"
)

// A union is several servers as one: those of a group, or all. It lives as long
// as its group is configured, whatever servers come and go.
type union struct {
	all   *aggregate.Aggregate
	front *era.Front // for clients of both eras
	plain bool       // names are left as they are
}

func newUnion(g *Gateway, plain bool) *union {
	all := aggregate.New(&aggregate.Options{Name: g.opts.Name, Version: g.opts.Version, Plain: plain, Logger: g.log})
	var served dragoman.Peer = all
	if g.audit != nil {
		served = &unionRecorder{all, g.audit}
	}
	return &union{all: all, plain: plain, front: era.NewFront(served, &era.FrontOptions{
		Name: g.opts.Name, Version: g.opts.Version, Logger: g.log,
		Ended: func(ctx context.Context) {
			for _, up := range g.manager.Upstreams() {
				up.End(ctx)
			}
		},
	})}
}

func (u *union) backend() *Backend {
	return &Backend{Acceptor: u.front, Sessions: u.front, Requests: u.front.Requests()}
}

// close ends what is under way. Its doors have been shut before.
func (u *union) close() {
	_ = u.all.Close() // listens end with their results while there is somebody to tell
	_ = u.front.Close()
}
