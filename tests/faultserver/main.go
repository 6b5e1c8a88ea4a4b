// Faultserver is the fault server by itself, for tests that start very many.
package main

import "github.com/dragoman-mcp/dragoman/internal/testkit/fault"

func main() { fault.Main() }
