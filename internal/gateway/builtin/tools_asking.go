package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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
	got, err := c.ask(ctx, urlElicitation("consent", "Please open this page", "https://example.com/consent"))
	if err != nil {
		return nil, err
	}
	return newTextResult("The user was sent to the page: " + got.describe("consent")), nil
}

func askLater(ctx context.Context, c *call) (*toolResult, error) {
	for i := range 2 {
		c.progress(ctx, float64(i+1), 3, "before the question")
	}
	got, err := c.ask(ctx, elicitation("confirm", "Shall this continue?", form{{name: "ok", kind: "boolean", required: true}}))
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

// roundTools show how questions and their answers go through the rounds of the
// modern era. In the legacy era they ask the same.
func roundTools() []*tool {
	const prefix = "test_input_required_result_"
	return []*tool{{
		name: prefix + "elicitation", title: "Round with elicitation",
		description: "Asks the user for a name.",
		run:         greet,
	}, {
		name: prefix + "sampling", title: "Round with sampling",
		description: "Asks the client's model for a capital.",
		run: func(ctx context.Context, c *call) (*toolResult, error) {
			got, err := c.ask(ctx, sampling("capital_question", "What is the capital of France?", 100))
			if err != nil {
				return nil, err
			}
			return newTextResult("The model says: " + got.message("capital_question")), nil
		},
	}, {
		name: prefix + "list_roots", title: "Round with roots",
		description: "Asks for the client's roots.",
		run: func(ctx context.Context, c *call) (*toolResult, error) {
			got, err := c.ask(ctx, roots("client_roots"))
			if err != nil {
				return nil, err
			}
			return newTextResult("The client's roots: " + strings.Join(got.roots("client_roots"), ", ")), nil
		},
	}, {
		name: prefix + "request_state", title: "Round with state", sealed: true,
		description: "Asks the user to confirm, and takes the answer only together with its state.",
		run:         confirm,
	}, {
		name: prefix + "tampered_state", title: "Round with protected state", sealed: true,
		description: "Asks the user to confirm, and refuses a state that was changed.",
		run:         confirm,
	}, {
		name: prefix + "multiple_inputs", title: "Round with three questions", sealed: true,
		description: "Asks the user, the client's model and for its roots, all at once.",
		run:         askAll,
	}, {
		name: prefix + "multi_round", title: "Two rounds", sealed: true,
		description: "Asks the user twice, one question after the other.",
		run:         askTwice,
	}, {
		name: prefix + "capabilities", title: "Round by capabilities",
		description: "Asks only what the client can be asked.",
		run:         askPossible,
	}}
}

func nameForm() form { return form{{name: "name", kind: "string", required: true}} }

func greet(ctx context.Context, c *call) (*toolResult, error) {
	got, err := c.ask(ctx, elicitation("user_name", "What is your name?", nameForm()))
	if err != nil {
		return nil, err
	}
	if name, ok := got.entered("user_name", "name"); ok {
		return newTextResult("Hello, " + name + "!"), nil
	}
	return newTextResult("Hello, whoever you are: " + got.describe("user_name")), nil
}

func confirm(ctx context.Context, c *call) (*toolResult, error) {
	got, err := c.ask(ctx, elicitation("confirm", "Please confirm", form{{name: "ok", kind: "boolean", required: true}}))
	if err != nil {
		return nil, err
	}
	return newTextResult("state-ok: " + got.describe("confirm")), nil
}

func askAll(ctx context.Context, c *call) (*toolResult, error) {
	got, err := c.ask(ctx,
		elicitation("user_name", "What is your name?", nameForm()),
		sampling("greeting", "Generate a greeting", 50),
		roots("client_roots"),
	)
	if err != nil {
		return nil, err
	}
	name, _ := got.entered("user_name", "name")
	return newTextResult(fmt.Sprintf("%s %s (roots: %d)", got.message("greeting"), name, len(got.roots("client_roots")))), nil
}

func askTwice(ctx context.Context, c *call) (*toolResult, error) {
	first, err := c.ask(ctx, elicitation("step1", "Step 1: What is your name?", nameForm()))
	if err != nil {
		return nil, err
	}
	second, err := c.ask(ctx, elicitation("step2", "Step 2: What is your favorite color?",
		form{{name: "color", kind: "string", required: true}}))
	if err != nil {
		return nil, err
	}
	name, _ := first.entered("step1", "name")
	color, _ := second.entered("step2", "color")
	return newTextResult(fmt.Sprintf("%s likes %s.", name, color)), nil
}

func askPossible(ctx context.Context, c *call) (*toolResult, error) {
	var possible []question
	for _, q := range []question{
		elicitation("user_name", "What is your name?", nameForm()),
		sampling("greeting", "Generate a greeting", 50),
		roots("client_roots"),
	} {
		if c.canAsk(q) == nil {
			possible = append(possible, q)
		}
	}
	got, err := c.ask(ctx, possible...)
	if err != nil {
		return nil, err
	}
	return newTextResult(fmt.Sprintf("The client was asked %d questions.", len(got))), nil
}
