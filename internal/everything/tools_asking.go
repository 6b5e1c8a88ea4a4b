package everything

import (
	"context"
	"encoding/json"
	"fmt"
)

// askingTools ask the client: by requests in the legacy era, by rounds in the
// modern one.
func askingTools() []*tool {
	return []*tool{{
		name: "test_sampling", title: "Sampling",
		description: "Asks the client's model.",
		input: `{"type":"object","properties":{
			"prompt":{"type":"string","description":"what to ask"}},"required":["prompt"]}`,
		run: askModel,
	}, {
		name: "test_elicitation", title: "Elicitation",
		description: "Asks the user for a name and an address.",
		input: `{"type":"object","properties":{
			"message":{"type":"string","description":"what to say to the user"}},"required":["message"]}`,
		run: askUser,
	}, {
		name: "test_elicitation_sep1034_defaults", title: "Elicitation with defaults",
		description: "Asks the user with a form that has a default of each type.",
		run: func(ctx context.Context, c *call) (*toolResult, error) {
			return fillIn(ctx, c, "Please check these values", defaultsForm())
		},
	}, {
		name: "test_elicitation_sep1330_enums", title: "Elicitation with choices",
		description: "Asks the user with a form that has each kind of choice.",
		run: func(ctx context.Context, c *call) (*toolResult, error) {
			return fillIn(ctx, c, "Please choose", choicesForm())
		},
	}, {
		name: "test_elicitation_url", title: "Elicitation by URL",
		description: "Sends the user to a web page.",
		run:         askByURL,
	}, {
		name: "test_streaming_elicitation", title: "Elicitation with progress",
		description: "Tells its progress, then asks the user.",
		run:         askLater,
	}, {
		name: "test_missing_capability", title: "Needs sampling", readOnly: true,
		description: "Works only for clients that can be asked for sampling, though it does not ask.",
		run:         needSampling,
	}}
}

func askModel(ctx context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		Prompt string `json:"prompt"`
	}](c)
	if err != nil {
		return nil, err
	}
	got, err := c.ask(ctx, sampling("completion", args.Prompt, 100))
	if err != nil {
		return nil, err
	}
	return newTextResult("LLM response: " + got.message("completion")), nil
}

func askUser(ctx context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		Message string `json:"message"`
	}](c)
	if err != nil {
		return nil, err
	}
	got, err := c.ask(ctx, elicitation("user", args.Message, form{
		{name: "username", kind: "string", description: "User's response", required: true},
		{name: "email", kind: "string", description: "User's email address", required: true},
	}))
	if err != nil {
		return nil, err
	}
	return newTextResult("User response: " + got.describe("user")), nil
}

func fillIn(ctx context.Context, c *call, message string, f form) (*toolResult, error) {
	got, err := c.ask(ctx, elicitation("form", message, f))
	if err != nil {
		return nil, err
	}
	return newTextResult("Elicitation completed: " + got.describe("form")), nil
}

// describe says what the user did with a question.
func (a answers) describe(key string) string {
	action, content := a.elicited(key)
	if content == nil {
		return "action=" + action
	}
	entered, _ := json.Marshal(content) // it is JSON already
	return fmt.Sprintf("action=%s, content=%s", action, entered)
}

func defaultsForm() form {
	return form{
		{name: "name", kind: "string", description: "User name", fallback: "John Doe"},
		{name: "age", kind: "integer", description: "User age", fallback: 30},
		{name: "score", kind: "number", description: "User score", fallback: 95.5},
		{
			name: "status", kind: "string", description: "User status", fallback: "active",
			choices: []choice{{value: "active"}, {value: "inactive"}, {value: "pending"}},
		},
		{name: "verified", kind: "boolean", description: "Whether the user is verified", fallback: true},
	}
}

func choicesForm() form {
	plain := []choice{{value: "option1"}, {value: "option2"}, {value: "option3"}}
	titled := []choice{{"value1", "First Option"}, {"value2", "Second Option"}, {"value3", "Third Option"}}
	old := []choice{{"opt1", "Option One"}, {"opt2", "Option Two"}, {"opt3", "Option Three"}}
	return form{
		{name: "untitledSingle", kind: "string", choices: plain},
		{name: "titledSingle", kind: "string", choices: titled},
		{name: "legacyEnum", kind: "string", choices: old, oldTitles: true},
		{name: "untitledMulti", kind: "array", choices: plain},
		{name: "titledMulti", kind: "array", choices: titled},
	}
}

func askByURL(ctx context.Context, c *call) (*toolResult, error) {
	got, err := c.ask(ctx, urlElicitation("visit", "Please open this page", "https://example.com/consent"))
	if err != nil {
		return nil, err
	}
	return newTextResult("The user was sent to the page: " + got.describe("visit")), nil
}

func askLater(ctx context.Context, c *call) (*toolResult, error) {
	for i := range 2 {
		c.progress(ctx, float64(i+1), 3, "before the question")
	}
	got, err := c.ask(ctx, elicitation("confirm", "Shall this go on?", form{{name: "ok", kind: "boolean", required: true}}))
	if err != nil {
		return nil, err
	}
	c.progress(ctx, 3, 3, "after the question")
	return newTextResult("Elicitation completed: " + got.describe("confirm")), nil
}

func needSampling(_ context.Context, c *call) (*toolResult, error) {
	if err := c.canAsk(sampling("", "", 1)); err != nil {
		return nil, err
	}
	return newTextResult("The client can be asked for sampling."), nil
}
