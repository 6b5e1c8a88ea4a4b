package dragoman

import (
	"bytes"
	"fmt"
	"slices"
)

const (
	// DefaultMaxMessage is the largest message accepted where no other limit
	// is set, in bytes.
	DefaultMaxMessage = 16 << 20

	// MaxDepth is how deep arrays and objects may nest in a message. The
	// envelope is level 1.
	MaxDepth = 128

	// maxMessage is what spans of 32 bits can address.
	maxMessage = 1<<31 - 1
)

// Limits bounds what Parse accepts. The zero value holds the defaults.
type Limits struct {
	// MaxMessage is the largest message, in bytes. Zero means
	// DefaultMaxMessage; negative means 2 GiB, which no message may exceed.
	MaxMessage int
}

// Message returns the limit in force for one message, in bytes.
func (l Limits) Message() int {
	switch {
	case l.MaxMessage == 0:
		return DefaultMaxMessage
	case l.MaxMessage < 0 || l.MaxMessage > maxMessage:
		return maxMessage
	}
	return l.MaxMessage
}

// Parse reads one message within the default limits, see [Limits.Parse].
func Parse(data []byte) (*Message, error) { return Limits{}.parse(new(Message), data) }

// Parse reads one message. It keeps data, which must not be changed
// afterwards.
//
// The text must be JSON by RFC 8259 in UTF-8, nested at most [MaxDepth] deep,
// and one message by JSON-RPC 2.0 as MCP uses it: ids are strings or integers,
// the method is not empty, params, error and _meta are objects (a _meta that is
// null counts as absent).
//
// Where two readers could disagree on what a message says, it is refused:
//   - if a member name stands twice in the envelope, in params or in _meta, or
//     in a result if it is _meta or another one that Message knows the place of;
//   - if a member name of the envelope or of params differs only by case or
//     NULs from a reserved one: jsonrpc, id, method, params, result, error, and
//     in params name, uri, arguments, _meta, requestState, cursor, taskId and
//     notifications;
//   - if the method, the id, params.name or params.uri holds an escape that is
//     half a surrogate pair.
//
// All else that is unknown passes as it is.
//
// The error is a [ParseError], or [ErrTooLarge].
func (l Limits) Parse(data []byte) (*Message, error) { return l.parse(new(Message), data) }

// parse fills m and returns it. What calls it is small enough to be inlined, so
// that a message need not be allocated that its user does not keep.
func (l Limits) parse(m *Message, data []byte) (*Message, error) {
	if most := l.Message(); len(data) > most {
		return nil, tooLarge(len(data), most)
	}
	var p parser
	p.data = data
	lead := p.space(0)
	p.data = data[lead:]
	end := p.message()
	if end < 0 {
		return nil, p.err(lead)
	}
	*m = p.m
	m.raw = p.data[:end:end]
	return m, nil
}

func tooLarge(size, most int) error {
	return fmt.Errorf("%w: %d bytes, at most %d are accepted", ErrTooLarge, size, most)
}

// A parser fills a message while it scans. Faults of grammar end the scan.
// Faults of shape are noted and the scan continues, so that the id of a refused
// request is found and bytes that are not JSON are told apart.
type parser struct {
	scanner
	m Message

	shape   string // the first fault of shape
	shapeAt int
	seen    uint8 // members of the envelope
	version bool  // jsonrpc is "2.0"
	badID   bool  // the id is none, or there are two
}

// Members of the envelope, as bits.
const (
	sawVersion = 1 << iota
	sawID
	sawMethod
	sawParams
	sawResult
	sawError
)

var (
	reservedInEnvelope = [...]string{"jsonrpc", "id", "method", "params", "result", "error"}
	reservedInParams   = [...]string{"name", "uri", "arguments", "_meta", "requestState", "cursor", "taskId", "notifications"}
)

func (p *parser) badShape(at int, reason string) {
	if p.shape == "" {
		p.shape, p.shapeAt = reason, at
	}
}

// err returns the fault that was noted, in a message that began at lead. An id
// is trusted only if the text was JSON as far as it was read.
func (p *parser) err(lead int) *ParseError {
	err := &ParseError{Code: p.code, Offset: lead + p.at, Reason: p.reason}
	if p.code != codeInvalidRequest {
		return err
	}
	if p.seen&sawID != 0 && !p.badID && !p.null(p.m.id) {
		err.ID = ID{string(p.data[p.m.id.start:p.m.id.end])}
	}
	switch {
	case p.seen&(sawResult|sawError) != 0:
		err.Kind = Response
	case p.seen&sawID != 0:
		err.Kind = Request
	case p.seen&sawMethod != 0:
		err.Kind = Notification
	}
	return err
}

func (p *parser) null(v span) bool { return string(p.data[v.start:v.end]) == "null" }

// message reads the message at the start of the text and what is behind it.
func (p *parser) message() int {
	switch {
	case len(p.data) == 0:
		return p.fail(0, "empty message")
	case p.data[0] == '{':
		return p.envelope()
	case bytes.HasPrefix(p.data, []byte("\ufeff")):
		return p.fail(0, "byte order mark")
	}
	end := p.value(0, 0)
	if end < 0 || p.tail(end) < 0 {
		return -1
	}
	if p.data[0] == '[' {
		return p.refuse(0, "a batch is not one message")
	}
	return p.refuse(0, "a message must be an object")
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

func (p *parser) envelope() int {
	var unknown nameSet
	i, more := p.open(0)
	for more {
		raw, key, start := p.next(i)
		if start < 0 {
			return -1
		}
		name := stringView(raw)
		bit := envelopeMember(name)
		if bit == 0 {
			name = unescape(raw)
			bit = envelopeMember(name)
		}
		if bit == 0 {
			p.checkLookalike(key, name, reservedInEnvelope[:])
		}
		if p.seen&bit != 0 || bit == 0 && !unknown.add(name) {
			p.badShape(key, "duplicate member of the envelope")
			p.badID = p.badID || bit == sawID
		}
		p.seen |= bit
		end := p.member(bit, start)
		if end < 0 {
			return -1
		}
		i, more = p.more(end)
	}
	if i < 0 || p.tail(i) < 0 {
		return -1
	}
	p.classify()
	if p.shape != "" {
		return p.refuse(p.shapeAt, p.shape)
	}
	return i
}

// checkLookalike checks a name that is not reserved against those that are.
func (p *parser) checkLookalike(key int, name string, reserved []string) {
	for _, r := range reserved {
		if looksLike(name, r) {
			p.badShape(key, `member name can be mistaken for "`+r+`"`)
		}
	}
}

// envelopeMember returns the bit of a member of the envelope, or 0.
func envelopeMember(name string) uint8 {
	switch name {
	case "jsonrpc":
		return sawVersion
	case "id":
		return sawID
	case "method":
		return sawMethod
	case "params":
		return sawParams
	case "result":
		return sawResult
	case "error":
		return sawError
	}
	return 0
}

// member reads the value at start of the member of the envelope that bit stands
// for.
func (p *parser) member(bit uint8, start int) (end int) {
	if bit == sawParams || bit == sawResult {
		end = p.body(start, bit == sawParams)
	} else {
		end = p.value(start, 1)
	}
	if end < 0 {
		return -1
	}
	at := span{uint32(start), uint32(end)} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
	switch bit {
	case sawVersion:
		s, ok := text(p.data[start:end])
		if p.version = ok && s == "2.0"; !p.version {
			p.badShape(start, `jsonrpc must be "2.0"`)
		}
	case sawID:
		p.id(at)
	case sawMethod:
		p.method(at)
	case sawParams, sawResult:
		p.m.body = at
	case sawError:
		p.m.body = at
		if p.data[start] != '{' {
			p.badShape(start, "error must be an object")
		}
	}
	return end
}

func (p *parser) id(at span) {
	p.m.id = at
	if p.null(at) {
		return // right in an error response, which classify knows
	}
	if i, reason := checkID(p.data[at.start:at.end]); reason != "" {
		p.badID = true
		p.badShape(int(at.start)+i, reason)
	}
}

func (p *parser) method(at span) {
	v := p.data[at.start:at.end]
	if len(v) < 3 || v[0] != '"' {
		p.badShape(int(at.start), "method must be a string that is not empty")
		return
	}
	if p.m.escaped = bytes.IndexByte(v, '\\') >= 0; p.m.escaped {
		if i := loneSurrogate(v); i >= 0 {
			p.badShape(int(at.start)+i, "method holds half a surrogate pair")
		}
	}
	p.m.method = span{at.start + 1, at.end - 1}
}

// classify decides what the message is, once all members are known.
func (p *parser) classify() {
	m := &p.m
	method := p.seen&sawMethod != 0
	id := p.seen&sawID != 0
	null := id && p.null(m.id)
	switch {
	case !p.version:
		p.badShape(0, `jsonrpc must be "2.0"`)
	case method && p.seen&(sawResult|sawError) != 0:
		p.badShape(0, "a message has a method or an answer, not both")
	case method && null:
		p.badShape(int(m.id.start), "the id of a request must not be null")
	case method && id:
		m.kind = Request
	case method:
		m.kind = Notification
	case p.seen&sawParams != 0:
		p.badShape(0, "params without a method")
	case p.seen&sawResult != 0 && p.seen&sawError != 0:
		p.badShape(0, "a response has a result or an error, not both")
	case p.seen&sawResult != 0 && (!id || null):
		p.badShape(0, "a result must have the id of its request")
	case p.seen&sawResult != 0:
		m.kind = Response
	case p.seen&sawError != 0:
		m.kind, m.failed = Response, true
	default:
		p.badShape(0, "neither a method nor a result nor an error")
	}
}

// known members are those of the body whose place is noted while parsing.
const (
	knownName = iota
	knownURI
	knownArguments
	knownMeta
	knownToken
	knownRequestID
	knownResultType
	knownTTL
	knownCacheScope
	knownResponses
	knownState
	knownTask

	// And these are members of its _meta.
	metaToken
	metaVersion
	metaCapabilities
	metaClient
	metaLogLevel
	numKnown
)

// knownMember returns the index of a member whose place is noted, or -1.
func knownMember(name string) int {
	switch name {
	case "name":
		return knownName
	case "uri":
		return knownURI
	case "arguments":
		return knownArguments
	case "_meta":
		return knownMeta
	case "progressToken":
		return knownToken
	case "requestId":
		return knownRequestID
	case "resultType":
		return knownResultType
	case "ttlMs":
		return knownTTL
	case "cacheScope":
		return knownCacheScope
	case "inputResponses":
		return knownResponses
	case "requestState":
		return knownState
	case "task":
		return knownTask
	}
	return -1
}

// metaMember is knownMember for a member of _meta.
func metaMember(name string) int {
	switch name {
	case "progressToken":
		return metaToken
	case "io.modelcontextprotocol/protocolVersion":
		return metaVersion
	case "io.modelcontextprotocol/clientCapabilities":
		return metaCapabilities
	case "io.modelcontextprotocol/clientInfo":
		return metaClient
	case "io.modelcontextprotocol/logLevel":
		return metaLogLevel
	}
	return -1
}

// body reads params or result at start and notes its known members. What must
// not stand twice in params may stand twice in a result, where we decide
// nothing, unless its place is noted.
func (p *parser) body(start int, params bool) int {
	if start >= len(p.data) || p.data[start] != '{' {
		if params {
			p.badShape(start, "params must be an object")
		}
		return p.value(start, 1)
	}
	var unknown nameSet
	i, more := p.open(start)
	for more {
		raw, key, at := p.next(i)
		if at < 0 {
			return -1
		}
		name := stringView(raw)
		known := knownMember(name)
		if known < 0 {
			name = unescape(raw)
			known = knownMember(name)
		}
		var end int
		if known == knownMeta && p.m.known[knownMeta].absent() {
			end = p.meta(at)
		} else {
			end = p.value(at, 2)
		}
		if end < 0 {
			return -1
		}
		switch {
		case known >= 0:
			if !p.m.known[known].absent() {
				p.badShape(key, "duplicate member "+name)
			}
			p.m.known[known] = span{uint32(at), uint32(end)} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
			if params && (known == knownName || known == knownURI) {
				p.checkRouting(name, at, end)
			}
		case params:
			p.checkLookalike(key, name, reservedInParams[:])
			if !unknown.add(name) {
				p.badShape(key, "duplicate member of params")
			}
		}
		i, more = p.more(end)
	}
	return i
}

// checkRouting checks the value of a member of params that decides where a request
// goes.
func (p *parser) checkRouting(name string, start, end int) {
	if v := p.data[start:end]; v[0] == '"' {
		if i := loneSurrogate(v); i >= 0 {
			p.badShape(start+i, name+" holds half a surrogate pair")
		}
	}
}

// meta reads the _meta at start.
func (p *parser) meta(start int) int {
	if start >= len(p.data) || p.data[start] != '{' {
		end := p.value(start, 2)
		if end >= 0 && p.data[start] != 'n' {
			p.badShape(start, "_meta must be an object")
		}
		return end
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
		name := unescape(raw)
		known := metaMember(name)
		if known >= 0 && !p.m.known[known].absent() || known < 0 && !names.add(name) {
			p.badShape(key, "duplicate member of _meta")
		}
		if known >= 0 {
			p.m.known[known] = span{uint32(at), uint32(end)} // #nosec G115 -- a place in a message, which is shorter than 2 GiB
		}
		i, more = p.more(end)
	}
	return i
}

// A nameSet finds names that come twice. The first few it holds itself, so that
// it need not allocate; then a map holds all.
type nameSet struct {
	n   int
	few [16]string
	all map[string]struct{}
}

// add reports whether name is new.
func (s *nameSet) add(name string) bool {
	if s.all != nil {
		n := len(s.all)
		s.all[name] = struct{}{}
		return len(s.all) > n
	}
	if slices.Contains(s.few[:s.n], name) {
		return false
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	s.all = make(map[string]struct{}, 4*len(s.few))
	for _, old := range s.few {
		s.all[old] = struct{}{}
	}
	s.all[name] = struct{}{}
	return true
}
