package adapt

import (
	"fmt"
	"strconv"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A blocks adapts blocks of content, one after the other, for somebody who
// speaks rev.
type blocks struct {
	rev   protocol.Revision
	embed bool // content may embed resources
	n     int  // resources made up so far
}

// embedding adapts content of results, which may embed resources.
func (r Route) embedding() *blocks { return &blocks{rev: r.Client, embed: true} }

// changesBlocks reports whether content in there may have to be changed for the
// client.
func (r Route) changesBlocks(data []byte) bool {
	switch {
	case !r.Client.HasAudio():
		return contains(data, pieceAudio, pieceLink)
	case !r.Client.HasResourceLinks():
		return contains(data, pieceLink)
	}
	return false
}

// block returns a block of content as something that the revision has.
func (b *blocks) block(value []byte) []byte {
	switch kind := dragoman.MemberText(value, "type"); {
	case kind == "audio" && !b.rev.HasAudio():
		return b.audio(value)
	case kind == "resource_link" && !b.rev.HasResourceLinks():
		return link(value)
	}
	return value
}

// audio returns a sound as an embedded resource that holds it, where there are
// such, or as a text that says what was there.
func (b *blocks) audio(block []byte) []byte {
	data, mime := dragoman.Member(block, "data"), dragoman.Member(block, "mimeType")
	if _, ok := dragoman.Text(data); !ok || !b.embed {
		return asText(block, placeholder("audio", block))
	}
	b.n++
	resource := join(`"resource":{"uri":"dragoman:audio/`, strconv.Itoa(b.n), `",`)
	if _, ok := dragoman.Text(mime); ok {
		resource = join(resource, `"mimeType":`, mime, `,`)
	}
	return withType(block, "resource", join(resource, `"blob":`, data, `}`))
}

// link returns a link to a resource as a text with its name, URI and
// description.
func link(block []byte) []byte {
	name := dragoman.MemberText(block, "title")
	if name == "" {
		name = dragoman.MemberText(block, "name")
	}
	s := dragoman.MemberText(block, "uri")
	if name != "" {
		s = name + ": " + s
	}
	if more := dragoman.MemberText(block, "description"); more != "" {
		s += "\n" + more
	}
	return asText(block, s)
}

// placeholder says what a block was that cannot be shown.
func placeholder(kind string, block []byte) string {
	s := kind
	if mime := dragoman.MemberText(block, "mimeType"); mime != "" {
		s += " of type " + mime
	}
	if data := dragoman.MemberText(block, "data"); data != "" {
		s += fmt.Sprintf(", %d bytes", len(data)/4*3)
	}
	return "[" + s + "]"
}

// asText returns a block as one of text.
func asText(block []byte, s string) []byte {
	return withType(block, "text", join(`"text":`, dragoman.Quote(s)))
}

// withType returns a block as one of another type. What only its old type has is
// dropped, and replaced by more.
func withType(block []byte, kind string, more []byte) []byte {
	return edited(block, func(name string, value []byte) []byte {
		switch name {
		case "type":
			return dragoman.Quote(kind)
		case "data", "mimeType", "uri", "name", "title", "description", "size", "icons", "text", "resource":
			return nil
		}
		return value
	}, more)
}

// textBlock returns a block of text.
func textBlock(s string) []byte { return join(`{"type":"text","text":`, dragoman.Quote(s), `}`) }
