package everything

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// maxCompletions is how many values the protocol allows in one answer.
const maxCompletions = 100

func complete(_ context.Context, c *call) (any, error) {
	var params struct {
		Ref struct {
			Type string `json:"type"`
			Name string `json:"name"`
			URI  string `json:"uri"`
		} `json:"ref"`
		Argument *struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"argument"`
		Context struct {
			Arguments map[string]string `json:"arguments"`
		} `json:"context"`
	}
	if err := c.req.Decode(&params); err != nil {
		return nil, invalid("params of completion/complete cannot be read: %v", err)
	}
	if params.Argument == nil {
		return nil, invalid("params.argument is missing; it must have a name and a value")
	}
	var values []string
	switch ref := params.Ref; ref.Type {
	case "ref/prompt":
		p := c.server.findPrompt(ref.Name)
		if p == nil {
			return nil, invalid("unknown prompt: %q; prompts/list names those there are", ref.Name)
		}
		values = p.complete(params.Argument.Name, params.Context.Arguments)
	case "ref/resource":
		i := slices.IndexFunc(c.server.templates, func(t *template) bool { return t.uri() == ref.URI })
		if i < 0 {
			return nil, invalid("unknown resource template: %q; resources/templates/list names those there are", ref.URI)
		}
		values = c.server.templates[i].complete(params.Argument.Name)
	default:
		return nil, invalid("params.ref.type is %q; it must be ref/prompt or ref/resource", ref.Type)
	}
	return completion(values, params.Argument.Value), nil
}

// completion returns those values that begin with what was typed.
func completion(values []string, typed string) object {
	found := []string{}
	for _, v := range values {
		if strings.HasPrefix(v, typed) {
			found = append(found, v)
		}
	}
	total := len(found)
	found = found[:min(total, maxCompletions)]
	return object{"completion": object{"values": found, "total": total, "hasMore": total > len(found)}}
}

// complete returns all values of an argument. Those of arg2 depend on what arg1
// is, where the client tells.
func (p *prompt) complete(argument string, known map[string]string) []string {
	switch {
	case p.name != "test_prompt_with_arguments":
		return nil
	case argument == "arg1":
		return []string{"paris", "park", "party", "test", "testing"}
	case argument == "arg2" && known["arg1"] != "":
		return []string{known["arg1"] + "-one", known["arg1"] + "-two"}
	case argument == "arg2":
		return []string{"one", "two"}
	}
	return nil
}

// complete returns all values of a template's variable.
func (t *template) complete(argument string) []string {
	if argument != t.variable || t.name != "template" {
		return nil
	}
	var ids []string
	for id := range 150 {
		ids = append(ids, strconv.Itoa(id+1))
	}
	return ids
}
