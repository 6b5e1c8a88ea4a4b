package term

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/signature"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// Asking answers what a server asks: by what the command line says, by the user at the
// terminal, or not at all. One question is asked at a time.
type Asking struct {
	Answers []string // key=value
	In      io.Reader
	Out     *Screen

	mu    sync.Mutex
	lines chan typed // of in, by the one who reads it, once something was asked; guarded by mu
}

// Handle has the questions of a server answered.
func (a *Asking) Handle(o *client.Options) {
	o.Elicitation, o.ElicitationURL = a.form, a.page
	if a.Terminal() {
		o.Sampling = a.sample
	}
}

// Terminal reports whether there is somebody to ask.
func (a *Asking) Terminal() bool {
	in, ok := a.In.(*os.File)
	return ok && IsTerminal(in) && ToTerminal(a.Out)
}

// begin waits until no other question is asked, and has the terminal to itself until end.
func (a *Asking) begin() (end func()) {
	a.mu.Lock()
	release := a.Out.Hold()
	return func() {
		release()
		a.mu.Unlock()
	}
}

// printf writes to the terminal, whatever the server says.
func (a *Asking) printf(format string, args ...any) {
	fmt.Fprint(a.Out, redact.Printable(fmt.Sprintf(format, args...), "\n"))
}

// A reply is the answer to an elicitation.
type reply struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}

// refuse is the reply of nobody.
func (a *Asking) refuse(message, how string) *reply {
	a.printf("the server asks: %s\nthat is refused; %s\n", message, how)
	return &reply{Action: "decline"}
}

// form answers an elicitation by a form.
func (a *Asking) form(ctx context.Context, params json.RawMessage) (any, error) {
	defer a.begin()()
	var p struct {
		Message         string
		RequestedSchema json.RawMessage
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	fields := signature.New("", p.RequestedSchema)
	given := slices.DeleteFunc(slices.Clone(a.Answers), func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		return !slices.Contains(fields.Names(), strings.TrimSuffix(name, ":"))
	})
	content, err := fields.Arguments(nil, given)
	switch {
	case err == nil && (len(given) > 0 || len(fields.Names()) == 0 && len(a.Answers) > 0):
		return &reply{"accept", content}, nil
	case len(given) > 0:
		return a.refuse(p.Message, err.Error()), nil
	case !a.Terminal():
		return a.refuse(p.Message, "answer with --answer: "+strings.Trim(fields.String(), "()")), nil
	}
	return a.fill(ctx, p.Message, fields, p.RequestedSchema)
}

// fill asks for one field after the other.
func (a *Asking) fill(ctx context.Context, message string, fields *signature.Tool, schema json.RawMessage) (*reply, error) {
	var about struct {
		Required   []string
		Properties map[string]struct {
			Title, Description string
			Default            json.RawMessage
		}
	}
	_ = json.Unmarshal(schema, &about) // then there is less to show
	a.printf("\nthe server asks: %s\n(an empty line leaves out what can be; Ctrl-D refuses)\n", message)
	var words []string
	for _, name := range fields.Names() {
		field, required := about.Properties[name], slices.Contains(about.Required, name)
		for {
			a.printf("%s", prompt(name, field.Title, field.Description, fields.Values(name), field.Default, required))
			line, err := a.Line(ctx)
			if errors.Is(err, io.EOF) {
				a.printf("\n")
				return &reply{Action: "decline"}, nil
			}
			if err != nil {
				return nil, err
			}
			if line == "" && (!required || field.Default != nil) {
				if field.Default != nil {
					words = append(words, name+":="+string(field.Default))
				}
				break
			}
			if err := fields.Check(name, line); err != nil {
				a.printf("  %v\n", err)
				continue
			}
			words = append(words, name+"="+line)
			break
		}
	}
	content, err := fields.Arguments(nil, words)
	if err != nil {
		return nil, err
	}
	return &reply{"accept", content}, nil
}

// prompt is what stands before a field.
func prompt(name, title, about string, values []string, preset json.RawMessage, required bool) string {
	text := "  " + name
	if title != "" && title != name {
		text += " (" + title + ")"
	}
	if about != "" {
		text += ": " + about
	}
	if len(values) > 0 {
		text += " [" + strings.Join(values, "|") + "]"
	}
	if preset != nil {
		text += " = " + string(preset)
	} else if !required {
		text += " (optional)"
	}
	return text + "> "
}

// page answers an elicitation by a web site: the user opens it.
func (a *Asking) page(ctx context.Context, params json.RawMessage) (any, error) {
	defer a.begin()()
	var p struct{ Message, URL string }
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	if !a.Terminal() {
		return a.refuse(p.Message, "it wants a page to be opened, which takes a terminal"), nil
	}
	a.printf("\nthe server asks: %s\nit wants you to open %s\nhave you? [y/N] ", p.Message, p.URL)
	line, err := a.Line(ctx)
	if err == nil && strings.HasPrefix(strings.ToLower(line), "y") {
		return &reply{Action: "accept"}, nil
	}
	return &reply{Action: "decline"}, nil //nolint:nilerr // nobody has
}

// sample answers what a model should: the user writes it.
func (a *Asking) sample(ctx context.Context, params json.RawMessage) (any, error) {
	defer a.begin()()
	var p struct {
		SystemPrompt string
		Messages     []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	a.printf("\nthe server asks for the answer of a model")
	if p.SystemPrompt != "" {
		a.printf("\n  system: %s", p.SystemPrompt)
	}
	for _, m := range p.Messages {
		var text struct{ Text string }
		if json.Unmarshal(m.Content, &text) != nil || text.Text == "" {
			text.Text = string(m.Content)
		}
		a.printf("\n  %s: %s", m.Role, text.Text)
	}
	a.printf("\n(one line; an empty one refuses)> ")
	line, err := a.Line(ctx)
	if err != nil || line == "" {
		return nil, &dragoman.Error{Code: -1, Message: "the user has refused"}
	}
	return map[string]any{
		"role": "assistant", "model": "a person", "stopReason": "endTurn",
		"content": map[string]string{"type": "text", "text": line},
	}, nil
}

// Line returns the next line of the user, who may not write one before ctx ends. It is then the
// answer to the next question.
func (a *Asking) Line(ctx context.Context) (string, error) {
	if a.lines == nil {
		a.lines = make(chan typed)
		// Ends with the process: a read cannot be ended otherwise.
		go func() {
			for in := bufio.NewReader(a.In); ; {
				text, err := in.ReadString('\n')
				a.lines <- typed{strings.TrimRight(text, "\r\n"), err}
			}
		}()
	}
	select {
	case t := <-a.lines:
		return t.text, t.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// typed is a line of the user, or why there is none.
type typed struct {
	text string
	err  error
}
