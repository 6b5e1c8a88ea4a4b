package dragoman

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// NewRequest makes a request. params is JSON text ([]byte or
// [json.RawMessage]) or a value to encode; nil leaves params out.
func NewRequest(id ID, method string, params any) (*Message, error) {
	if id.IsZero() || id.IsNull() {
		return nil, fmt.Errorf("dragoman: request %q without an id", method)
	}
	return build(id, method, "params", params)
}

// NewNotification makes a notification, see NewRequest for params.
func NewNotification(method string, params any) (*Message, error) {
	return build(ID{}, method, "params", params)
}

// NewResult makes the response to the request with that id. result is JSON
// text or a value to encode; nil stands for {}.
func NewResult(id ID, result any) (*Message, error) {
	if result == nil {
		result = json.RawMessage("{}")
	}
	return build(id, "", "result", result)
}

// NewFailure makes an error response. The zero id becomes null.
func NewFailure(id ID, e *Error) *Message {
	if id.IsZero() {
		id = NullID
	}
	m, err := build(id, "", "error", e)
	if err != nil {
		// Only e.Data can be at fault: say what there is to say without it.
		m, err = build(id, "", "error", &Error{Code: e.Code, Message: e.Message})
		if err != nil {
			panic(err)
		}
	}
	return m
}

// Reply makes the response to a request, see NewResult.
func (m *Message) Reply(result any) (*Message, error) { return NewResult(m.ID(), result) }

// Fail makes the error response to a request.
func (m *Message) Fail(e *Error) *Message { return NewFailure(m.ID(), e) }

// build makes a message by writing it and reading it back.
func build(id ID, method, bodyName string, body any) (*Message, error) {
	text, err := encode(body)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 64+len(id.text)+len(method)+len(text))
	b = append(b, `{"jsonrpc":"2.0"`...)
	if !id.IsZero() {
		b = append(b, `,"id":`...)
		b = append(b, id.text...)
	}
	if method != "" {
		b = append(b, `,"method":`...)
		b = appendQuote(b, method)
	}
	if text != nil {
		b = append(b, `,"`...)
		b = append(b, bodyName...)
		b = append(b, `":`...)
		b = append(b, text...)
	}
	m, err := Limits{MaxMessage: -1}.Parse(append(b, '}'))
	if err == nil && int(m.body.end-m.body.start) != len(text) {
		return nil, fmt.Errorf("dragoman: %s is more than one JSON value", bodyName)
	}
	return m, err
}

// encode returns v as JSON text: as it is if it is text already, nil if v is
// nil.
func encode(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return bytes.Trim(v, " \t\r\n"), nil
	case json.RawMessage:
		return bytes.Trim(v, " \t\r\n"), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
