// Command server is an MCP server with one tool, for clients of every revision: on standard
// input and output, on Streamable HTTP at /mcp, and on WebSocket at /ws.
//
//	go run ./examples/server 127.0.0.1:8900
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

const tools = `{"tools": [{"name": "roll", "description": "Rolls dice.", "inputSchema": {
	"type": "object", "properties": {"dice": {"type": "integer"}, "sides": {"type": "integer", "default": 6}}, "required": ["dice"]}}]}`

func main() {
	server := era.FromMethods(dragoman.Methods{
		"tools/list": func(context.Context, *dragoman.Message, dragoman.Peer) (any, error) {
			return json.RawMessage(tools), nil
		},
		"tools/call": roll,
	}, &era.FrontendOptions{Name: "dice", Version: "1.0.0"})
	defer server.Close()

	mux := http.NewServeMux()
	mux.Handle("/mcp", &streamable.Server{Sessions: server, Requests: server.Requests()})
	mux.Handle("/ws", &ws.Server{Acceptor: server, Requests: server.Requests()})
	at := "127.0.0.1:8900"
	if len(os.Args) > 1 {
		at = os.Args[1]
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s/mcp and ws://%s/ws", listener.Addr(), listener.Addr())
	go func() { log.Fatal(http.Serve(listener, mux)) }() //nolint:gosec // an example needs no time limits

	if err := stdio.Serve(context.Background(), server, nil); err != nil { // until standard input ends
		log.Fatal(err)
	}
}

// roll answers tools/call, and tells its progress to who called.
func roll(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (any, error) {
	var call struct {
		Name      string
		Arguments struct{ Dice, Sides int }
	}
	call.Arguments.Sides = 6
	if err := req.Decode(&call); err != nil || call.Name != "roll" || call.Arguments.Dice < 1 || call.Arguments.Dice > 100 || call.Arguments.Sides < 1 {
		return nil, &dragoman.Error{Code: -32602, Message: "call roll with 1 to 100 dice"}
	}
	sum := 0
	for i := range call.Arguments.Dice {
		sum += 1 + rand.IntN(call.Arguments.Sides) //nolint:gosec // dice
		if token := req.Meta("progressToken"); token != nil && from != nil {
			note, err := dragoman.NewNotification("notifications/progress", map[string]any{"progressToken": token, "progress": i + 1, "total": call.Arguments.Dice})
			if err == nil {
				_ = from.Notify(ctx, note) // who does not listen misses it
			}
		}
	}
	return map[string]any{"content": []any{map[string]string{"type": "text", "text": fmt.Sprint(sum)}}}, nil
}
