// Package tap shows messages as they pass: between a host and a server ([Stream]), or through
// a running gateway ([Hub]). It changes nothing and delays nothing.
//
// A Stream between a host and a command copies bytes and finds messages in the copies. A
// goroutine pairs responses with requests, masks, filters and writes. A Hub is nil while
// nobody watches. Both hand events to a [Queue] that never waits.
//
//	queue                        4,096 messages, 32 MiB  dropped, counted
//	a line                       16 MiB                  passed on; its first 4 KiB are shown
//	requests without a response  4,096                   the oldest is forgotten
//	a command told to end        3 s                     killed
package tap

import (
	"bytes"
	"container/list"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Side is one of the two that speak.
type Side string

// The sides.
const (
	Client Side = "client"
	Server Side = "server"
)

// An Event is a message that has passed. As JSON it is a line of a recording.
type Event struct {
	Time    time.Time       `json:"time"`
	From    Side            `json:"from"`
	Server  string          `json:"server,omitempty"`  // of a gateway
	Session string          `json:"session,omitempty"` // tells the conversations of a gateway apart
	Client  string          `json:"client,omitempty"`  // what the client calls itself
	Method  string          `json:"method,omitempty"`  // of an answer, that of its request
	Name    string          `json:"name,omitempty"`    // of a tool or a prompt, or the URI of a resource
	ID      json.RawMessage `json:"id,omitempty"`
	Answer  bool            `json:"answer,omitempty"`
	Ms      float64         `json:"ms,omitempty"` // an answer took
	Size    int             `json:"size"`
	Code    int             `json:"code,omitempty"`  // of a JSON-RPC error
	Error   string          `json:"error,omitempty"` // of an answer that is one, or why there was none
	Message json.RawMessage `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"` // what was sent, if it is no message
	Dropped int             `json:"dropped,omitempty"`
}

// Failed reports whether the event is an answer that says that something went wrong, or
// no message at all.
func (e *Event) Failed() bool { return e.Error != "" || e.Text != "" }

// Took returns how long an answer took.
func (e *Event) Took() time.Duration { return time.Duration(e.Ms * float64(time.Millisecond)) }

// maxShown is how much of a message is kept when its secrets are taken out.
const maxShown = 64 << 20

// maxText is how much is shown of what is no message.
const maxText = 4 << 10

// Masked returns the event without the secrets in it.
func (e Event) Masked() Event {
	if e.Message != nil {
		e.Message = json.RawMessage(redact.Value(e.Message, maxShown))
	}
	e.Text, e.Error, e.Name = redact.Line(redact.Cut(e.Text, maxText)), redact.Text(e.Error), redact.URI(e.Name)
	return e
}

// describe fills in what a message itself says.
func (e *Event) describe(m *dragoman.Message) {
	if id := m.ID(); !id.IsZero() {
		e.ID, _ = id.MarshalJSON() // it has no error
	}
	switch m.Kind() {
	case dragoman.Response:
		e.Answer = true
		if failed := m.RPCError(); failed != nil {
			e.Code, e.Error = failed.Code, failed.Message
		} else if string(m.Get("isError")) == "true" {
			e.Error = "the tool has failed"
		}
	default:
		e.Method, e.Name = m.Method(), m.Name()
		if e.Name == "" {
			e.Name = m.URI()
		}
	}
}

// Of returns a message as an event that has just passed.
func Of(from Side, m *dragoman.Message) Event {
	e := Event{Time: time.Now(), From: from, Size: m.Len(), Message: m.Bytes()}
	e.describe(m)
	return e
}

// AnswerTo returns an answer as an event that has just passed.
func AnswerTo(req *Event, began time.Time, resp *dragoman.Message, err error) Event {
	e := Event{Time: time.Now(), From: Server, Answer: true}
	if req.From == Server {
		e.From = Client
	}
	switch {
	case err != nil:
		e.Error = err.Error()
	case resp != nil:
		e = Of(e.From, resp)
	}
	e.of(req, began)
	return e
}

// of notes whose answer an event is.
func (e *Event) of(req *Event, began time.Time) {
	e.ID, e.Method, e.Name, e.Server, e.Session, e.Client = req.ID, req.Method, req.Name, req.Server, req.Session, req.Client
	e.Ms = float64(e.Time.Sub(began).Microseconds()) / 1000
}

// maxPending is how many requests without an answer are remembered; then the oldest is forgotten.
const maxPending = 4096

// A conversation knows which answers belong to which requests.
type conversation struct {
	client  string
	pending map[string]*list.Element // of oldest, by who asked and the id
	oldest  list.List                // of Event, the requests that are pending, in their order
}

func newConversation() *conversation { return &conversation{pending: map[string]*list.Element{}} }

// key names a request by who asked, and its id.
func key(asked Side, id json.RawMessage) string { return string(asked) + string(id) }

// maxRemembered is how long id, method and name of a request may be together to be remembered.
const maxRemembered = 4 << 10

// remember remembers a request.
func (c *conversation) remember(req Event) {
	if len(req.ID)+len(req.Method)+len(req.Name) > maxRemembered {
		return
	}
	req.Message, req.ID = nil, bytes.Clone(req.ID) // the id is a part of the message
	c.forget(key(req.From, req.ID))
	if len(c.pending) >= maxPending {
		first := c.oldest.Front().Value.(Event)
		c.forget(key(first.From, first.ID))
	}
	c.pending[key(req.From, req.ID)] = c.oldest.PushBack(req)
}

// forget returns a request that was remembered, which it is no longer.
func (c *conversation) forget(key string) (req Event, ok bool) {
	e := c.pending[key]
	if e == nil {
		return req, false
	}
	delete(c.pending, key)
	return c.oldest.Remove(e).(Event), true
}

// read takes a text that one side has sent apart: into one message, or those of a batch.
func (c *conversation) read(at time.Time, from Side, text []byte) (events []Event) {
	var batch []json.RawMessage
	if len(text) > 0 && text[0] == '[' && json.Unmarshal(text, &batch) == nil {
		for _, part := range batch {
			events = append(events, c.message(at, from, part))
		}
		return events
	}
	return []Event{c.message(at, from, text)}
}

func (c *conversation) message(at time.Time, from Side, text []byte) Event {
	e := Event{Time: at, From: from, Size: len(text)}
	m, err := dragoman.Limits{MaxMessage: -1}.Parse(text)
	if err != nil {
		e.Text, e.Client = string(text), c.client
		return e
	}
	e.Message = text
	e.describe(m)
	if name := protocol.ClientName(m); from == Client && name != "" && !e.Answer {
		c.client = name
	}
	e.Client = c.client
	switch {
	case e.Answer:
		asked := Server
		if from == Server {
			asked = Client
		}
		if req, ok := c.forget(key(asked, e.ID)); ok {
			e.of(&req, req.Time)
		}
	case e.ID != nil:
		c.remember(e)
	}
	return e
}
