package fault

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// roots is the answer to roots/list.
type roots struct {
	Roots []struct {
		URI string `json:"uri"`
	} `json:"roots"`
}

// question is the name of the one question in a round.
const question = "roots"

// serverRequest asks as its era does: a legacy client by a request, a modern one by
// its result.
func serverRequest(ctx context.Context, c *call) (any, error) {
	var answer roots
	switch {
	case !c.modern():
		if c.from == nil {
			return nil, errors.New("fault: there is no client to ask")
		}
		req, err := dragoman.NewRequest(dragoman.StringID("fault"), protocol.MethodListRoots, nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.from.Call(ctx, req, nil)
		if err != nil {
			return nil, err
		}
		if resp.IsError() {
			return c.result(resp.RPCError().Error(), true), nil
		}
		if err := resp.Decode(&answer); err != nil {
			return nil, err
		}
	case c.req.Get("inputResponses") == nil:
		return object{
			"resultType":    protocol.ResultInputRequired,
			"inputRequests": object{question: object{"method": protocol.MethodListRoots}},
			"requestState":  "fault",
		}, nil
	default:
		var answers map[string]json.RawMessage
		if err := json.Unmarshal(c.req.Get("inputResponses"), &answers); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(answers[question], &answer); err != nil {
			return nil, err
		}
	}
	if len(answer.Roots) == 0 {
		return c.result("no roots", true), nil
	}
	return c.result(answer.Roots[0].URI, false), nil
}
