package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A prompt is a row of the table of prompts. All arguments are required.
type prompt struct {
	name        string
	title       string
	description string
	arguments   []argument
	get         func(ctx context.Context, c *call, args map[string]string) ([]block, error)
}

type argument struct{ name, description string }

// addedPrompt is in the list only after test_trigger_prompt_change.
const addedPrompt = "test_added_prompt"

// allPrompts returns the table of prompts, in the order in which they are
// listed. Each gives messages of the user.
func allPrompts() []*prompt {
	return []*prompt{{
		name: "test_simple_prompt", title: "Simple prompt",
		description: "A prompt without arguments.",
		get:         fixedPrompt(text("This is a simple prompt for testing.")),
	}, {
		name: "test_prompt_with_arguments", title: "Prompt with arguments",
		description: "A prompt with two arguments, which can be completed.",
		arguments:   []argument{{"arg1", "First test argument"}, {"arg2", "Second test argument"}},
		get: func(_ context.Context, _ *call, args map[string]string) ([]block, error) {
			return []block{text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"]))}, nil
		},
	}, {
		name: "test_prompt_with_embedded_resource", title: "Prompt with a resource",
		description: "A prompt that holds a resource.",
		arguments:   []argument{{"resourceUri", "URI of the resource to embed"}},
		get: func(_ context.Context, _ *call, args map[string]string) ([]block, error) {
			return []block{
				embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
				text("Please process the embedded resource above."),
			}, nil
		},
	}, {
		name: "test_prompt_with_image", title: "Prompt with an image",
		description: "A prompt that holds an image.",
		get:         fixedPrompt(picture(), text("Please analyze the image above.")),
	}, {
		name: "test_input_required_result_prompt", title: "Prompt with a question",
		description: "A prompt for which the user is asked.",
		get:         promptWithQuestion,
	}, {
		name: addedPrompt, title: "Added prompt",
		description: "Is there only after test_trigger_prompt_change.",
		get:         fixedPrompt(text("This prompt was added while the server ran.")),
	}}
}

func fixedPrompt(content ...block) func(context.Context, *call, map[string]string) ([]block, error) {
	return func(context.Context, *call, map[string]string) ([]block, error) { return content, nil }
}

func promptWithQuestion(ctx context.Context, c *call, _ map[string]string) ([]block, error) {
	got, err := c.ask(ctx, elicitation("user_context", "What context should the prompt use?",
		form{{name: "context", kind: "string", required: true}}))
	if err != nil {
		return nil, err
	}
	about, ok := got.entered("user_context", "context")
	if !ok {
		about = "none was given"
	}
	return []block{text("Context: " + about)}, nil
}

func (s *Server) listedPrompts() []*prompt {
	if s.hasAdded(protocol.MethodListPrompts) {
		return s.prompts
	}
	return slices.DeleteFunc(slices.Clone(s.prompts), func(p *prompt) bool { return p.name == addedPrompt })
}

func (s *Server) findPrompt(name string) *prompt {
	all := s.listedPrompts()
	if i := slices.IndexFunc(all, func(p *prompt) bool { return p.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

func listPrompts(_ context.Context, c *call) (any, error) {
	var all []object
	for _, p := range c.server.listedPrompts() {
		d := object{"name": p.name, "description": p.description}
		if c.rev.HasTitles() {
			d["title"] = p.title
		}
		var args []object
		for _, a := range p.arguments {
			args = append(args, object{"name": a.name, "description": a.description, "required": true})
		}
		if args != nil {
			d["arguments"] = args
		}
		all = append(all, d)
	}
	return page(c, "prompts", all)
}

func getPrompt(ctx context.Context, c *call) (any, error) {
	p := c.server.findPrompt(c.req.Name())
	if p == nil {
		return nil, invalid("unknown prompt: %q; prompts/list names those there are", c.req.Name())
	}
	var args map[string]string
	if text := c.req.Get("arguments"); text != nil {
		if json.Unmarshal(text, &args) != nil {
			return nil, invalid("params.arguments of a prompt must be an object of strings")
		}
	}
	for _, a := range p.arguments {
		if _, ok := args[a.name]; !ok {
			return nil, invalid("argument %q of the prompt %s is missing: %s", a.name, p.name, a.description)
		}
	}
	content, err := p.get(ctx, c, args)
	if err != nil {
		return nil, err
	}
	var messages []object
	for _, b := range adapt(c.rev, content) {
		messages = append(messages, object{"role": "user", "content": b})
	}
	return object{"description": p.description, "messages": messages}, nil
}

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
