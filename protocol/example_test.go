package protocol_test

import (
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func ExampleRevision() {
	for _, name := range []string{"2025-03-26", "2026-07-28"} {
		rev := protocol.ParseRevision(name)
		fmt.Println(rev, rev.Era(), "batches:", rev.HasBatch(), "sessions:", rev.HasSessions())
	}
	// Output:
	// 2025-03-26 legacy batches: true sessions: true
	// 2026-07-28 modern batches: false sessions: false
}

func ExampleReadEnvelope() {
	req, _ := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil)
	_, err := protocol.ReadEnvelope(req)
	fmt.Println(err)

	req, _ = protocol.Envelope{Version: protocol.Latest.String()}.Put(req)
	e, err := protocol.ReadEnvelope(req)
	fmt.Println(e.Version, string(e.Capabilities), err)
	// Output:
	// params._meta lacks io.modelcontextprotocol/protocolVersion; every request names its revision
	// 2026-07-28 {} <nil>
}
