package protocol_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestToolChecks(t *testing.T) {
	const (
		request = `{"jsonrpc":"2.0","id":1,"method":"tools/call"%s}`
		result  = `{"jsonrpc":"2.0","id":1,"result":%s}`
		failure = `{"jsonrpc":"2.0","id":1,"error":%s}`
	)
	cases := []struct {
		name  string
		check func(*dragoman.Message) error
		frame string
		part  string
		want  string // what the error says behind the package, "" if the message is right
	}{
		{"A01 name alone", protocol.CheckToolRequest, request, `,"params":{"name":"x"}`, ""},
		{"A01 arguments and more", protocol.CheckToolRequest, request, `,"params":{"_meta":{},"arguments":{"a":1},"name":"x","task":{}}`, ""},
		{"A01 no params", protocol.CheckToolRequest, request, ``, "params is missing; it must be an object with the tool's name"},
		{"A01 no name", protocol.CheckToolRequest, request, `,"params":{}`, "params.name is missing; it must name the tool"},
		{"A01 name is a number", protocol.CheckToolRequest, request, `,"params":{"name":7}`, "params.name is a number, not a string"},
		{"A01 name is null", protocol.CheckToolRequest, request, `,"params":{"name":null}`, "params.name is null, not a string"},
		{"A01 name is empty", protocol.CheckToolRequest, request, `,"params":{"name":""}`, "params.name is empty; it must name the tool"},
		{"A01 arguments are an array", protocol.CheckToolRequest, request, `,"params":{"name":"x","arguments":[]}`, "params.arguments is an array, not an object"},
		{"A01 arguments are null", protocol.CheckToolRequest, request, `,"params":{"name":"x","arguments":null}`, ""},
		{"A01 other method", protocol.CheckToolRequest, `{"jsonrpc":"2.0","id":1,"method":"tools/list"%s}`, ``, `method is "tools/list", not "tools/call"`},
		{"A01 notification", protocol.CheckToolRequest, `{"jsonrpc":"2.0","method":"tools/call"%s}`, ``, "message is a notification, not a request"},
		{"A01 response", protocol.CheckToolRequest, result, `{}`, "message is a response, not a request"},

		{"A02 text", protocol.CheckToolResponse, result, `{"content":[{"type":"text","text":""}]}`, ""},
		{"A02 all types", protocol.CheckToolResponse, result, `{"content":[ {"type":"image","data":"","mimeType":"image/png"} , {"type":"audio","data":"","mimeType":"audio/wav"},
			{"type":"resource","resource":{"uri":"x"}},{"type":"resource_link","uri":"x","name":"y"}]}`, ""},
		{"A02 type of the future", protocol.CheckToolResponse, result, `{"content":[{"type":"hologram"}]}`, ""},
		{"A02 structured metadata", protocol.CheckToolResponse, result, `{"content":[{"type":"text","text":"x","annotations":{}}],"structuredContent":{"a":1},"isError":true,"_meta":{"a":1},"more":1}`, ""},
		{"A02 result is a string", protocol.CheckToolResponse, result, `"x"`, "result is a string, not an object"},
		{"A02 no content", protocol.CheckToolResponse, result, `{}`, "result.content is missing; it must be an array that is not empty"},
		{"A02 content is an object", protocol.CheckToolResponse, result, `{"content":{}}`, "result.content is an object, not an array"},
		{"A02 content is empty", protocol.CheckToolResponse, result, `{"content":[ ]}`, "result.content is empty; a tool response has at least one item"},
		{"A02 item is a string", protocol.CheckToolResponse, result, `{"content":[{"type":"text","text":"x"}, "y"]}`, "result.content[1] is a string, not an object"},
		{"A02 item without a type", protocol.CheckToolResponse, result, `{"content":[{"text":"x"}]}`, "result.content[0].type is missing"},
		{"A02 type is a number", protocol.CheckToolResponse, result, `{"content":[{"type":1}]}`, "result.content[0].type is a number, not a string"},
		{"A02 text without text", protocol.CheckToolResponse, result, `{"content":[{"type":"text"}]}`, `result.content[0].text is missing in an item of type "text"`},
		{"A02 text is a number", protocol.CheckToolResponse, result, `{"content":[{"type":"text","text":1}]}`, "result.content[0].text is a number, not a string"},
		{"A02 image without a type", protocol.CheckToolResponse, result, `{"content":[{"type":"image","data":""}]}`, `result.content[0].mimeType is missing in an item of type "image"`},
		{"A02 resource is a string", protocol.CheckToolResponse, result, `{"content":[{"type":"resource","resource":"x"}]}`, "result.content[0].resource is a string, not an object"},
		{"A02 isError is a string", protocol.CheckToolResponse, result, `{"content":[{"type":"x"}],"isError":"no"}`, "result.isError is a string, not a boolean"},
		{"A02 error response", protocol.CheckToolResponse, failure, `{"code":1,"message":"x"}`, "message is not a response with a result"},
		{"A02 request", protocol.CheckToolResponse, request, ``, "message is not a response with a result"},

		{"A03 code and message", protocol.CheckToolError, failure, `{"code":-32603,"message":"disk full"}`, ""},
		{"A03 with data and more", protocol.CheckToolError, failure, `{"data":{"reason":"x"},"message":"x","code":7,"more":1}`, ""},
		{"A03 no code", protocol.CheckToolError, failure, `{"message":"x"}`, "error.code is missing"},
		{"A03 code is a string", protocol.CheckToolError, failure, `{"code":"E1","message":"x"}`, "error.code is a string, not an integer"},
		{"A03 code is a fraction", protocol.CheckToolError, failure, `{"code":1.5,"message":"x"}`, "error.code is 1.5, not an integer"},
		{"A03 code has an exponent", protocol.CheckToolError, failure, `{"code":1e3,"message":"x"}`, "error.code is 1e3, not an integer"},
		{"A03 no message", protocol.CheckToolError, failure, `{"code":1}`, "error.message is missing; it must say what went wrong"},
		{"A03 message is null", protocol.CheckToolError, failure, `{"code":1,"message":null}`, "error.message is null, not a string"},
		{"A03 message is an object", protocol.CheckToolError, failure, `{"code":1,"message":{}}`, "error.message is an object, not a string"},
		{"A03 message is blank", protocol.CheckToolError, failure, `{"code":1,"message":" \n"}`, "error.message is empty; it must say what went wrong"},
		{"A03 result", protocol.CheckToolError, result, `{}`, "message is not an error response"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := peertest.Parse(t, fmt.Sprintf(c.frame, c.part))
			err := c.check(m)
			var wrong *protocol.CheckError
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && !errors.As(err, &wrong):
				t.Errorf("%s: got %v, want a CheckError", m, err)
			case c.want != "" && err.Error() != "protocol: "+c.want:
				t.Errorf("got  %v\nwant protocol: %s", err, c.want)
			}
		})
	}
}
