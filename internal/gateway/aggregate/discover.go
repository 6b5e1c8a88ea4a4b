package aggregate

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Limits of instructions, in bytes: of one member, and of all. What is longer is
// cut.
const (
	MaxInstructions    = 4 << 10
	MaxAllInstructions = 32 << 10
)

// facts is what a member says of itself.
type facts struct {
	capabilities []byte // an object
	instructions string
	memberList
}

// discover answers for all members: we can what any of them can and is routed here. Lists may always
// change, since members may. One that does not answer is taken to be what it was,
// and if nothing is known of it, to be able to do everything: clients of the legacy
// era ask but once.
func (a *Aggregate) discover(ctx context.Context, r *request, _ kind) (*dragoman.Message, error) {
	members := r.group.members
	req, err := r.Edit().DropMeta(protocol.MetaProgressToken).Message()
	if err != nil {
		return nil, err
	}
	answers, err := gather(ctx, a, len(members), func(ctx context.Context, i int) (*facts, error) {
		return members[i].discover(ctx, req)
	})
	if err != nil {
		return nil, err
	}
	var (
		all     capabilities
		missing []string
		texts   = []string{truncate(a.opts.Instructions, MaxAllInstructions)}
		s       = &snapshot{ttl: -1, public: true}
	)
	for i, m := range members {
		f := answers[i].value
		if err := answers[i].err; err != nil {
			a.log.Debug("a server does not say what it can do", "server", m.Name(), "error", err)
			missing = append(missing, m.Name())
			f = m.facts.Load()
		} else {
			s.narrow(&f.memberList)
			m.facts.Store(f)
		}
		if f == nil {
			all.everything()
			continue
		}
		all.add(f.capabilities)
		if f.instructions != "" {
			texts = append(texts, "# "+m.Name()+"\n"+f.instructions)
		}
	}
	if len(members) == 0 {
		all.everything()
	}
	if s.ttl < 0 || missing != nil {
		s.ttl, s.public = 0, false
	}
	return r.Reply(a.discoverResult(s, &all, truncate(strings.TrimPrefix(strings.Join(texts, "\n\n"), "\n\n"), MaxAllInstructions), missing))
}

// discoverResult makes the result of server/discover.
func (a *Aggregate) discoverResult(s *snapshot, all *capabilities, instructions string, missing []string) []byte {
	scope := "private"
	if s.public {
		scope = "public"
	}
	out := join(`{"resultType":"`, protocol.ResultComplete, `","supportedVersions":`, array(protocol.NamesOf(protocol.Modern)), `,"capabilities":`, all.object())
	if instructions != "" {
		out = join(out, `,"instructions":`, dragoman.Quote(instructions))
	}
	out = join(out, `,"ttlMs":`, strconv.FormatInt(s.ttl, 10), `,"cacheScope":"`, scope, `","_meta":`, a.meta(missing, nil))
	return append(out, '}')
}

// discover asks a member.
func (m *member) discover(ctx context.Context, req *dragoman.Message) (*facts, error) {
	resp, err := m.Requests().Call(ctx, req, nil)
	switch {
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, errNone
	case resp.IsError():
		return nil, resp.RPCError()
	}
	f := &facts{capabilities: resp.Get("capabilities"), memberList: memberList{ttl: -1, public: true}}
	f.readHints(resp)
	text, _ := dragoman.Text(resp.Get("instructions"))
	f.instructions = truncate(text, MaxInstructions)
	return f, nil
}

// truncate returns a text that is no longer than that, in bytes.
func truncate(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	const end = "…"
	return strings.ToValidUTF8(text[:longest-len(end)], "") + end
}

// capabilities are what any of several servers can do and is served here, by name.
type capabilities struct{ core, extensions map[string][]byte }

// everything is what a server may be able to do of which nothing is known.
func (c *capabilities) everything() {
	c.add([]byte(`{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}`))
}

// add adds those capabilities of a server that are served here. Of a capability or an
// extension that two have, each setting is that of the first.
func (c *capabilities) add(capabilities []byte) {
	if c.core == nil {
		c.core, c.extensions = make(map[string][]byte), make(map[string][]byte)
	}
	for name, value := range dragoman.Members(capabilities) {
		if name != "extensions" {
			merge(c.core, name, value)
			continue
		}
		for id, settings := range dragoman.Members(value) {
			merge(c.extensions, id, settings)
		}
	}
}

// merge adds a capability or an extension, if it is served here, with the settings that
// it does not have yet or that are false.
func merge(to map[string][]byte, name string, value []byte) {
	left, ok := served[name]
	if !ok || !dragoman.IsObject(value) {
		return
	}
	all := to[name]
	if all == nil {
		all = []byte("{}")
	}
	for setting, v := range dragoman.Members(value) {
		if old := dragoman.Member(all, setting); !slices.Contains(left, setting) && (old == nil || string(old) == "false") {
			all = dragoman.WithMember(all, setting, v)
		}
	}
	to[strings.Clone(name)] = all
}

// object returns all that as an object. Lists may always change.
func (c *capabilities) object() []byte {
	for _, name := range [...]string{"tools", "prompts", "resources"} {
		if value := c.core[name]; value != nil {
			c.core[name] = dragoman.WithMember(value, "listChanged", []byte("true"))
		}
	}
	if len(c.extensions) > 0 {
		c.core["extensions"] = object(c.extensions)
	}
	return object(c.core)
}

// object returns an object with these members, in the order of their names.
func object(members map[string][]byte) []byte {
	out := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, dragoman.Quote(name)...), ':'), members[name]...)
	}
	return append(out, '}')
}
