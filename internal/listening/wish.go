package listening

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A wish is a resource that somebody wants to hear of, and waits for that.
type wish struct {
	uri  string
	done chan error // gets nil when it is granted; has room for it
	gone bool       // nobody waits for it any more; guarded by the Keeper's mu
}

// Add has changes of a resource told, until Remove. It returns when the server has
// acknowledged that, or why it has not: a refusal of the server's is a
// *[dragoman.Error]. If ctx ends before, the resource is not added.
func (k *Keeper) Add(ctx context.Context, uri string) error {
	w := &wish{uri: uri, done: make(chan error, 1)}
	if err := k.enter(w); err != nil {
		return err
	}
	k.rouse()
	select {
	case err := <-w.done:
		return err
	case <-k.over:
		return dragoman.ErrClosed
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case err := <-w.done: // meanwhile
		return err
	default:
	}
	w.gone = true
	return context.Cause(ctx)
}

// enter notes a wish. The error says that there are too many.
func (k *Keeper) enter(w *wish) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if limit := k.opts.Max; limit > 0 && !k.uris[w.uri] && len(k.uris)+k.asking >= limit {
		return protocol.Overloaded(fmt.Sprintf("a session may subscribe to %d resources; unsubscribe from some first", limit))
	}
	delete(k.dropped, w.uri)
	k.wishes = append(k.wishes, w)
	k.asking++
	return nil
}

// Remove ends what Add began. Nothing more is told of the resource; the server gets to
// know in a while.
func (k *Keeper) Remove(uri string) {
	k.mu.Lock()
	known := k.uris[uri]
	if known {
		k.drop(uri)
	}
	k.mu.Unlock()
	if known {
		k.rouse()
	}
}

// drop has changes of a resource told no more, though a listen may tell of them. The
// caller holds mu.
func (k *Keeper) drop(uri string) {
	delete(k.uris, uri)
	if !slices.Contains(k.base.URIs, uri) {
		k.dropped[uri] = true
	}
}

// take takes out the wishes that somebody waits for, and returns what to listen for,
// with them.
func (k *Keeper) take() (wishes []*wish, want protocol.Interest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.wishes {
		if w.gone {
			k.asking--
			continue
		}
		wishes = append(wishes, w)
	}
	k.wishes = nil
	want = k.base
	want.URIs = slices.AppendSeq(slices.Clone(k.base.URIs), maps.Keys(k.uris))
	for _, w := range wishes {
		want.URIs = append(want.URIs, w.uri)
	}
	slices.Sort(want.URIs) // the same set is the same request
	want.URIs = slices.Compact(want.URIs)
	return wishes, want
}

// grant answers wishes by what a listen hears. It returns how many it hears.
func (k *Keeper) grant(wishes []*wish, l *listen) (granted int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking -= len(wishes)
	for _, w := range wishes {
		switch {
		case !l.hears(w.uri):
			w.done <- &dragoman.Error{
				Code:    protocol.CodeInvalidParams,
				Message: "the server does not tell of changes of " + w.uri + "; resources/list names those there are",
			}
		case w.gone && !k.uris[w.uri]:
			k.drop(w.uri)
			k.signal() // the next listen is without it
		default:
			k.uris[w.uri] = true
			granted++
			w.done <- nil
		}
	}
	return granted
}

// refuse answers wishes that could not be sent to the server.
func (k *Keeper) refuse(wishes []*wish, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking -= len(wishes)
	for _, w := range wishes {
		w.done <- err
	}
}
