package everything

import (
	"context"
	"fmt"
	"strings"
)

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
