package dragoman

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Kind is what a message is.
type Kind uint8

// The kinds of messages.
const (
	Invalid Kind = iota
	Request
	Notification
	Response
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"invalid", "request", "notification", "response"}[k&3]
}

// A Message is one JSON-RPC message: its bytes as they came, and where the
// parts that matter lie in them. It is immutable and may be shared. What it
// returns shares its memory and must not be changed.
//
// The body of a message is the object that its Get and Meta read: params
// of a request or notification, result of a response.
type Message struct {
	raw     []byte
	pending ID // replaces the id when the message is written; zero if none

	kind    Kind
	failed  bool // the response has an error instead of a result
	escaped bool // the method is spelt with escapes

	id     span
	method span // inside the quotes
	body   span // params, result or error
	known  [numKnown]span
}

type span struct{ start, end uint32 }

func (s span) absent() bool { return s.end == 0 }

func (m *Message) at(s span) []byte { return m.raw[s.start:s.end:s.end] }

// Kind returns what the message is.
func (m *Message) Kind() Kind { return m.kind }

// ID returns the id, which is zero for notifications. An error response may
// have [NullID] or none.
func (m *Message) ID() ID {
	if !m.pending.IsZero() {
		return m.pending
	}
	return ID{stringView(m.at(m.id))}
}

// Method returns the method of a request or notification.
func (m *Message) Method() string {
	if m.escaped {
		return unescape(m.at(m.method))
	}
	return stringView(m.at(m.method))
}

// Params returns the params of a request or notification, or nil.
func (m *Message) Params() json.RawMessage {
	if m.kind == Response {
		return nil
	}
	return m.bytesOf(m.body)
}

// Result returns the result of a response, or nil.
func (m *Message) Result() json.RawMessage {
	if m.kind != Response || m.failed {
		return nil
	}
	return m.bytesOf(m.body)
}

// IsError reports whether the message is an error response.
func (m *Message) IsError() bool { return m.failed }

// RPCError returns the error of an error response, or nil. A code that is no
// integer becomes 0; an error without a message gets one that shows it.
func (m *Message) RPCError() *Error {
	if !m.failed {
		return nil
	}
	var e Error
	for name, value := range Members(m.at(m.body)) {
		switch name {
		case "code":
			e.Code = integer(value)
		case "message":
			e.Message, _ = text(value)
		case "data":
			e.Data = value
		}
	}
	if e.Message == "" {
		e.Message = "error without a message: " + string(m.at(m.body))
	}
	return &e
}

// Name returns params.name, or "" if it is absent or no string.
func (m *Message) Name() string { return m.text(knownName) }

// URI returns params.uri, or "" if it is absent or no string.
func (m *Message) URI() string { return m.text(knownURI) }

func (m *Message) text(i int) string {
	s, _ := text(m.at(m.known[i]))
	return s
}

// Get returns a member of the body, of params or result, as JSON text: the last one
// of that name, should a result have several. It is nil if absent.
func (m *Message) Get(name string) json.RawMessage {
	if i := knownMember(name); i >= 0 {
		return m.bytesOf(m.known[i])
	}
	if m.failed || m.body.end == 0 {
		return nil
	}
	return Member(m.at(m.body), name)
}

// Meta returns a member of the body's _meta as JSON text. It is nil if absent.
func (m *Message) Meta(key string) json.RawMessage {
	if i := metaMember(key); i >= 0 {
		return m.bytesOf(m.known[i])
	}
	if !m.hasMeta() {
		return nil
	}
	for name, value := range Members(m.at(m.known[knownMeta])) {
		if name == key { // there is no other: Parse refuses that
			return value
		}
	}
	return nil
}

// hasMeta reports whether there is a _meta that is an object.
func (m *Message) hasMeta() bool {
	meta := m.known[knownMeta]
	return !meta.absent() && m.raw[meta.start] == '{'
}

// MetaText returns a member of the body's _meta that is a string, or "".
func (m *Message) MetaText(key string) string {
	s, _ := text(m.Meta(key))
	return s
}

// Decode decodes the body, params or result, into v, by the rules of
// encoding/json, which takes names of any case. An absent body leaves v as it
// is.
func (m *Message) Decode(v any) error {
	if m.failed || m.body.end == 0 {
		return nil
	}
	return json.Unmarshal(m.at(m.body), v)
}

func (m *Message) bytesOf(s span) []byte {
	if s.end == 0 {
		return nil
	}
	return m.at(s)
}

// Len returns the length of the message in bytes.
func (m *Message) Len() int {
	switch {
	case m.pending.IsZero():
		return len(m.raw)
	case m.id.end == 0:
		return len(m.raw) + len(newID) + len(m.pending.text) + len(",")
	}
	return len(m.raw) - int(m.id.end-m.id.start) + len(m.pending.text)
}

// newID stands before an id that a message gets which had none.
const newID = `"id":`

// Bytes returns the message as JSON text.
func (m *Message) Bytes() []byte {
	if m.pending.IsZero() {
		return m.raw
	}
	return m.AppendTo(nil)
}

// AppendTo appends the message to dst.
func (m *Message) AppendTo(dst []byte) []byte {
	if m.pending.IsZero() {
		return append(dst, m.raw...)
	}
	return m.AppendWithID(dst, m.pending)
}

// AppendWithID appends the message to dst with another id, as [Message.WithID]
// would make it.
func (m *Message) AppendWithID(dst []byte, id ID) []byte {
	dst = slices.Grow(dst, len(m.raw)+len(newID)+len(id.text)+len(","))
	if m.id.end == 0 {
		dst = append(dst, '{')
		dst = append(dst, newID...)
		dst = append(dst, id.text...)
		dst = append(dst, ',')
		return append(dst, m.raw[1:]...)
	}
	dst = append(dst, m.raw[:m.id.start]...)
	dst = append(dst, id.text...)
	return append(dst, m.raw[m.id.end:]...)
}

// OneLine replaces the line ends in the JSON text of a message by spaces, in
// place. They stand only between tokens there: inside strings they are escaped.
func OneLine(text []byte) {
	for _, c := range [...]byte{'\n', '\r'} {
		for rest := text; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// String returns the message as JSON text.
func (m *Message) String() string { return string(m.Bytes()) }

// MarshalJSON returns the message as JSON text.
func (m *Message) MarshalJSON() ([]byte, error) { return m.Bytes(), nil }
