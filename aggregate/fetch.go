package aggregate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Limits of one member's list. At a limit the rest is left out, and logged.
const (
	MaxPages    = 100
	MaxElements = 10_000
	MaxBytes    = 16 << 20
)

// metaCached marks the result of a member that is not there and whose last known
// list is served. Ours names those members.
const metaCached = "dragoman/cached"

// A haul is a member's whole list.
type haul struct {
	keys     []string // what tells the elements apart
	elements [][]byte // as they came
	ttl      int64    // in milliseconds
	public   bool
	cached   bool
}

var (
	errSlow = errors.New("no answer in time") // ends the wait for a member
	errNone = errors.New("no answer")         // is what a Peer does not do
)

// fetch asks a member for a list, page by page. A member that does not know the
// method has nothing of the kind.
func (a *Aggregate) fetch(ctx context.Context, m *member, k kind, req *dragoman.Message) (*haul, error) {
	h := &haul{ttl: -1, public: true}
	seen := make(map[string]bool)
	cursors := make(map[string]bool)
	size := 0
	for page := 1; ; page++ {
		resp, err := m.Requests().Call(ctx, req, nil)
		switch {
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, errNone
		case resp.IsError() && resp.RPCError().Code == protocol.CodeMethodNotFound:
			return h, nil
		case resp.IsError():
			return nil, resp.RPCError()
		}
		h.hints(resp)
		list := resp.Get(lists[k].array)
		for start, end := range walk.Elements(list) {
			element := list[start:end:end]
			key := walk.TextOf(element, lists[k].key)
			if key == "" || !walk.IsObject(element) || seen[key] {
				a.log.Warn("an element of a list is left out: it has no "+lists[k].key+" of its own", "server", m.Name(), "list", lists[k].method, "key", key)
				continue
			}
			if k == tools && !m.offers.Offers(key) {
				continue
			}
			if size += len(element); len(h.keys) == MaxElements || size > MaxBytes {
				a.log.Warn("a list is too long; the rest is left out", "server", m.Name(), "list", lists[k].method, "elements", len(h.keys), "bytes", size)
				return h, nil
			}
			seen[key] = true
			h.keys, h.elements = append(h.keys, key), append(h.elements, element)
		}
		next := resp.Get("nextCursor")
		switch {
		case len(next) == 0 || next[0] != '"':
			return h, nil
		case cursors[string(next)]:
			return nil, fmt.Errorf("the list never ends: it gives the cursor %.40s twice", next)
		case page == MaxPages:
			a.log.Warn("a list has too many pages; the rest is left out", "server", m.Name(), "list", lists[k].method, "pages", page)
			return h, nil
		}
		cursors[string(next)] = true
		if req, err = req.Edit().Set("cursor", next).Message(); err != nil {
			return nil, err
		}
	}
}

// hints takes in how long a page holds and for whom, and whether it is old.
func (h *haul) hints(resp *dragoman.Message) {
	var ttl float64
	_ = json.Unmarshal(resp.Get("ttlMs"), &ttl) // what cannot be read is stale at once
	ms := int64(min(max(ttl, 0), float64(24*time.Hour/time.Millisecond)))
	if h.ttl < 0 || ms < h.ttl {
		h.ttl = ms
	}
	scope, _ := walk.Text(resp.Get("cacheScope"))
	h.public = h.public && scope == "public"
	h.cached = h.cached || string(resp.Meta(metaCached)) == "true"
}

// An answer is what one member said, or why it did not.
type answer[T any] struct {
	value T
	err   error
}

// gather asks n questions in parallel, for PerMember at most, and returns the answers
// in their order. It never takes longer, even if who is asked does.
func gather[T any](ctx context.Context, a *Aggregate, n int, ask func(ctx context.Context, i int) (T, error)) ([]answer[T], error) {
	answers := make([]answer[T], n)
	ctx, cancel := context.WithTimeoutCause(ctx, a.opts.PerMember, errSlow)
	defer cancel()
	type one struct {
		at int
		answer[T]
	}
	came := make(chan one, n) // has room for all, so that nobody waits for us
	for i := range n {
		answers[i].err = errSlow
		// Ends with the answer, or when ctx does, as a Peer promises.
		if !a.busy.Start(func() {
			v, err := ask(ctx, i)
			came <- one{i, answer[T]{v, err}}
		}) {
			return nil, dragoman.ErrClosed
		}
	}
	for range n {
		select {
		case o := <-came:
			answers[o.at] = o.answer
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, errSlow) {
				return nil, cause
			}
			return answers, nil
		case <-a.ctx.Done():
			return nil, dragoman.ErrClosed
		}
	}
	return answers, nil
}
