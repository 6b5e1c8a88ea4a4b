package adapt

import (
	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Answer returns the client's answer to a question of that method as the
// server's revision has it. An error passes: what it means to a modern server,
// which has no form for it, is up to the one who runs the rounds of input.
func (r Route) Answer(method string, resp *dragoman.Message) (*dragoman.Message, error) {
	if r.Same() || resp.IsError() || !dragoman.IsObject(resp.Result()) {
		return resp, nil
	}
	e := resp.Edit()
	if r.up() || r.down() {
		e.Drop("resultType") // answers have none in either era
	}
	if method == protocol.MethodCreateMessage && !samplesTools(r.Server) {
		if content := resp.Get("content"); content != nil {
			set(e, "content", content, oneBlock(content, &blocks{rev: r.Server}))
		}
	}
	return e.Message()
}
