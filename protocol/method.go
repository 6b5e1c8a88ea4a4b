package protocol

import "github.com/dragoman-mcp/dragoman"

// IsModern tells whether a request or notification claims to be of the modern
// era: whether it names its revision in _meta.
func IsModern(m *dragoman.Message) bool { return m.Meta(MetaProtocolVersion) != nil }

// Cancellable tells whether a request may be cancelled by a notification. The
// handshake may not, and a call that became a task has tasks/cancel.
func Cancellable(req *dragoman.Message) bool {
	switch req.Method() {
	case MethodInitialize:
		return false
	case MethodCallTool:
		return IsModern(req) || req.Get("task") == nil
	}
	return true
}

// Repeatable reports whether a request may be sent a second time when nobody
// knows whether the first was carried out.
func Repeatable(method string) bool {
	switch method {
	case MethodInitialize, MethodSetLevel, MethodSubscribe, MethodUnsubscribe, MethodDiscover, MethodPing, MethodListTools, MethodListResources, MethodListTemplates,
		MethodReadResource, MethodListPrompts, MethodGetPrompt, MethodComplete, MethodGetTask, MethodListTasks:
		return true
	}
	return false
}

// IsList tells whether a method asks for a list of what a server offers.
func IsList(method string) bool {
	switch method {
	case MethodListTools, MethodListPrompts, MethodListResources, MethodListTemplates:
		return true
	}
	return false
}

// MayNeedInput tells whether a server may answer a method by asking for input.
func MayNeedInput(method string) bool {
	return method == MethodCallTool || method == MethodGetPrompt || method == MethodReadResource
}

// NamesItem reports whether requests of a method name a tool, a prompt or a
// resource. A server that answers one of them with −32601 may mean what it names,
// and not the method.
func NamesItem(method string) bool { return MayNeedInput(method) || method == MethodComplete }

// Cacheable tells whether complete results of a method carry ttlMs and
// cacheScope in the modern era.
func Cacheable(method string) bool {
	switch method {
	case MethodDiscover, MethodListTools, MethodListPrompts, MethodListResources, MethodListTemplates, MethodReadResource:
		return true
	}
	return false
}
