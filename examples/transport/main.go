// Command transport has a transport of its own: a request is a file in a directory, and so is
// its answer. In the modern era a request stands by itself, so that is all it takes.
//
//	go run ./examples/transport serve DIRECTORY &
//	go run ./examples/transport call DIRECTORY text
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/era"
)

func main() {
	var err error
	switch ctx := context.Background(); {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		server := era.FromMethods(dragoman.Methods{"tools/call": func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			var call struct{ Arguments struct{ Text string } }
			err := req.Decode(&call)
			return map[string]any{"content": []any{map[string]string{"type": "text", "text": strings.ToUpper(call.Arguments.Text)}}}, err
		}}, &era.FrontendOptions{Name: "files", Version: "1"})
		defer server.Close()
		err = serve(ctx, os.Args[2], server.Requests())
	case len(os.Args) == 4 && os.Args[1] == "call":
		c := client.New(&mailbox{dir: os.Args[2]}, nil)
		defer c.Close()
		var result *client.ToolResult
		if result, err = c.CallTool(ctx, "shout", map[string]string{"text": os.Args[3]}, nil); err == nil {
			fmt.Println(result.Text())
		}
	default:
		err = errors.New("usage: transport serve DIRECTORY | call DIRECTORY TEXT")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A mailbox is a server that reads a directory. It is a dragoman.Peer, and that is a transport.
type mailbox struct{ dir string }

func (m *mailbox) Call(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	name := filepath.Join(m.dir, fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := put(name+".request", req.Bytes()); err != nil {
		return nil, err
	}
	defer os.Remove(name + ".answer")
	for ctx.Err() == nil {
		text, err := os.ReadFile(name + ".answer")
		if err == nil {
			return dragoman.Parse(text)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, context.Cause(ctx)
}

func (m *mailbox) Notify(context.Context, *dragoman.Message) error { return nil } // nobody asked for any

// serve answers the requests in a directory, by a peer.
func serve(ctx context.Context, dir string, server dragoman.Peer) error {
	for ctx.Err() == nil {
		names, err := filepath.Glob(filepath.Join(dir, "*.request"))
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			_ = os.Remove(name) // it is taken
			req, bad := dragoman.Parse(text)
			if err != nil || bad != nil {
				continue
			}
			go func() {
				if resp, err := server.Call(ctx, req, nil); err == nil {
					_ = put(strings.TrimSuffix(name, ".request")+".answer", resp.Bytes()) // who asked waits in vain
				}
			}()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return context.Cause(ctx)
}

// put writes a file that is there as a whole, or not at all.
func put(name string, text []byte) error {
	return errors.Join(os.WriteFile(name+".new", text, 0o600), os.Rename(name+".new", name))
}
