package adapt

import "github.com/dragoman-mcp/dragoman/protocol"

// A Route says which revisions the two sides of a conversation speak. A side
// that is Unknown is taken for one that has none of the later features.
type Route struct{ Client, Server protocol.Revision }

// Same reports whether nothing has to be changed. Then every other method returns
// its argument.
func (r Route) Same() bool { return r.Client == r.Server }

// up reports whether a legacy client speaks with a modern server, down the
// reverse.
func (r Route) up() bool   { return r.Client.Era() < r.Server.Era() }
func (r Route) down() bool { return r.Client.Era() > r.Server.Era() }

// wraps reports whether the server's structured output may be of any JSON type
// and the client takes objects only.
func (r Route) wraps() bool {
	return r.Server.HasAnyStructuredContent() && r.Client.HasStructuredContent() && !r.Client.HasAnyStructuredContent()
}

// changesStructured reports whether structured output may have to be changed for
// the client, or left out.
func (r Route) changesStructured() bool { return r.wraps() || !r.Client.HasStructuredContent() }

// samplesTools reports whether sampling may offer tools and carry several blocks
// of content in one message. That came with the URLs of elicitation.
func samplesTools(rev protocol.Revision) bool { return rev.HasURLElicitation() }
