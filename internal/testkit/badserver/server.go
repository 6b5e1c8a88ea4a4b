// Package badserver is a small MCP server of both eras with one defect, for tests of what finds
// defects. Without a defect nothing is wrong with it.
//
// A test binary is its own server: its TestMain begins with [Main], and a process with the environment of
// [Env] is the server on standard input and output. [Serve] is the same on sockets, [Handler] over HTTP.
package badserver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Defect is what is wrong with a server. The comments say what it does.
type Defect string

// The defects of messages, on any transport.
const (
	None            Defect = ""
	WrongID         Defect = "wrong-id"          // answers have the id of the request and one more
	TextID          Defect = "text-id"           // numbers become strings
	NoJSONRPC       Defect = "no-jsonrpc"        // "jsonrpc" is missing
	Both            Defect = "both"              // answers have a result and an error
	AnswersNotes    Defect = "answers-notes"     // notifications are answered
	SilentUnknown   Defect = "silent-unknown"    // unknown methods are not answered
	UnknownCode     Defect = "unknown-code"      // they are, by -32000
	NoMessage       Defect = "no-message"        // errors have no message
	Hang            Defect = "hang"              // initialize is not answered, nor is server/discover
	NoServerInfo    Defect = "no-server-info"    // initialize is answered without serverInfo
	EchoesVersion   Defect = "echoes-version"    // any revision is echoed
	NoPing          Defect = "no-ping"           // ping is unknown
	FalsePromise    Defect = "false-promise"     // prompts are announced and unknown
	EndlessList     Defect = "endless-list"      // tools/list always has a next page
	AnyCursor       Defect = "any-cursor"        // cursors are not looked at
	UnsteadyList    Defect = "unsteady-list"     // the order of the tools changes
	UnknownTool     Defect = "unknown-tool"      // a call of any tool succeeds
	LegacyOnly      Defect = "legacy-only"       // server/discover is unknown, which is none
	ModernOnly      Defect = "modern-only"       // initialize is unknown, which is none
	NoResultType    Defect = "no-result-type"    // modern results have no resultType
	NoCacheHints    Defect = "no-cache-hints"    // modern lists have no ttlMs and cacheScope
	AnyVersion      Defect = "any-version"       // a modern request may name any revision
	NoEnvelope      Defect = "no-envelope"       // capabilities may be missing from a modern request
	NeedsClientInfo Defect = "needs-client-info" // clientInfo may not
	EmptyContent    Defect = "empty-content"     // the result of a tool has no content
	WrongOutput     Defect = "wrong-output"      // structuredContent does not fit outputSchema
	EarlyNote       Defect = "early-note"        // it tells of changes before the handshake is over
	BackProgress    Defect = "back-progress"     // progress of a call goes back
	OtherProgress   Defect = "other-progress"    // progress of a call has another token
	StrayProgress   Defect = "stray-progress"    // progress of a list comes, which was not asked for
	NoRequested     Defect = "no-requested"      // the error for a modern revision does not repeat it
	OtherVersions   Defect = "other-versions"    // that error names other revisions than server/discover
	ModernSilent    Defect = "modern-silent"     // as ModernOnly, and the error to initialize names no revision
	AnyLogLevel     Defect = "any-log-level"     // a modern request may name any logLevel
	OwnTools        Defect = "own-tools"         // each conversation has a tool of its own
	NoReadHints     Defect = "no-read-hints"     // what is read in the modern era has no ttlMs and cacheScope
	MixedScopes     Defect = "mixed-scopes"      // the pages of a list have different cacheScopes
	Listens         Defect = "listens"           // it tells of changes of its tools, which is none
	NoAck           Defect = "no-ack"            // subscriptions begin without an acknowledgement
	ListenUnasked   Defect = "listen-unasked"    // the acknowledgement names what was not asked for
	ListenAnyhow    Defect = "listen-anyhow"     // subscriptions need not say to what
)

// Defects of tools.
const (
	BadName         Defect = "bad-name"
	LongName        Defect = "long-name"
	SameName        Defect = "same-name"
	NoDescription   Defect = "no-description"
	LongDescription Defect = "long-description"
	NoSchema        Defect = "no-schema"
	SchemaType      Defect = "schema-type"
	SchemaUnion     Defect = "schema-union"
	SchemaRef       Defect = "schema-ref"
	SchemaRecursive Defect = "schema-recursive"
	SchemaRemote    Defect = "schema-remote"
	SchemaProperty  Defect = "schema-property"
	SchemaDeep      Defect = "schema-deep"
	SchemaInvalid   Defect = "schema-invalid"
	SchemaRequired  Defect = "schema-required"
	OutputType      Defect = "output-type"
	HeaderName      Defect = "header-name"
	ManyTools       Defect = "many-tools"
	LargeTools      Defect = "large-tools"
)

type object = map[string]any

// A message is one that a client sent.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string         `json:"name"`
		URI             string         `json:"uri"`
		Cursor          *string        `json:"cursor"`
		Level           string         `json:"level"`
		ProtocolVersion string         `json:"protocolVersion"`
		Notifications   any            `json:"notifications"`
		Meta            map[string]any `json:"_meta"`
	} `json:"params"`
}

// version returns what a modern request names as its revision.
func (m *message) version() (string, bool) {
	version, ok := m.Params.Meta[protocol.MetaProtocolVersion].(string)
	return version, ok
}

// A server is one conversation.
type server struct {
	Defect
	lists int    // how often tools were listed
	own   string // what no other conversation has

	posted chan []byte // answers that are on the stream of GET, too
}

func newServer(d Defect) *server {
	return &server{Defect: d, own: rand.Text(), posted: make(chan []byte, 100)}
}

// modernOnly reports whether the server speaks no legacy revision.
func (d Defect) modernOnly() bool { return d == ModernOnly || d == ModernSilent || d == ModernGet }

// listens reports whether the server tells of changes of its tools.
func (d Defect) listens() bool {
	return d == Listens || d == NoAck || d == ListenUnasked || d == ListenAnyhow
}

// An rpcError is an answer that is none.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
	Data    any    `json:"data,omitempty"`
}

// Answer returns what a server without a defect answers to a message; nil for nothing.
func Answer(text []byte) []byte { return (&server{}).answer(text) }

// answer returns the answer to a message; nil for none.
func (s *server) answer(text []byte) []byte {
	var m message
	if json.Unmarshal(text, &m) != nil {
		return s.write(json.RawMessage("null"), nil, &rpcError{Code: protocol.CodeParse, Message: "that is not JSON"})
	}
	if m.ID == nil {
		if s.Defect == AnswersNotes && m.Method != "" {
			return s.write(json.RawMessage("null"), object{}, nil)
		}
		return nil
	}
	if m.Method == "" {
		return nil
	}
	first := m.Method == protocol.MethodInitialize || m.Method == protocol.MethodDiscover
	if s.Defect == Hang && first {
		return nil
	}
	if m.Method == protocol.MethodListen && s.listens() {
		return s.listen(&m)
	}
	result, e := s.serve(&m)
	if e != nil && e.Code == protocol.CodeMethodNotFound && !first {
		switch s.Defect {
		case SilentUnknown:
			return nil
		case UnknownCode:
			e.Code = protocol.CodeServer
		}
	}
	return s.among(&m, s.write(m.ID, result, e))
}

// among returns an answer with the notifications that are before and behind it, each on a line.
func (s *server) among(m *message, answer []byte) []byte {
	note := func(method string, params object) []byte {
		text, _ := json.Marshal(object{"jsonrpc": "2.0", "method": method, "params": params}) // it is made of what JSON has
		return text
	}
	progress := func(token any, n int) []byte {
		return note(protocol.NoteProgress, object{"progressToken": token, "progress": n})
	}
	token := m.Params.Meta["progressToken"]
	lines := [][]byte{answer}
	switch {
	case s.Defect == EarlyNote && m.Method == protocol.MethodInitialize:
		lines = [][]byte{answer, note(protocol.NoteToolsChanged, nil)}
	case s.Defect == BackProgress && token != nil:
		lines = [][]byte{progress(token, 2), progress(token, 1), answer}
	case s.Defect == OtherProgress && token != nil:
		lines = [][]byte{progress("another", 1), answer}
	case s.Defect == StrayProgress && m.Method == protocol.MethodListTools:
		lines = [][]byte{progress("another", 1), answer}
	}
	return bytes.Join(lines, []byte("\n"))
}

// listen answers a request for a subscription, which does not end.
func (s *server) listen(m *message) []byte {
	asked, ok := m.Params.Notifications.(object)
	if !ok && s.Defect != ListenAnyhow {
		return s.write(m.ID, nil, &rpcError{Code: protocol.CodeInvalidParams, Message: "to what?"})
	}
	if s.Defect == ListenUnasked {
		asked["promptsListChanged"] = true
	}
	method := protocol.NoteAcknowledged
	if s.Defect == NoAck {
		method = protocol.NoteToolsChanged
	}
	text, _ := json.Marshal(object{"jsonrpc": "2.0", "method": method, "params": object{"notifications": asked, "_meta": object{protocol.MetaSubscriptionID: m.ID}}}) // it is made of what JSON has
	return text
}

func (s *server) write(id json.RawMessage, result object, e *rpcError) []byte {
	a := object{"jsonrpc": "2.0", "id": id}
	switch {
	case e != nil && s.Defect == NoMessage:
		a["error"] = object{"code": e.Code, "data": e.Data}
	case e != nil:
		a["error"] = e
	default:
		a["result"] = result
	}
	switch s.Defect {
	case WrongID:
		a["id"] = 424242
	case TextID:
		a["id"] = strings.Trim(string(id), `"`)
	case NoJSONRPC:
		delete(a, "jsonrpc")
	case Both:
		a["error"] = object{"code": 1, "message": "no error"}
	}
	text, _ := json.Marshal(a) // it is made of what JSON has
	return text
}

// serve returns the result of a request.
func (s *server) serve(m *message) (object, *rpcError) {
	version, modern := m.version()
	if modern && s.Defect != LegacyOnly && s.Defect != DiesOfUnknown {
		return s.serveModern(m, version)
	}
	if s.modernOnly() && m.Method == protocol.MethodInitialize && s.Defect != ModernSilent {
		return nil, &rpcError{Code: protocol.CodeUnsupported, Message: "unsupported revision", Data: object{"supported": []string{protocol.Latest.String()}, "requested": m.Params.ProtocolVersion}}
	}
	if s.modernOnly() || modern && m.Method == protocol.MethodDiscover {
		return nil, &rpcError{Code: protocol.CodeMethodNotFound, Message: m.Method + " is not known"}
	}
	if m.Method == protocol.MethodPing && s.Defect != NoPing {
		return object{}, nil
	}
	if m.Method == protocol.MethodSetLevel {
		if !slices.Contains(protocol.LogLevels, m.Params.Level) {
			return nil, &rpcError{Code: protocol.CodeInvalidParams, Message: "there is no such level"}
		}
		return object{}, nil
	}
	if m.Method == protocol.MethodInitialize {
		asked := m.Params.ProtocolVersion
		if !slices.Contains(protocol.NamesOf(protocol.Legacy), asked) && s.Defect != EchoesVersion {
			asked = protocol.NamesOf(protocol.Legacy)[0]
		}
		hello := object{"protocolVersion": asked, "capabilities": s.capabilities(), "serverInfo": object{"name": "bad", "version": "1"}}
		if s.Defect == NoServerInfo {
			delete(hello, "serverInfo")
		}
		return hello, nil
	}
	return s.serveList(m, protocol.CodeResourceNotFound)
}

func (s *server) capabilities() object {
	can := object{"tools": object{"listChanged": s.listens()}, "resources": object{}, "logging": object{}}
	if s.Defect == FalsePromise {
		can["prompts"] = object{}
	}
	return can
}

func (s *server) serveModern(m *message, version string) (object, *rpcError) {
	supported := []string{protocol.Latest.String()}
	if !s.modernOnly() {
		supported = append(supported, protocol.NamesOf(protocol.Legacy)...)
	}
	_, capable := m.Params.Meta[protocol.MetaClientCapabilities].(object)
	_, named := m.Params.Meta[protocol.MetaClientInfo].(object)
	level, leveled := m.Params.Meta[protocol.MetaLogLevel].(string)
	switch {
	case version != protocol.Latest.String() && s.Defect != AnyVersion:
		data := object{"supported": supported, "requested": version}
		switch s.Defect {
		case NoRequested:
			delete(data, "requested")
		case OtherVersions:
			data["supported"] = append(supported, "2027-01-01")
		}
		return nil, &rpcError{Code: protocol.CodeUnsupported, Message: "unsupported revision", Data: data}
	case leveled && !slices.Contains(protocol.LogLevels, level) && s.Defect != AnyLogLevel:
		return nil, &rpcError{Code: protocol.CodeInvalidParams, Message: "there is no such level"}
	case !capable && s.Defect != NoEnvelope, !named && s.Defect == NeedsClientInfo:
		return nil, &rpcError{Code: protocol.CodeInvalidParams, Message: "_meta is not complete"}
	}
	var result object
	var e *rpcError
	if m.Method == protocol.MethodDiscover {
		result = object{"supportedVersions": supported, "capabilities": s.capabilities(), "_meta": object{protocol.MetaServerInfo: object{"name": "bad", "version": "1"}}}
	} else if result, e = s.serveList(m, protocol.CodeInvalidParams); e != nil {
		return nil, e
	}
	if s.Defect != NoResultType {
		result["resultType"] = protocol.ResultComplete
	}
	if m.Method != protocol.MethodCallTool && s.Defect != NoCacheHints {
		result["ttlMs"], result["cacheScope"] = 1000, "public"
	}
	switch {
	case s.Defect == NoReadHints && m.Method == protocol.MethodReadResource:
		delete(result, "ttlMs")
	case s.Defect == MixedScopes && m.Params.Cursor != nil:
		result["cacheScope"] = "private"
	}
	return result, nil
}

// serveList serves what both eras have.
func (s *server) serveList(m *message, noResource int) (object, *rpcError) {
	second := s.Defect == MixedScopes && m.Params.Cursor != nil && *m.Params.Cursor == "second"
	bad := m.Params.Cursor != nil && s.Defect != EndlessList && s.Defect != AnyCursor && !second
	switch m.Method {
	case protocol.MethodListTools, protocol.MethodListResources, protocol.MethodListTemplates:
		if bad {
			return nil, &rpcError{Code: protocol.CodeInvalidParams, Message: "there is no such cursor"}
		}
	}
	switch m.Method {
	case protocol.MethodListTools:
		s.lists++
		tools := s.tools()
		if s.Defect == UnsteadyList && s.lists > 1 {
			slices.Reverse(tools)
		}
		result := object{"tools": tools}
		switch {
		case s.Defect == EndlessList:
			result["nextCursor"] = "again"
		case second:
			result["tools"] = tools[1:]
		case s.Defect == MixedScopes:
			result["tools"], result["nextCursor"] = tools[:1], "second"
		}
		return result, nil
	case protocol.MethodListResources:
		return object{"resources": []object{{"uri": "bad://text", "name": "text"}}}, nil
	case protocol.MethodListTemplates:
		return object{"resourceTemplates": []object{}}, nil
	case protocol.MethodReadResource:
		if m.Params.URI != "bad://text" {
			return nil, &rpcError{Code: noResource, Message: "there is no such resource"}
		}
		return object{"contents": []object{{"uri": "bad://text", "text": "text"}}}, nil
	case protocol.MethodCallTool:
		if m.Params.Name != "echo" && s.Defect != UnknownTool {
			return nil, &rpcError{Code: protocol.CodeInvalidParams, Message: "there is no such tool"}
		}
		result := object{"content": []object{{"type": "text", "text": "hello"}}, "structuredContent": object{"text": "hello"}}
		switch s.Defect {
		case EmptyContent:
			result["content"] = []object{}
		case WrongOutput:
			result["structuredContent"] = object{"text": 1}
		}
		return result, nil
	}
	return nil, &rpcError{Code: protocol.CodeMethodNotFound, Message: m.Method + " is not known"}
}

// tools returns the tools, one of which may have a defect.
func (s *server) tools() []object {
	text := object{"type": "string"}
	schema := object{"type": "object", "properties": object{"text": text}}
	echo := object{"name": "echo", "description": "Says what it is told.", "inputSchema": schema, "outputSchema": object{"type": "object", "properties": object{"text": text}}}
	tools := []object{echo, {"name": "other", "description": "Does nothing.", "inputSchema": object{"type": "object"}}}
	properties := schema["properties"].(object)
	switch s.Defect {
	case OwnTools:
		tools = append(tools, object{"name": "tool_" + s.own, "description": "Does nothing.", "inputSchema": object{"type": "object"}})
	case BadName:
		echo["name"] = "echo it"
	case LongName:
		echo["name"] = strings.Repeat("e", 65)
	case SameName:
		tools = append(tools, echo)
	case NoDescription:
		delete(echo, "description")
	case LongDescription:
		echo["description"] = strings.Repeat("Says what it is told. ", 100)
	case NoSchema:
		delete(echo, "inputSchema")
	case SchemaType:
		delete(schema, "type")
	case SchemaUnion:
		schema["anyOf"] = []object{{"required": []string{"text"}}, {"required": []string{"other"}}}
	case SchemaRef:
		properties["text"] = object{"$ref": "#/$defs/missing"}
	case SchemaRecursive:
		schema["$defs"] = object{"tree": object{"type": "object", "properties": object{"children": object{"type": "array", "items": object{"$ref": "#/$defs/tree"}}}}}
		properties["tree"] = object{"$ref": "#/$defs/tree"}
	case SchemaRemote:
		properties["text"] = object{"$ref": "https://example.com/schema.json"}
	case SchemaProperty:
		properties["the text!"] = text
	case SchemaDeep:
		inner := text
		for range 12 {
			inner = object{"type": "object", "properties": object{"inner": inner}}
		}
		properties["inner"] = inner
	case SchemaInvalid:
		properties["text"] = object{"type": "word"}
	case SchemaRequired:
		schema["required"] = []string{"text", "missing"}
	case OutputType:
		echo["outputSchema"] = object{"type": "array"}
	case HeaderName:
		properties["text"] = object{"type": "number", "x-mcp-header": "Text"}
	case ManyTools:
		for i := range 130 {
			tools = append(tools, object{"name": "tool_" + strings.Repeat("i", i/2) + strings.Repeat("j", i%2), "description": "Does nothing.", "inputSchema": object{"type": "object"}})
		}
		slices.SortFunc(tools, func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
		tools = slices.CompactFunc(tools, func(a, b object) bool { return a["name"] == b["name"] })
		for i, t := range tools {
			t["name"] = t["name"].(string)[:min(len(t["name"].(string)), 20)] + "_" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		}
	case LargeTools:
		for i := range 120 {
			tools = append(tools, object{"name": "tool_" + string(rune('a'+i/26)) + string(rune('a'+i%26)), "description": strings.Repeat("Does nothing. ", 70), "inputSchema": object{"type": "object"}})
		}
	}
	return tools
}

// compact returns JSON text on one line.
func compact(text []byte) []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, text) // it is JSON
	return b.Bytes()
}
