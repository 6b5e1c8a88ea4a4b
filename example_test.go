package dragoman_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman"
)

func ExampleParse() {
	m, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Kind(), m.ID(), m.Method(), m.Name())
	fmt.Println(string(m.Get("arguments")))
	// Output:
	// request 7 tools/call echo
	// {"text":"hi"}
}

func ExampleParse_refused() {
	_, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","Method":"tools/list"}`))
	var p *dragoman.ParseError
	if errors.As(err, &p) {
		fmt.Println(p.Response())
	}
	// Output:
	// {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Invalid request: member name can be mistaken for \"method\" at byte 46"}}
}

func ExampleMessage_Edit() {
	m, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"web.search", "arguments":{"n":1.0}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err = m.WithID(dragoman.StringID("up-1")).Edit().
		Set("name", []byte(`"search"`)).
		SetMeta("progressToken", []byte(`1`)).
		Message()
	fmt.Println(m, err)
	// Output:
	// {"jsonrpc":"2.0","id":"up-1","method":"tools/call","params":{"_meta":{"progressToken":1},"name":"search", "arguments":{"n":1.0}}} <nil>
}

func ExampleNewRequest() {
	m, err := dragoman.NewRequest(dragoman.IntID(1), "tools/call", map[string]any{"name": "echo"})
	fmt.Println(m, err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}} <nil>
}

func ExamplePipe() {
	server := dragoman.Funcs{
		OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return req.Reply(map[string]string{"hello": req.Name()})
		},
	}
	toServer, _ := dragoman.Pipe(dragoman.NoPeer, server)
	defer toServer.Close()

	req, err := dragoman.NewRequest(dragoman.IntID(1), "greet", map[string]string{"name": "Ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := toServer.Call(context.Background(), req, nil)
	fmt.Println(resp, err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"hello":"Ada"}} <nil>
}

func ExampleLocal() {
	server := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.NoPeer, nil
	})
	conn, err := dragoman.Local(server).Dial(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(conn.Close(), conn.Err())
	// Output:
	// <nil> dragoman: conversation closed
}

func ExampleMethods() {
	server := dragoman.Methods{
		"greet": func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (any, error) {
			return map[string]string{"hello": req.Name()}, nil
		},
	}
	for _, method := range []string{"greet", "leave"} {
		req, err := dragoman.NewRequest(dragoman.IntID(1), method, map[string]string{"name": "Ada"})
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := server.Call(context.Background(), req, nil)
		fmt.Println(resp, err)
	}
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"hello":"Ada"}} <nil>
	// {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: leave"}} <nil>
}

func ExamplePeerAs() {
	conn, _ := dragoman.Pipe(nil, nil)
	defer conn.Close()
	_, correlates := dragoman.PeerAs[dragoman.Correlator](conn)
	_, limits := dragoman.PeerAs[dragoman.CallLimiter](conn)
	fmt.Println(correlates, limits)
	// Output: true false
}
