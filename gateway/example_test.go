package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A program that has a gateway in it, and a client of all its servers as one.
func ExampleNew() {
	file, remove := exampleFile()
	defer remove()
	config, err := gateway.Load(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	g, err := gateway.New(config, &gateway.Options{Name: "example", Version: "1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(g.Handler(nil, nil))
	defer func() {
		fmt.Println("cut:", g.Shutdown(ctx))
		web.Close()
	}()

	c, err := client.Connect(ctx, &client.Server{URL: web.URL + "/mcp"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "demo_echo", map[string]string{"text": "hello"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text())
	for _, s := range g.Status().Servers {
		fmt.Println(s.Name, "is", s.State)
	}
	// Output:
	// hello
	// demo is ready
	// cut: <nil>
}

// exampleFile writes a configuration with one server.
func exampleFile() (file string, remove func()) {
	demo := builtin.New(nil)
	web := httptest.NewServer(&streamable.Server{Sessions: demo, Requests: demo.Requests()})
	dir, err := os.MkdirTemp("", "gateway-example")
	if err != nil {
		panic(err)
	}
	file = filepath.Join(dir, "dragoman.yaml")
	if err := os.WriteFile(file, []byte("servers: {demo: {url: "+web.URL+"}}\n"), 0o600); err != nil {
		panic(err)
	}
	return file, func() {
		_ = demo.Close()
		web.Close()
		_ = os.RemoveAll(dir)
	}
}
