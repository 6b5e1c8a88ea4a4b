package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxItems is how many items a list may have.
const MaxItems = 100_000

// Tools returns all tools of the server.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	return list[Tool](ctx, c, protocol.MethodListTools, "tools")
}

// Resources returns all resources of the server.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	return list[Resource](ctx, c, protocol.MethodListResources, "resources")
}

// Templates returns all templates of resources.
func (c *Client) Templates(ctx context.Context) ([]Template, error) {
	return list[Template](ctx, c, protocol.MethodListTemplates, "resourceTemplates")
}

// Prompts returns all prompts of the server.
func (c *Client) Prompts(ctx context.Context) ([]Prompt, error) {
	return list[Prompt](ctx, c, protocol.MethodListPrompts, "prompts")
}

// Pages yields the pages of a list as the server wrote them, by the method that asks
// for it. An error is the last.
func (c *Client) Pages(ctx context.Context, method string) iter.Seq2[*dragoman.Message, error] {
	return func(yield func(*dragoman.Message, error) bool) {
		req, err := c.request(method, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		for resp, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) {
			return c.finishCall(ctx, req.WithID(c.newID()), nil)
		}) {
			if errors.Is(err, protocol.ErrEndless) {
				err = c.unreadable(method, err)
			}
			if !yield(resp, err) {
				return
			}
		}
	}
}

// list returns the items of all pages.
func list[T any](ctx context.Context, c *Client, method, member string) ([]T, error) {
	var all []T
	for resp, err := range c.Pages(ctx, method) {
		if err != nil {
			return nil, err
		}
		var page []T
		if items := resp.Get(member); items == nil {
			return nil, c.unreadable(method, fmt.Errorf("the result has no %s", member))
		} else if err := json.Unmarshal(items, &page); err != nil {
			return nil, c.unreadable(method, err)
		}
		if all = append(all, page...); len(all) > MaxItems {
			return nil, c.unreadable(method, fmt.Errorf("the list has more than %d items", MaxItems))
		}
	}
	return all, nil
}

// unreadable is the error of an answer that is not what it should be.
func (c *Client) unreadable(method string, err error) error {
	e := c.wrap(NetworkError, method, true, err)
	e.Advice = "the server's answer is not what the protocol says: report it to the server's makers"
	return e
}

// fetch sends a request and reads the result.
func fetch[T any](ctx context.Context, c *Client, method string, params any) (*T, error) {
	resp, err := c.do(ctx, method, params, nil)
	if err != nil {
		return nil, err
	}
	return decode[T](c, method, resp)
}

// decode reads a result.
func decode[T any](c *Client, method string, resp *dragoman.Message) (*T, error) {
	v := new(T)
	if err := resp.Decode(v); err != nil {
		return nil, c.unreadable(method, err)
	}
	return v, nil
}
