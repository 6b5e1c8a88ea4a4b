package dragoman

import (
	"bytes"
	"fmt"
)

// Parse reads one message within the default limits, see [Limits.Parse].
func Parse(data []byte) (*Message, error) { return Limits{}.Parse(data) }

// Parse reads one message. It keeps data, which must not be changed
// afterwards.
//
// The text must be JSON by RFC 8259 in UTF-8, nested at most [MaxDepth] deep,
// and one message by JSON-RPC 2.0 as MCP uses it: ids are strings or integers,
// params is an object. Member names of the envelope, of params and of _meta
// may stand once, and names that only differ from a reserved one by case or
// NULs are refused, because two readers could disagree on them. All else that
// is unknown passes.
//
// The error is a [ParseError], or [ErrTooLarge].
func (l Limits) Parse(data []byte) (*Message, error) {
	m := new(Message)
	if err := l.ParseInto(m, data); err != nil {
		return nil, err
	}
	return m, nil
}

// ParseInto is Parse into a message of the caller's, which nobody else may be
// using. It does not allocate unless the message is refused or its names are
// many or spelt with escapes.
func (l Limits) ParseInto(m *Message, data []byte) error {
	if max := l.Message(); len(data) > max {
		return fmt.Errorf("%w: %d bytes, at most %d are accepted", ErrTooLarge, len(data), max)
	}
	*m = Message{}
	p := parser{m: m}
	p.data = data
	lead := p.space(0)
	p.data = data[lead:]
	if end := p.envelope(0); end >= 0 {
		m.raw = p.data[:end:end]
		return nil
	}
	err := &ParseError{Code: p.code, Offset: lead + p.at, Reason: p.reason}
	if p.idOK {
		err.ID = ID{string(p.data[m.id.start:m.id.end])}
	}
	*m = Message{}
	return err
}

// A parser fills a message while it scans. Faults of grammar end the scan.
// Faults of shape are noted and the scan goes on, so that the id of a refused
// request is found and bytes that are not JSON are told apart.
type parser struct {
	scanner
	m *Message

	shape   string
	shapeAt int
	idOK    bool
	version bool
	params  span
	result  span
	failure span
}

func (p *parser) misshapen(at int, reason string) {
	if p.shape == "" {
		p.shape, p.shapeAt = reason, at
	}
}

// envelope reads the message at i and what is behind it.
func (p *parser) envelope(i int) int {
	if i >= len(p.data) {
		return p.fail(i, "empty message")
	}
	if p.data[i] != '{' {
		end := p.value(i, 0)
		if end >= 0 {
			end = p.tail(end)
		}
		if end < 0 {
			return -1
		}
		reason := "a message must be an object"
		if p.data[i] == '[' {
			reason = "a batch is not one message"
		}
		return p.refuse(i, reason)
	}
	var seen uint8
	at, more := p.open(i)
	for more {
		name, key, start := p.next(at)
		if start < 0 {
			return -1
		}
		bit, end := p.member(p.decoded(name), key, start)
		if end < 0 {
			return -1
		}
		if seen&bit != 0 {
			p.misshapen(key, "duplicate member of the envelope")
		}
		seen |= bit
		at, more = p.more(end)
	}
	if at < 0 || p.tail(at) < 0 {
		return -1
	}
	p.classify(i)
	if p.shape != "" {
		return p.refuse(p.shapeAt, p.shape)
	}
	return at
}

// refuse notes a fault that is not one of grammar.
func (p *parser) refuse(at int, reason string) int {
	p.fail(at, reason)
	p.code = codeInvalidRequest
	return -1
}

// tail checks that nothing but white space follows.
func (p *parser) tail(i int) int {
	if i = p.space(i); i < len(p.data) {
		return p.fail(i, "more text behind the message")
	}
	return i
}

// decoded returns a member name without its escapes.
func (p *parser) decoded(name []byte) string {
	if bytes.IndexByte(name, '\\') >= 0 {
		return unescape(name)
	}
	return view(name)
}

// member reads one member of the envelope, whose value is at start. The bit
// stands for its name.
func (p *parser) member(name string, key, start int) (bit uint8, end int) {
	m := p.m
	switch name {
	case "jsonrpc":
		bit, end = 1, p.value(start, 1)
		if end >= 0 {
			if p.version = string(p.data[start:end]) == `"2.0"`; !p.version {
				p.misshapen(start, `jsonrpc must be "2.0"`)
			}
		}
	case "id":
		bit, end = 2, p.value(start, 1)
		if end >= 0 {
			m.id = span{uint32(start), uint32(end)}
		}
	case "method":
		bit, end = 4, p.value(start, 1)
		if end >= 0 {
			p.method(start, end)
		}
	case "params":
		bit, end = 8, p.body(start, true)
		p.params = span{uint32(start), uint32(end)}
	case "result":
		bit, end = 16, p.body(start, false)
		p.result = span{uint32(start), uint32(end)}
	case "error":
		bit, end = 32, p.value(start, 1)
		p.failure = span{uint32(start), uint32(end)}
		if p.data[min(start, len(p.data)-1)] != '{' {
			p.misshapen(start, "error must be an object")
		}
	default:
		for _, reserved := range [...]string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if masks(name, reserved) {
				p.misshapen(key, "member name is not spelt \""+reserved+"\"")
			}
		}
		end = p.value(start, 1)
	}
	return bit, end
}

func (p *parser) method(start, end int) {
	v := p.data[start:end]
	if len(v) < 3 || v[0] != '"' {
		p.misshapen(start, "method must be a string that is not empty")
		return
	}
	if p.m.escaped = bytes.IndexByte(v, '\\') >= 0; p.m.escaped {
		if i := loneSurrogate(v); i >= 0 {
			p.misshapen(start+i, "method holds half a surrogate pair")
		}
	}
	p.m.method = span{uint32(start + 1), uint32(end - 1)}
}

// body reads params or result at start and notes its known members. What must
// not stand twice in params may stand twice in a result, where we decide
// nothing, unless its place is noted.
func (p *parser) body(start int, params bool) int {
	if start >= len(p.data) || p.data[start] != '{' {
		if params {
			p.misshapen(start, "params must be an object")
		}
		return p.value(start, 1)
	}
	var names nameSet
	i, more := p.open(start)
	for more {
		raw, key, at := p.next(i)
		if at < 0 {
			return -1
		}
		name := p.decoded(raw)
		known := knownMember(name)
		var end int
		if known == knownMeta {
			end = p.meta(at)
		} else {
			end = p.value(at, 2)
		}
		if end < 0 {
			return -1
		}
		switch {
		case params && !names.add(name):
			p.misshapen(key, "duplicate member of params")
		case known >= 0 && !params && !p.m.known[known].absent():
			p.misshapen(key, "duplicate member of result")
		}
		if known >= 0 {
			p.m.known[known] = member{uint32(key), uint32(at), uint32(end)}
		}
		if params {
			p.param(name, known, key, at, end)
		}
		i, more = p.more(end)
	}
	return i
}

// param checks what the relay decides on.
func (p *parser) param(name string, known, key, start, end int) {
	switch known {
	case knownName, knownURI:
		if p.data[start] == '"' {
			if i := loneSurrogate(p.data[start:end]); i >= 0 {
				p.misshapen(start+i, name+" holds half a surrogate pair")
			}
		}
	case -1:
		for _, reserved := range [...]string{"name", "uri", "arguments", "_meta"} {
			if masks(name, reserved) {
				p.misshapen(key, "member name is not spelt \""+reserved+"\"")
			}
		}
	}
}

// meta reads the _meta at start.
func (p *parser) meta(start int) int {
	if p.data[min(start, len(p.data)-1)] != '{' {
		p.misshapen(start, "_meta must be an object")
		return p.value(start, 2)
	}
	var names nameSet
	i, more := p.open(start)
	for more {
		raw, key, at := p.next(i)
		if at < 0 {
			return -1
		}
		end := p.value(at, 3)
		if end < 0 {
			return -1
		}
		name := p.decoded(raw)
		if !names.add(name) {
			p.misshapen(key, "duplicate member of _meta")
		}
		if name == "progressToken" {
			p.m.token = span{uint32(at), uint32(end)}
		}
		i, more = p.more(end)
	}
	return i
}

// classify decides what the message is, once all members are known.
func (p *parser) classify(start int) {
	m := p.m
	hasID := m.id.end != 0
	null := hasID && string(p.data[m.id.start:m.id.end]) == "null"
	if hasID && !null {
		if i, reason := checkID(p.data[m.id.start:m.id.end]); i >= 0 {
			p.misshapen(int(m.id.start)+i, reason)
		} else {
			p.idOK = true
		}
	}
	hasResult, hasFailure := p.result.end != 0, p.failure.end != 0
	switch {
	case !p.version:
		p.misshapen(start, `jsonrpc must be "2.0"`)
	case m.method.end != 0 && (hasResult || hasFailure):
		p.misshapen(start, "a message has a method or an answer, not both")
	case m.method.end != 0 && null:
		p.misshapen(int(m.id.start), "the id of a request must not be null")
	case m.method.end != 0 && hasID:
		m.kind, m.body = Request, p.params
	case m.method.end != 0:
		m.kind, m.body = Notification, p.params
	case hasResult && hasFailure:
		p.misshapen(start, "a response has a result or an error, not both")
	case p.params.end != 0:
		p.misshapen(start, "params without a method")
	case hasResult && (!hasID || null):
		p.misshapen(start, "a result must have the id of its request")
	case hasResult:
		m.kind, m.body = Response, p.result
	case hasFailure:
		m.kind, m.body, m.failed = Response, p.failure, true
	default:
		p.misshapen(start, "neither a method nor a result nor an error")
	}
}

// A nameSet tells names that come twice, without allocating for the first
// few.
type nameSet struct {
	n     int
	first [16]string
	more  map[string]struct{}
}

// add tells whether name is new.
func (s *nameSet) add(name string) bool {
	for _, old := range s.first[:s.n] {
		if old == name {
			return false
		}
	}
	if s.n < len(s.first) {
		s.first[s.n] = name
		s.n++
		return true
	}
	if _, ok := s.more[name]; ok {
		return false
	}
	if s.more == nil {
		s.more = make(map[string]struct{})
	}
	s.more[name] = struct{}{}
	return true
}
