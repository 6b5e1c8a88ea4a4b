// Command client lists the tools of a server and calls one. The server is a URL, or a command.
//
//	go run ./examples/client http://127.0.0.1:8900/mcp roll '{"dice": 3}'
//	go run ./examples/client "go run ./examples/server 127.0.0.1:0" roll '{"dice": 3}'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: client URL|COMMAND TOOL ARGUMENTS")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, where, tool, arguments string) error {
	server := &client.Server{Command: strings.Fields(where), InheritEnv: []string{"*"}}
	if strings.Contains(where, "://") {
		server = &client.Server{URL: where}
	}
	c, err := client.Connect(ctx, server, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Printf("%s speaks MCP %s\n", c.ServerInfo().Name, c.Revision())
	tools, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range tools {
		fmt.Printf("- %s: %s\n", t.Name, t.Description)
	}
	result, err := c.CallTool(ctx, tool, json.RawMessage(arguments), &client.CallOptions{
		OnProgress: func(p client.Progress) { fmt.Printf("%g of %g\n", p.Progress, p.Total) },
	})
	if err != nil {
		return err
	}
	fmt.Println(result.Text())
	return nil
}
