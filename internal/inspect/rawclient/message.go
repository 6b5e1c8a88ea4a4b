// Package rawclient is a low-level MCP client: it sends what it is given, valid or not, and
// keeps all that comes back as it came. Packages probe and check use it. observe.go has what
// both of them send: requests of foreign pages and hosts, GET and DELETE.
//
// A [Pool] starts processes of a command ahead of time, and never two at a time if the server
// does not allow that; a connection that is resumed then gets another process, with the same
// handshake. A message is written while the server is read, so a server that sends requests
// and does not read delays nothing for longer than the time for a response.
//
//	read before a response            10,000 messages, 32 MiB   given up; a finding
//	a list                            1,000 pages, 32 MiB       not read on; a finding
//	exchanges kept for rules          128 MiB                   later ones are not judged
//	server requests in an exchange    100                       not answered
//	processes that wait               3                         the next starts when one is used
//	first response of a process       four times that of the first process, at least --timeout,
//	beside others                     at most a minute
//	a request that may be ignored     a fifth of --timeout for the response after a later ping is
//	                                  answered; a tenth after the first such request
//	stray messages; stray lines       100 each, 4 MiB           forgotten
package rawclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// A Message is a JSON object that a server wrote, read as leniently as can be.
type Message struct {
	Text           []byte
	ID             json.RawMessage // nil if absent
	Method         string
	Params, Result json.RawMessage
	Error          *dragoman.Error // nil if absent or no object

	// Problem is what JSON-RPC says against it; empty if nothing.
	Problem string
}

// ReadMessage reads what a server wrote. It returns nil for what is no JSON object.
func ReadMessage(text []byte) *Message {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members == nil {
		return nil
	}
	m := &Message{Text: text, ID: members["id"], Params: members["params"], Result: members["result"]}
	_ = json.Unmarshal(members["method"], &m.Method) // else it has none
	if e := members["error"]; e != nil {
		m.Error = &dragoman.Error{}
		if json.Unmarshal(e, m.Error) != nil {
			m.Problem = "error is not an object with an integer code and a message"
		}
	}
	_, hasResult := members["result"]
	var version string
	_ = json.Unmarshal(members["jsonrpc"], &version) // else it is not "2.0"
	switch {
	case !utf8.Valid(text):
		m.Problem = "it is not UTF-8"
	case members["jsonrpc"] == nil:
		m.Problem = `it has no "jsonrpc":"2.0"`
	case version != "2.0":
		m.Problem = `its "jsonrpc" is not "2.0"`
	case hasResult && m.Error != nil:
		m.Problem = "it has a result and an error, which exclude each other"
	case m.Problem != "":
	default:
		if _, err := dragoman.Parse(text); err != nil {
			m.Problem = strings.TrimPrefix(err.Error(), "dragoman: ")
		}
	}
	return m
}

// IsResponse reports whether the message answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// IsRequest reports whether the message wants an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// Is reports whether the message answers the request with that id, byte for byte.
func (m *Message) Is(id json.RawMessage) bool {
	return m.IsResponse() && bytes.Equal(bytes.TrimSpace(m.ID), id)
}

// An Exchange is what was sent, and what came of it.
type Exchange struct {
	Sent []byte

	// Got are all messages that came until the answer, and behind it if they came at once.
	Got []*Message

	// Answer is the response; nil if there was none. Misnamed says that it does not carry
	// the id of the request.
	Answer   *Message
	Misnamed bool

	// HTTP is the answer of HTTP, where that is spoken, and Session the id of the session that it is
	// part of, or began.
	HTTP    *Reply
	Session string

	Err  error // why there is no answer
	Took time.Duration
}

// ErrSilent says that no answer came in time.
var ErrSilent = errors.New("no answer in time")

// ErrEcho says that a request came back as it was sent.
var ErrEcho = errors.New("it sends back what it is sent, so it is no MCP server")

// Silent reports whether there is no answer because none came in time.
func (x *Exchange) Silent() bool { return x.Answer == nil && errors.Is(x.Err, ErrSilent) }

// Size returns how many bytes the exchange holds.
func (x *Exchange) Size() (n int) {
	n = len(x.Sent)
	for _, m := range x.Got {
		n += len(m.Text)
	}
	if x.HTTP != nil && len(x.Got) == 0 {
		n += len(x.HTTP.Body)
	}
	return n
}

// Result returns the result, or nil if there is none.
func (x *Exchange) Result() json.RawMessage {
	if x.Answer == nil {
		return nil
	}
	return x.Answer.Result
}

// Failed reports whether the answer is a JSON-RPC error, whatever its code.
func (x *Exchange) Failed() bool { return x.Answer != nil && x.Answer.Error != nil }

// Code returns the code of a JSON-RPC error, or 0.
func (x *Exchange) Code() int {
	if x.Answer == nil || x.Answer.Error == nil {
		return 0
	}
	return x.Answer.Error.Code
}

// Status returns the status of HTTP, or 0 where that is not spoken.
func (x *Exchange) Status() int {
	if x.HTTP == nil {
		return 0
	}
	return x.HTTP.Status
}

// Summary describes the response in a few words.
func (x *Exchange) Summary() string {
	var text string
	switch a := x.Answer; {
	case a != nil && a.Error != nil:
		text = fmt.Sprintf("error %d: %s", a.Error.Code, a.Error.Message)
	case a != nil:
		text = "a result"
	case x.HTTP != nil && x.HTTP.Status != 0 && !x.Silent():
		return x.HTTP.Summary()
	case x.Err != nil:
		text = x.Err.Error()
	default:
		text = "nothing"
	}
	if s := x.Status(); s != 0 && s != http.StatusOK {
		text = fmt.Sprintf("status %d, %s", s, text)
	}
	return redact.Printable(redact.Text(text), "")
}

// maxFrame is how much of a frame is shown, and maxFrames how many messages that came.
const (
	maxFrame  = 2000
	maxFrames = 20
)

// Frames returns what went over the wire, for people, without secrets.
func (x *Exchange) Frames() (list []string) {
	add := func(mark string, text []byte) {
		if len(text) > 0 {
			list = append(list, mark+" "+redact.Printable(Mask(text), ""))
		}
	}
	if x.HTTP != nil {
		add("→", []byte(x.HTTP.Request))
	}
	add("→", x.Sent)
	if x.HTTP != nil && x.HTTP.Status != 0 {
		line := fmt.Sprintf("%d %s", x.HTTP.Status, http.StatusText(x.HTTP.Status))
		if kind := x.HTTP.Header.Get("Content-Type"); kind != "" {
			line += ", Content-Type: " + kind
		}
		add("←", []byte(line))
	}
	for i, m := range x.Got {
		if i == maxFrames {
			add("←", fmt.Appendf(nil, "(%d more messages)", len(x.Got)-i))
			break
		}
		add("←", m.Text)
	}
	switch {
	case len(x.Got) == 0 && x.HTTP != nil:
		add("←", x.HTTP.Body)
	case len(x.Got) == 0 && x.Err != nil:
		add("←", []byte("("+x.Err.Error()+")"))
	}
	return list
}

// Mask returns text for people, without secrets and cut.
func Mask(text []byte) string {
	if json.Valid(text) {
		return redact.Value(text, maxFrame)
	}
	return redact.Text(strings.Join(strings.Fields(string(text[:min(len(text), maxFrame)])), " "))
}

// A Request is a text that is sent as it is.
type Request struct {
	Text  []byte
	ID    json.RawMessage // of the response; if nil, any response is taken, after a short wait
	First bool            // return with the first message of any kind

	// Witness, if not nil, is a request that any server answers. It is sent if there is no response within
	// Patience, and the exchange ends without one within Patience of the response to the witness:
	// the server works, and ignores the request. Only a [LinkWire] does this.
	Witness  *Request
	Patience time.Duration
}

// A Wire carries texts to a server and back. One goroutine uses it.
type Wire interface {
	// Exchange sends a request, and returns what came until it was answered.
	Exchange(ctx context.Context, r Request) *Exchange

	// All sends several requests concurrently, and returns what came of each, in their order.
	All(ctx context.Context, list []Request) []*Exchange

	// Notify sends a text to which no answer is expected.
	Notify(ctx context.Context, text []byte) *Exchange

	// Loose returns the messages that came and were part of no exchange.
	Loose() []*Message

	Close()
}
