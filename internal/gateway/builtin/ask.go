package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A question is something that a handler wants to know from the client, under
// a key that is its own within the call.
type question struct {
	key    string
	method string
	params object
	form   form // of an elicitation by form
}

func sampling(key, prompt string, maxTokens int) question {
	return question{key: key, method: protocol.MethodCreateMessage, params: object{
		"messages":  []any{object{"role": "user", "content": text(prompt)}},
		"maxTokens": maxTokens,
	}}
}

func elicitation(key, message string, f form) question {
	return question{key: key, method: protocol.MethodElicit, form: f, params: object{"message": message}}
}

func urlElicitation(key, message, url string) question {
	return question{key: key, method: protocol.MethodElicit, params: object{"mode": "url", "message": message, "url": url}}
}

func roots(key string) question {
	return question{key: key, method: protocol.MethodListRoots, params: object{}}
}

// byURL reports whether the question sends the user to a web site.
func (q question) byURL() bool { return q.params["mode"] == "url" }

// canAsk reports whether the client can be asked in the call's revision. The error
// says what to do about it if not.
func (c *call) canAsk(q question) error {
	switch {
	case q.method == protocol.MethodElicit && !c.rev.HasElicitation(),
		q.byURL() && !c.rev.HasURLElicitation():
		return fmt.Errorf("revision %s cannot ask the user like that; initialize with a newer one", c.rev)
	case !c.can.Answers(q.method, q.byURL(), false):
		return protocol.MissingCapability(q.method, q.byURL(), false)
	}
	return nil
}

// ask puts questions to the client and returns the answers. In the legacy era
// it sends requests. In the modern era it takes the answers that came with the
// call, and ends the round if some are missing; so what a handler does before
// it asks, it does again in every round.
func (c *call) ask(ctx context.Context, questions ...question) (answers, error) {
	if c.modern != nil {
		var list []era.InputRequest
		for _, q := range questions {
			list = append(list, era.InputRequest{Key: q.key, Method: q.method, Params: q.paramsFor(c.rev, 0), Check: q.check})
		}
		got, err := c.modern.Ask(list...)
		return got, err
	}
	for _, q := range questions {
		if err := c.canAsk(q); err != nil {
			return nil, err
		}
	}
	return c.requestAll(ctx, questions)
}

// requestAll asks all questions at once, as a round of the modern era does. The
// first failure takes the other questions back.
func (c *call) requestAll(ctx context.Context, questions []question) (answers, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	var failed error
	got := make(answers)
	for _, q := range questions {
		// Ends with the client's answer, or with ctx.
		asking.Go(func() {
			result, err := c.request(ctx, q)
			if err == nil {
				if wrong := q.check(result); wrong != nil {
					err = fmt.Errorf("the client's answer to %s is not valid: %w", q.method, wrong)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got[q.key] = result
			case failed == nil:
				failed = err
				cancel()
			}
		})
	}
	asking.Wait()
	return got, failed
}

// request asks the client by a request of the legacy era.
func (c *call) request(ctx context.Context, q question) (json.RawMessage, error) {
	if c.from == nil {
		return nil, errors.New("this call leaves no way to ask the client; call it on a stream")
	}
	n := c.session.asked.Add(1)
	req, err := dragoman.NewRequest(dragoman.IntID(n), q.method, q.paramsFor(c.rev, n))
	if err != nil {
		return nil, err
	}
	resp, err := c.from.Call(ctx, req, nil)
	if err != nil {
		return nil, fmt.Errorf("the client gave no answer to %s: %w", q.method, err)
	}
	if e := resp.RPCError(); e != nil {
		// Not wrapped: it is an error of the client, not our answer to it.
		return nil, fmt.Errorf("the client refused %s with error %d: %s", q.method, e.Code, e.Message)
	}
	return resp.Result(), nil
}

// paramsFor returns the params of the question as a revision understands them.
// n is the number of the question in a legacy session.
func (q question) paramsFor(rev protocol.Revision, n int64) object {
	params := object{}
	for name, value := range q.params {
		params[name] = value
	}
	if q.form != nil {
		params["requestedSchema"] = q.form.schema(rev)
	}
	if q.byURL() && rev.ServerMayAsk() {
		params["elicitationId"] = fmt.Sprintf("elicitation-%d", n)
	}
	return params
}

// check returns what is wrong with an answer.
func (q question) check(answer json.RawMessage) error {
	if !dragoman.IsObject(answer) {
		return errors.New("it must be an object")
	}
	a := answers{q.key: answer}
	switch q.method {
	case protocol.MethodCreateMessage:
		if a.texts(q.key) == nil {
			return errors.New("it must have role, content and model")
		}
	case protocol.MethodListRoots:
		if a.roots(q.key) == nil {
			return errors.New("it must have an array of roots, each with a uri")
		}
	default:
		action, content := a.elicited(q.key)
		switch action {
		case "accept":
			if q.form != nil {
				return q.form.check(content)
			}
		case "decline", "cancel":
		default:
			return errors.New("its action must be accept, decline or cancel")
		}
	}
	return nil
}

// answers are results of questions, by key.
type answers map[string]json.RawMessage

// elicited returns what the user did with a question, and entered.
func (a answers) elicited(key string) (action string, content map[string]json.RawMessage) {
	var result struct {
		Action  string                     `json:"action"`
		Content map[string]json.RawMessage `json:"content"`
	}
	if json.Unmarshal(a[key], &result) != nil {
		return "", nil
	}
	return result.Action, result.Content
}

// entered returns the text that the user entered in a field, and whether there
// is any.
func (a answers) entered(key, field string) (string, bool) {
	_, content := a.elicited(key)
	var s string
	if json.Unmarshal(content[field], &s) != nil {
		return "", false
	}
	return s, true
}

// texts returns the texts of a model's message, or nil if it is none.
func (a answers) texts(key string) []string {
	var result struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	type part struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(a[key], &result) != nil || result.Role == "" {
		return nil
	}
	var parts []part
	if dragoman.IsObject(result.Content) {
		parts = make([]part, 1)
		if json.Unmarshal(result.Content, &parts[0]) != nil {
			return nil
		}
	} else if json.Unmarshal(result.Content, &parts) != nil {
		return nil
	}
	texts := []string{}
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		} else {
			texts = append(texts, "("+p.Type+")")
		}
	}
	return texts
}

// message returns a model's message as one text.
func (a answers) message(key string) string { return strings.Join(a.texts(key), "\n") }

// roots returns the URIs of the client's roots, or nil if it is no such answer.
func (a answers) roots(key string) []string {
	var result struct {
		Roots []struct {
			URI string `json:"uri"`
		} `json:"roots"`
	}
	if json.Unmarshal(a[key], &result) != nil || result.Roots == nil {
		return nil
	}
	uris := []string{}
	for _, r := range result.Roots {
		if r.URI == "" {
			return nil
		}
		uris = append(uris, r.URI)
	}
	return uris
}

// A form is what an elicitation asks the user to fill in.
type form []field

// A field of a form. Choices are by value; a choice may have a title.
type field struct {
	name        string
	kind        string // JSON type; "array" is several of the choices
	description string
	required    bool
	fallback    any // the default, or nil
	choices     []choice
	oldTitles   bool // titles are spelt as enumNames in every revision
}

type choice struct{ value, title string }

// schema returns the form as the JSON schema that a revision understands.
func (f form) schema(rev protocol.Revision) object {
	properties := object{}
	var required []string
	for _, d := range f {
		properties[d.name] = d.schema(rev)
		if d.required {
			required = append(required, d.name)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if required != nil {
		schema["required"] = required
	}
	return schema
}

func (d field) schema(rev protocol.Revision) object {
	kind := d.kind
	if kind == "array" && !rev.HasRichForms() {
		kind = "string" // one of them is the most that can be asked for
	}
	schema := object{"type": kind}
	if d.description != "" {
		schema["description"] = d.description
	}
	if d.fallback != nil && (rev.HasRichForms() || kind == "boolean") {
		schema["default"] = d.fallback
	}
	if d.choices == nil {
		return schema
	}
	options := d.options(rev)
	if kind != "array" {
		for name, value := range options {
			schema[name] = value
		}
		return schema
	}
	if titled, ok := options["oneOf"]; ok {
		schema["items"] = object{"anyOf": titled}
	} else {
		options["type"] = "string"
		schema["items"] = options
	}
	return schema
}

// options returns the members of a schema that list the choices.
func (d field) options(rev protocol.Revision) object {
	var values, titles []string
	var titled []object
	for _, c := range d.choices {
		values, titles = append(values, c.value), append(titles, c.title)
		titled = append(titled, object{"const": c.value, "title": c.title})
	}
	switch {
	case d.choices[0].title == "":
		return object{"enum": values}
	case d.oldTitles || !rev.HasRichForms():
		return object{"enum": values, "enumNames": titles}
	}
	return object{"oneOf": titled}
}

// check returns what is wrong with the content of a form that was filled in.
func (f form) check(content map[string]json.RawMessage) error {
	for _, d := range f {
		value, ok := content[d.name]
		if !ok {
			if d.required {
				return fmt.Errorf("content.%s is missing", d.name)
			}
			continue
		}
		if err := d.check(value); err != nil {
			return err
		}
	}
	return nil
}

func (d field) check(value json.RawMessage) error {
	kind := typeOf(value)
	if kind != d.kind && !(kind == "integer" && d.kind == "number") && !(kind == "string" && d.kind == "array") {
		return fmt.Errorf("content.%s is of type %s, not %s", d.name, kind, d.kind)
	}
	if d.choices == nil {
		return nil
	}
	var chosen []string
	if kind == "string" {
		chosen = make([]string, 1)
		if err := json.Unmarshal(value, &chosen[0]); err != nil {
			return fmt.Errorf("content.%s: %w", d.name, err)
		}
	} else if err := json.Unmarshal(value, &chosen); err != nil {
		return fmt.Errorf("content.%s: %w", d.name, err)
	}
	for _, one := range chosen {
		if !slices.ContainsFunc(d.choices, func(c choice) bool { return c.value == one }) {
			return fmt.Errorf("content.%s: %q is none of the choices", d.name, one)
		}
	}
	return nil
}
