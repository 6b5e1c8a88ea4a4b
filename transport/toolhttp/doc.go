// Package toolhttp carries tool calls over plain HTTP: one POST for each call,
// without a handshake or a session, answered by JSON or by an event stream.
//
//	server := &toolhttp.Server{Requests: peer}
//	http.Handle("/call/", http.StripPrefix("/call", server))
//
//	conn, err := (&toolhttp.Client{URL: "https://example.com/call"}).Dial(ctx, nil)
//
// # Paths
//
// A [Server] has a base and one path for each tool below it. It does not know
// where it is mounted: the prefix before its base is stripped where it is mounted,
// so that "" and "/" are the base and "/echo" is the tool echo.
//
//	mux.Handle("/call", http.StripPrefix("/call", server))
//	mux.Handle("/call/", http.StripPrefix("/call", server))
//
// The name of a tool is one segment of the path, in which a slash is %2F.
//
//	GET  base         {"tools":[…]}, as the server lists them
//	POST base         a JSON-RPC request tools/call; the answer is its response
//	POST base/{tool}  the arguments, or nothing; the answer is the bare result
//
// # Answers
//
// Status 200 carries a result, also one that says isError. It has content with at
// least one item: if the server's has none, it gets an empty text. All other
// statuses carry a JSON-RPC error, with the id of the request where the caller
// gave one, else null.
//
//	400  −32700, −32600, −32602, −32601: not JSON, no tool request or one of another
//	     method than tools/call, arguments that do not fit the tool's inputSchema;
//	     data says path and reason
//	403  Host or Origin is not allowed
//	404  an unknown tool (−32602), or a server without tools (−32601)
//	405, 406, 408, 413, 415  method, Accept, a slow or large body, Content-Type
//	422  −32021: the tool wants to ask its caller, or to answer later as a task;
//	     over plain HTTP neither is possible
//	502  −31001, −31003, −31006: the server is not there, was lost, or said too
//	     much; −32603 if its answer is no tool response
//	503  −31004, −31005: a limit was reached, or we are stopping; with Retry-After
//	504  −31002: no answer in time
//	500  all others
//
// # Event streams
//
// A caller whose Accept names text/event-stream gets one, with these events:
//
//	result    a fragment of the result: {"content":[…],"_meta":{"progress":1,"total":3}}
//	complete  the JSON-RPC response, whole; its id is ours if the caller gave none
//	error     a JSON-RPC error
//
// The last two end the stream. A server makes a fragment by telling its progress:
// a notifications/progress whose params have a content array is a fragment with
// that content, and one that has just a message is a fragment with that text.
// Fragments that a slow reader leaves waiting beyond 1,024 or 4 MiB are left out,
// since complete has everything. A comment is sent when nothing else is. What is
// wrong with a request is reported by a status, before there is a stream.
//
// A caller that leaves cancels its call.
package toolhttp
