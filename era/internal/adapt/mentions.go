package adapt

import "bytes"

// Pieces of strings with their quotes, to find out quickly whether a text may
// hold them. Eight bytes are found several times faster than more.
const (
	pieceAudio      = `"audio"`
	pieceLink       = `ce_link"` // resource_link
	pieceStructured = `Content"` // structuredContent
	pieceSchema     = `"outputS` // outputSchema
	pieceExecution  = `"executi` // execution
	pieceTask       = `"task"`
	pieceToolResult = `_result"` // tool_result
)

// contains reports whether JSON text may hold a string of one of these pieces, as
// a name or a value. It may be wrong only if it says yes.
func contains(data []byte, pieces ...string) bool {
	for _, p := range pieces {
		if bytes.Contains(data, []byte(p)) {
			return true
		}
	}
	return len(pieces) > 0 && bytes.Contains(data, []byte(`\u`)) // any letter may be spelt like that
}
