package adapt_test

import (
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	const read = protocol.MethodReadResource
	for _, c := range []struct {
		name           string
		client, server protocol.Revision
		method         string
		code           int
		rest           string // of the error object
		want           int
		wantRest       string // "" if it is rest
	}{
		{"no resource, for a modern client", v5, v4, read, -32002, `"message":"no such","data":{"uri":"u","n":1.0}`, -32602, ""},
		{"also of other methods", v5, v1, "resources/subscribe", -32002, `"message":"no such"`, -32602, ""},
		{"no resource, for a legacy client", v3, v5, read, -32602, `"message":"m","data":{"x":1e5,"uri":"u"},"y":1`, -32002, ""},
		{"said in words", v1, v5, read, -32602, `"message":"Resource not found: x"`, -32002, ""},
		{"bad params of a read", v4, v5, read, -32602, `"message":"uri must be a string"`, -32602, ""},
		{"bad params of a call", v4, v5, call, -32602, `"message":"tool not found","data":{"uri":"u"}`, -32602, ""},
		{"between legacy revisions", v1, v4, read, -32002, `"message":"m"`, -32002, ""},
		{"headers are our own matter", v4, v5, call, -32020, `"message":"Mcp-Name says a","data":{"h":1}`, -32603, `"message":"Mcp-Name says a"`},
		{"so is the revision", v1, v5, call, -32022, `"data":{"supported":[]},"message":"revision"`, -32603, `"message":"revision"`},
		{"a missing capability is told", v4, v5, call, -32021, `"message":"m","data":{"requiredCapabilities":{}}`, -32021, ""},
		{"what a legacy server does not mean", v5, v4, call, -32020, `"message":"m","data":1`, -32603, ""},
		{"either", v5, v3, call, -32099, `"message":"m"`, -32603, ""},
		{"a missing capability, said as modern servers do", v5, v4, call, -32021, `"message":"m","data":{"requiredCapabilities":{"sampling":{}}}`, -32021, ""},
		{"capabilities of another kind", v5, v4, call, -32021, `"message":"m","data":{"requiredCapabilities":"sampling"}`, -32603, ""},
		{"or this", v5, v3, call, -32021, `"message":"m"`, -32603, ""},
		{"a visit, for who has not looked", v5, v4, call, -32042, `"message":"m","data":{"elicitations":[]}`, -32603, ""},
		{"just outside, below", v5, v4, call, -32019, `"message":"m"`, -32019, ""},
		{"just outside, above", v5, v4, call, -32100, `"message":"m"`, -32100, ""},
		{"a visit between legacy revisions", v3, v4, call, -32042, `"message":"m"`, -32042, ""},
		{"anything else, up", v4, v5, call, -32603, `"message":"m","data":{"a":1}`, -32603, ""},
		{"anything else, down", v5, v4, call, 17, `"message":"m"`, 17, ""},
		{"the same revision", v4, v4, call, -32020, `"message":"m"`, -32020, ""},
		{"the same modern revision", v5, v5, read, -32602, `"message":"not found"`, -32602, ""},
	} {
		format := `{"jsonrpc":"2.0", "id":"r","x":1,"error":{"code":%d,%s}}`
		resp := parse(t, fmt.Sprintf(format, c.code, c.rest))
		got, err := route(c.client, c.server).Response(c.method, resp, []byte(`{}`))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.wantRest == "" {
			c.wantRest = c.rest
		}
		if want := fmt.Sprintf(format, c.want, c.wantRest); got.String() != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
		if c.code == c.want && got != resp {
			t.Errorf("%s: copied", c.name)
		}
	}
}
