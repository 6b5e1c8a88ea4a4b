// Command dragoman bridges MCP clients and servers over any transport and any
// protocol revision.
package main

import "github.com/dragoman-mcp/dragoman/internal/cli"

func main() { cli.Main() }
