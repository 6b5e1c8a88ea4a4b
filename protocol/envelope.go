package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
)

// An Envelope is what a request of the modern era says about its sender, in
// _meta. The members of type json.RawMessage are JSON text.
type Envelope struct {
	// Version names the revision. Which ones exist is not looked at.
	Version string

	// Capabilities is an object: what the client can be asked for.
	Capabilities json.RawMessage

	// Client is an object with name and version, or nil if the client does not
	// say who it is.
	Client json.RawMessage

	// LogLevel is a string, the least severe log messages that the client wants
	// on the way, or nil if it wants none. Which levels exist is not looked at.
	LogLevel json.RawMessage
}

// ReadEnvelope returns the envelope of a request. The error says what is missing
// or wrong.
func ReadEnvelope(req *dragoman.Message) (Envelope, error) {
	version := req.Meta(MetaProtocolVersion)
	e := Envelope{
		Version:      versionText(version),
		Capabilities: req.Meta(MetaClientCapabilities),
		Client:       req.Meta(MetaClientInfo),
		LogLevel:     req.Meta(MetaLogLevel),
	}
	switch {
	case version == nil:
		return e, errors.New("params._meta lacks " + MetaProtocolVersion + "; every request names its revision")
	case e.Version == "":
		return e, errors.New("params._meta." + MetaProtocolVersion + " must be a string that is not empty")
	case e.Capabilities == nil:
		return e, errors.New("params._meta lacks " + MetaClientCapabilities + "; it must be an object, {} if you have none")
	case e.Capabilities[0] != '{':
		return e, errors.New("params._meta." + MetaClientCapabilities + " must be an object, {} if you have none")
	case e.Client != nil && !IsImplementation(e.Client):
		return e, errors.New("params._meta." + MetaClientInfo + " must be an object with a name and a version, both strings, or be left out")
	case e.LogLevel != nil && e.LogLevel[0] != '"':
		return e, errors.New("params._meta." + MetaLogLevel + " must be a string")
	}
	return e, nil
}

// versionText returns what the name of a revision says. That of the latest, which every
// request has, takes no memory.
func versionText(value []byte) string {
	if n := len(value); n > 2 && string(value[1:n-1]) == table[Latest].name {
		return table[Latest].name
	}
	name, _ := dragoman.Text(value)
	return name
}

// CheckEnvelope returns the error with which a server that speaks every modern revision
// refuses a request because of its envelope, or nil.
func CheckEnvelope(req *dragoman.Message) *dragoman.Error {
	e, err := ReadEnvelope(req)
	if err != nil {
		return &dragoman.Error{Code: CodeInvalidParams, Message: err.Error()}
	}
	if ParseRevision(e.Version).Era() == Modern {
		return nil
	}
	return Unsupported(e.Version, NamesOf(Modern))
}

// IsImplementation reports whether JSON text is an object with name and version, as everybody
// has to introduce themselves.
func IsImplementation(info json.RawMessage) bool {
	var name, version bool
	for key, value := range dragoman.Members(info) {
		switch key {
		case "name":
			name = value[0] == '"'
		case "version":
			version = value[0] == '"'
		}
	}
	return name && version
}

// VersionOf returns the revision that initialize or the answer to it names, or "".
func VersionOf(m *dragoman.Message) string {
	version, _ := dragoman.Text(m.Get("protocolVersion")) // what is no string names none
	return version
}

// maxClientName is how many bytes of a client's name count: it is kept for as long as what
// belongs to the client.
const maxClientName = 256

// ClientName returns the name that the client of a request gives itself: in the
// envelope, or in initialize, up to 256 bytes of it. It is empty if there is none.
func ClientName(req *dragoman.Message) string {
	info := req.Meta(MetaClientInfo)
	if info == nil && req.Method() == MethodInitialize {
		info = req.Get("clientInfo")
	}
	name := dragoman.MemberText(info, "name")
	if len(name) <= maxClientName {
		return name
	}
	end := maxClientName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return strings.Clone(name[:end])
}

// Identify returns the context of a request whose caller has the name that the client
// gives itself. What belongs to a session has the caller that opened it, as it is.
func Identify(ctx context.Context, req *dragoman.Message) context.Context {
	caller := dragoman.CallerOf(ctx)
	if named := Named(caller, req); named != caller {
		return dragoman.WithCaller(ctx, named)
	}
	return ctx
}

// Named returns a caller with the name that the client of a request gives itself, if nothing
// better is known of it.
func Named(caller *dragoman.Caller, req *dragoman.Message) *dragoman.Caller {
	if caller.Client != "" || caller.Principal != "" || caller.Session != "" {
		return caller
	}
	name := ClientName(req)
	if name == "" {
		return caller
	}
	named := *caller
	named.Client = name
	return &named
}

// Put returns the request with this envelope in its _meta, in place of any
// other. What is nil is left out, except that capabilities are {}.
func (e Envelope) Put(req *dragoman.Message) (*dragoman.Message, error) {
	caps := e.Capabilities
	if caps == nil {
		caps = json.RawMessage("{}")
	}
	return req.Edit().
		SetMeta(MetaProtocolVersion, dragoman.Quote(e.Version)).
		SetMeta(MetaClientCapabilities, caps).
		SetMeta(MetaClientInfo, e.Client).
		SetMeta(MetaLogLevel, e.LogLevel).
		Message()
}
