package builtin_test

import (
	"context"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
)

func ExampleNew() {
	server := builtin.New(nil)
	ctx := context.Background()
	client, err := dragoman.Local(server).Dial(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`,
		`{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`,
	} {
		req, err := dragoman.Limits{}.Parse([]byte(text))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := client.Call(ctx, req, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s%s\n", resp.ID(), string(resp.Get("protocolVersion")), string(resp.Get("content")))
	}
	// Output:
	// 1: "2025-06-18"
	// "two": [{"text":"hello","type":"text"}]
}
