package aggregate

import (
	"context"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// metaMissing names, in the result of a list, the members that have not answered.
const metaMissing = "dragoman/missing"

// list answers a request for a list: what all members have, in their order.
func (a *Aggregate) list(ctx context.Context, r *request, k kind) (*dragoman.Message, error) {
	caller := callerOf(ctx)
	if cursor := r.Get("cursor"); cursor != nil && string(cursor) != "null" && string(cursor) != `""` {
		return a.pages.next(r, k, caller, cursor)
	}
	req, err := r.Edit().Drop("cursor").DropMeta(protocol.MetaProgressToken).Message()
	if err != nil {
		return nil, err
	}
	b := r.group.book(caller)
	asked := time.Now()
	members := r.group.members
	changes := make([]uint64, len(members))
	for i, m := range members {
		changes[i] = m.changes[k].Load()
	}
	answers, err := gather(ctx, a, len(members), func(ctx context.Context, i int) (*haul, error) {
		return a.fetch(ctx, members[i], k, req)
	})
	if err != nil {
		return nil, err
	}
	var missing, cached []string
	s := &snapshot{kind: k, caller: caller, ttl: -1, public: true}
	for i, m := range members {
		if err := answers[i].err; err != nil {
			if !m.silent[k].Swap(true) { // once, not for everybody who asks
				a.log.Warn("a server is left out of a list", "server", m.Name(), "list", lists[k].method, "error", err)
			}
			b.fail(k, m, asked, changes[i])
			missing = append(missing, m.Name())
			continue
		}
		if m.silent[k].Swap(false) {
			a.log.Info("a server is in a list again", "server", m.Name(), "list", lists[k].method)
		}
		b.note(k, m, answers[i].value.keys, changes[i])
	}
	x := b.indexed(k)
	for i, m := range members {
		if h := answers[i].value; answers[i].err == nil {
			s.hold(h)
			if h.cached {
				cached = append(cached, m.Name())
			}
			a.offer(s, x, m, h)
		}
	}
	if s.ttl < 0 || len(missing) > 0 {
		s.ttl, s.public = 0, false // come back soon
	}
	s.meta = join(`{"`, protocol.MetaServerInfo, `":`, a.info)
	if missing != nil {
		s.meta = join(s.meta, `,"`, metaMissing, `":`, array(missing))
	}
	if cached != nil {
		s.meta = join(s.meta, `,"`, metaCached, `":`, array(cached))
	}
	s.meta = append(s.meta, '}')
	return a.pages.first(r, s)
}

// hold notes for how long and for whom a member's part holds: the least counts.
func (s *snapshot) hold(h *haul) {
	ttl := max(h.ttl, 0)
	if s.ttl < 0 || ttl < s.ttl {
		s.ttl = ttl
	}
	s.public = s.public && h.public
}

// offer adds what a member has, under the names that it has here.
func (a *Aggregate) offer(s *snapshot, x *index, m *member, h *haul) {
	for i, own := range h.keys {
		name, element := x.name(m, own), h.elements[i]
		if name == "" {
			a.leftOut(x, s.kind, m, own)
			continue
		}
		if name != own {
			element = walk.With(element, lists[s.kind].key, walk.Quote(name))
		}
		if text, ok := m.offers.Describe[own]; ok && s.kind == tools {
			element = walk.With(element, "description", walk.Quote(text))
		}
		s.elements = append(s.elements, element)
	}
}

// leftOut logs, once, that something is not offered because another member has it
// too.
func (a *Aggregate) leftOut(x *index, k kind, m *member, own string) {
	if _, ok := x.told.LoadOrStore(target{m, own}, true); !ok {
		a.log.Warn("two servers have the same; that of the first is offered", lists[k].noun, own, "left out", m.Name())
	}
}

// result makes the result of one page.
func (s *snapshot) result(from, to int, cursor string) []byte {
	size := 256 + len(s.meta)
	for _, e := range s.elements[from:to] {
		size += len(e) + 1
	}
	scope := "private"
	if s.public {
		scope = "public"
	}
	out := make([]byte, 0, size)
	out = append(out, `{"resultType":"`+protocol.ResultComplete+`","ttlMs":`...)
	out = strconv.AppendInt(out, s.ttl, 10)
	out = append(out, `,"cacheScope":"`+scope+`","`+lists[s.kind].array+`":[`...)
	for i, e := range s.elements[from:to] {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	out = append(out, ']')
	if cursor != "" {
		out = append(append(out, `,"nextCursor":`...), walk.Quote(cursor)...)
	}
	out = append(append(out, `,"_meta":`...), s.meta...)
	return append(out, '}')
}
