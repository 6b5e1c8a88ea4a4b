package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// A Tool is an entry of the server's list of tools.
type Tool struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"` // nil if there is none
	Annotations  json.RawMessage `json:"annotations"`  // nil if there are none

	Raw json.RawMessage `json:"-"` // as the server wrote it
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Tool) UnmarshalJSON(text []byte) error {
	type plain Tool
	return keep(text, (*plain)(t), &t.Raw)
}

// A Resource is an entry of the server's list of resources.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`
	Size        int64  `json:"size"` // zero if it is not known

	Raw json.RawMessage `json:"-"` // as the server wrote it
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Resource) UnmarshalJSON(text []byte) error {
	type plain Resource
	return keep(text, (*plain)(r), &r.Raw)
}

// A Template is a family of resources.
type Template struct {
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	MIMEType    string `json:"mimeType"`

	Raw json.RawMessage `json:"-"` // as the server wrote it
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Template) UnmarshalJSON(text []byte) error {
	type plain Template
	return keep(text, (*plain)(t), &t.Raw)
}

// A Prompt is an entry of the server's list of prompts.
type Prompt struct {
	Name        string           `json:"name"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Arguments   []PromptArgument `json:"arguments"`

	Raw json.RawMessage `json:"-"` // as the server wrote it
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Prompt) UnmarshalJSON(text []byte) error {
	type plain Prompt
	return keep(text, (*plain)(p), &p.Raw)
}

// A PromptArgument is something that a prompt wants to know.
type PromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

// keep decodes text into v and keeps a copy of it.
func keep(text []byte, v any, to *json.RawMessage) error {
	err := json.Unmarshal(text, v)
	*to = append(json.RawMessage(nil), text...)
	return err
}

// A ToolResult is what a tool gives back.
type ToolResult struct {
	Content           []Content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"` // nil if there is none
	IsError           bool            `json:"isError"`

	Raw json.RawMessage `json:"-"` // the whole result, as the server wrote it
}

// Text returns the text of the result, a line for each part.
func (r *ToolResult) Text() string {
	var parts []string
	for _, c := range r.Content {
		if c.Type == "text" {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// A Content is a part of a result or a message: text, image, audio, resource or
// resource_link, as Type says. Of one whose data is not base64 there is Raw alone.
type Content struct {
	Type     string            `json:"type"`
	Text     string            `json:"text"`
	Data     []byte            `json:"data"` // of an image or audio
	MIMEType string            `json:"mimeType"`
	URI      string            `json:"uri"`      // of a link
	Resource *ResourceContents `json:"resource"` // nil if it is none

	Raw json.RawMessage `json:"-"` // as the server wrote it
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Content) UnmarshalJSON(text []byte) error {
	type plain Content
	err := keep(text, (*plain)(c), &c.Raw)
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
		c.Data, c.Resource, err = nil, nil, nil // the other parts are good
	}
	return err
}

// ResourceContents is what a resource holds: Text, or Blob if that is not nil.
type ResourceContents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text"`
	Blob     []byte `json:"blob"`
}

// A PromptResult is a prompt with its arguments filled in.
type PromptResult struct {
	Description string          `json:"description"`
	Messages    []PromptMessage `json:"messages"`
}

// A PromptMessage is one message of a prompt.
type PromptMessage struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// A Ref is what an argument belongs to: a prompt by its name, or the template of
// a resource by its URI.
type Ref struct{ Prompt, URI string }

func (r Ref) object() map[string]string {
	if r.Prompt != "" {
		return map[string]string{"type": "ref/prompt", "name": r.Prompt}
	}
	return map[string]string{"type": "ref/resource", "uri": r.URI}
}

// A Completion is how an argument may continue.
type Completion struct {
	Values  []string `json:"values"`
	Total   int      `json:"total"` // zero if it is not known
	HasMore bool     `json:"hasMore"`
}

// raw makes JSON text be taken as it is.
func raw(v any) any {
	if text, ok := v.([]byte); ok {
		return json.RawMessage(text)
	}
	return v
}

func encode(v any) (json.RawMessage, error) { return json.Marshal(v) }
