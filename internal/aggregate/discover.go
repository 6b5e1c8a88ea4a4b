package aggregate

import (
	"context"
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

// discover answers for all members: we can what any of them can. Lists may always
// change, since members may. One that does not answer is taken to be what it was,
// and if nothing is known of it, to be able to do everything: clients of the legacy
// era ask but once.
func (a *Aggregate) discover(ctx context.Context, r *request) (*dragoman.Message, error) {
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

// capabilities are what any of several servers can do.
type capabilities struct {
	names  []string // in the order in which they came
	values map[string][]byte
}

// everything is what a server may be able to do of which nothing is known.
func (c *capabilities) everything() {
	c.add([]byte(`{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}`))
}

// add adds the capabilities of a server. Of a capability that two have, each
// setting is that of the first; of those that stand for themselves, like
// extensions, likewise.
func (c *capabilities) add(capabilities []byte) {
	if c.values == nil {
		c.values = make(map[string][]byte)
	}
	for name, value := range dragoman.Members(capabilities) {
		n := strings.Clone(name)
		old, known := c.values[n]
		if !known {
			c.names = append(c.names, n)
			old = []byte("{}")
			if !dragoman.IsObject(value) {
				old = value
			}
		}
		c.values[n] = union(old, value)
	}
}

// union returns an object with the members of both. Of two with the same name the
// first counts, unless it is false.
func union(a, b []byte) []byte {
	if !dragoman.IsObject(a) {
		return a
	}
	for name, value := range dragoman.Members(b) {
		if old := dragoman.Member(a, name); old == nil || string(old) == "false" {
			a = dragoman.WithMember(a, name, value)
		}
	}
	return a
}

// object returns all that as an object. Lists may always change.
func (c *capabilities) object() []byte {
	slices.Sort(c.names)
	out := []byte{'{'}
	for i, name := range c.names {
		value := c.values[name]
		switch name {
		case "tools", "prompts", "resources":
			if dragoman.IsObject(value) {
				value = dragoman.WithMember(value, "listChanged", []byte("true"))
			}
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, dragoman.Quote(name)...), ':'), value...)
	}
	return append(out, '}')
}
