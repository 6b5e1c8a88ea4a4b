package adapt

import (
	"bytes"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// sample adapts a question to the client's model.
func (r Route) sample(e *dragoman.Edit, q *dragoman.Message) *dragoman.Error {
	if !samplesTools(r.Client) {
		if q.Get("tools") != nil || q.Get("toolChoice") != nil {
			return r.unsupported(protocol.CodeInvalidParams, "offer tools to its model (sampling with tools)")
		}
		return r.plainMessages(e, q)
	}
	if tools := q.Get("tools"); tools != nil && r.changesTools(tools) {
		set(e, "tools", tools, r.tools(tools))
	}
	if messages := q.Get("messages"); r.wraps() && contains(messages, pieceToolResult) {
		set(e, "messages", messages, mapped(messages, wrapResults))
	}
	return nil
}

// plainMessages adapts the messages to revisions in which each has one block of
// content. Several blocks become as many messages.
func (r Route) plainMessages(e *dragoman.Edit, q *dragoman.Message) *dragoman.Error {
	var refusal *dragoman.Error
	b := &blocks{rev: r.Client}
	block := func(value []byte) []byte {
		switch kind := dragoman.MemberText(value, "type"); kind {
		case "tool_use", "tool_result":
			refusal = r.unsupported(protocol.CodeInvalidParams, "show %s to its model", kind)
		}
		return b.block(value)
	}
	messages := q.Get("messages")
	now := mapped(messages, func(message []byte) []byte {
		content := dragoman.Member(message, "content")
		if len(content) == 0 || content[0] != '[' {
			return withContent(message, block(content))
		}
		var several [][]byte
		for _, item := range dragoman.Items(content) {
			several = append(several, withContent(message, block(item)))
		}
		if several == nil {
			return withContent(message, textBlock(""))
		}
		return bytes.Join(several, []byte(","))
	})
	set(e, "messages", messages, now)
	return refusal
}

// withContent returns a message with other content.
func withContent(message, content []byte) []byte {
	return edited(message, func(name string, value []byte) []byte {
		if name == "content" {
			return content
		}
		return value
	}, nil)
}

// wrapResults makes objects of the structured content of the tool results in a
// message.
func wrapResults(message []byte) []byte {
	block := func(value []byte) []byte {
		if dragoman.MemberText(value, "type") != "tool_result" {
			return value
		}
		return edited(value, func(name string, value []byte) []byte {
			if name == "structuredContent" && !dragoman.IsObject(value) {
				return wrapped(value)
			}
			return value
		}, nil)
	}
	content := dragoman.Member(message, "content")
	if dragoman.IsObject(content) {
		return withContent(message, block(content))
	}
	return withContent(message, mapped(content, block))
}

// oneBlock returns the content of a model's answer as the only block that a
// revision before several blocks can take.
func oneBlock(content []byte, b *blocks) []byte {
	if dragoman.IsObject(content) {
		return b.block(content)
	}
	var first []byte
	var texts []string
	for _, block := range dragoman.Items(content) {
		if first == nil {
			first = block
		}
		if kind := dragoman.MemberText(block, "type"); kind == "text" {
			texts = append(texts, dragoman.MemberText(block, "text"))
		} else {
			texts = append(texts, placeholder(kind, block))
		}
	}
	if len(texts) == 1 {
		return b.block(first)
	}
	return textBlock(strings.Join(texts, "\n"))
}
