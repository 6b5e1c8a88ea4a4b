package down

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// enlist makes a subscription hear of the session's changes, as far as the server
// tells of them.
func (v *session) enlist(ctx context.Context, l *listen) error {
	v.mu.Lock()
	if len(v.listens) >= MaxListens {
		v.mu.Unlock()
		return protocol.Overloaded("too many subscriptions are open; end one before you open another")
	}
	v.listens[l] = struct{}{} // from here on nothing is missed
	v.mu.Unlock()
	l.kept = protocol.Interest{
		Tools:     l.wanted.Tools && v.hears && v.serves.Tools.ListChanged,
		Prompts:   l.wanted.Prompts && v.hears && v.serves.Prompts.ListChanged,
		Resources: l.wanted.Resources && v.hears && v.serves.Resources.ListChanged,
	}
	if !v.hears || !v.serves.Resources.Subscribe || len(l.wanted.URIs) == 0 {
		return nil
	}
	if err := v.watching.enter(ctx); err != nil {
		v.strike(l)
		return err
	}
	var err error
	for _, uri := range l.wanted.URIs {
		if len(l.kept.URIs) == MaxURIs {
			break
		}
		if slices.Contains(l.kept.URIs, uri) {
			continue
		}
		if v.watched[uri] == 0 {
			var resp *dragoman.Message
			resp, err = v.ask(ctx, protocol.MethodSubscribe, map[string]string{"uri": uri})
			if err != nil {
				break
			}
			if resp.IsError() {
				v.server.log.Debug("the server refuses a subscription", "uri", uri, "error", resp.RPCError())
				continue
			}
		}
		v.watched[uri]++
		l.kept.URIs = append(l.kept.URIs, uri)
	}
	v.watching.leave()
	if err != nil {
		v.dismiss(l)
	}
	return err
}

// dismiss ends a subscription. The server is told of resources that nobody else
// wants to hear of.
func (v *session) dismiss(l *listen) {
	v.strike(l)
	if len(l.kept.URIs) == 0 || v.over() || v.server.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partTimeout)
	defer cancel()
	if v.watching.enter(ctx) != nil {
		return
	}
	defer v.watching.leave()
	for _, uri := range l.kept.URIs {
		if v.watched[uri]--; v.watched[uri] > 0 {
			continue
		}
		delete(v.watched, uri)
		if _, err := v.ask(ctx, protocol.MethodUnsubscribe, map[string]string{"uri": uri}); errors.Is(err, dragoman.ErrClosed) {
			return
		}
	}
}

func (v *session) strike(l *listen) {
	v.mu.Lock()
	delete(v.listens, l)
	v.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped > 0 {
		v.server.log.Warn("a subscription was not told of everything", "dropped", l.dropped)
	}
}

// changed tells all subscriptions of a change.
func (v *session) changed(note *dragoman.Message) {
	v.mu.Lock()
	all := make([]*listen, 0, len(v.listens))
	for l := range v.listens {
		all = append(all, l)
	}
	v.mu.Unlock()
	for _, l := range all {
		l.put(note)
	}
}

// put adds a change. One that waits already takes the place of the older: the
// client will look at what changed after both.
func (l *listen) put(note *dragoman.Message) {
	if !l.wanted.Wants(note.Method(), note.URI()) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := event{note.Method(), note.URI()}
	i, waits := l.at[e]
	switch {
	case waits:
		l.waiting[i] = note
	case len(l.waiting) >= MaxEvents:
		l.dropped++
	default:
		if l.at == nil {
			l.at = make(map[event]int)
		}
		l.at[e] = len(l.waiting)
		l.waiting = append(l.waiting, note)
	}
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}

// deliver tells the client what waits and is for it.
func (l *listen) deliver(ctx context.Context, r *request, v *session) {
	l.mu.Lock()
	notes := l.waiting
	l.waiting, l.at = nil, nil
	l.mu.Unlock()
	for _, note := range notes {
		if !l.kept.Wants(note.Method(), note.URI()) {
			continue
		}
		if note = v.route(r.rev).Note(note); note == nil {
			continue
		}
		if tagged, err := note.Edit().SetMeta(protocol.MetaSubscriptionID, json.RawMessage(r.ID().String())).Message(); err == nil {
			_ = r.from.Notify(ctx, tagged) // who cannot be told has gone, which ctx will say
		}
	}
}
