// Package stdio carries MCP over byte streams: the standard streams of a child
// process ([Command]), our own ([Serve]), and TCP and Unix sockets ([Address],
// [Server]).
//
//	conn, err := (&stdio.Command{Path: "npx", Args: []string{"-y", "some-server"}}).Dial(ctx, nil) // a client
//	err := stdio.Serve(ctx, acceptor, nil)                                                         // a server
//
// A message is a line, or a frame with a Content-Length header as in the
// Language Server Protocol. A reader takes both and tells them apart by the
// first bytes of each message. A server answers in the framing that its client uses; a client
// writes lines unless told otherwise.
//
// The limits: a line or frame may have 16 MiB unless configured; a longer one
// is skipped, and the call that it answered fails with [dragoman.ErrTooLarge];
// a line that goes on for eight times the limit ends the conversation.
// docs/design.md has those of calls and bytes under way.
package stdio
