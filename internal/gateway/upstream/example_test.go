package upstream_test

import (
	"context"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
)

// Servers are started as their configuration says, and have clients of both eras.
func Example() {
	m := upstream.New(nil)
	m.Apply([]*config.Server{
		{Name: "files", Command: "files-server", Lazy: true},
		{Name: "search", URL: "https://search.example.com/mcp", Disabled: true},
	})
	for _, u := range m.Upstreams() {
		fmt.Println(u.Name(), "is", u.State())
	}
	changes, _ := m.Apply([]*config.Server{{Name: "files", Command: "files-server", Lazy: true}})
	fmt.Println("kept:", changes.Kept, "removed:", changes.Removed)
	if err := m.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// files is idle
	// search is disabled
	// kept: [files] removed: [search]
}
