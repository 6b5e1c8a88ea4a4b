package protocol

import "github.com/dragoman-mcp/dragoman"

// Methods of requests.
const (
	MethodInitialize        = "initialize"
	MethodPing              = "ping"
	MethodDiscover          = "server/discover"
	MethodListTools         = "tools/list"
	MethodCallTool          = "tools/call"
	MethodListResources     = "resources/list"
	MethodListTemplates     = "resources/templates/list"
	MethodReadResource      = "resources/read"
	MethodSubscribe         = "resources/subscribe"
	MethodUnsubscribe       = "resources/unsubscribe"
	MethodListPrompts       = "prompts/list"
	MethodGetPrompt         = "prompts/get"
	MethodComplete          = "completion/complete"
	MethodSetLevel          = "logging/setLevel"
	MethodListen            = "subscriptions/listen"
	MethodGetTask           = "tasks/get"
	MethodTaskResult        = "tasks/result"
	MethodListTasks         = "tasks/list"
	MethodUpdateTask        = "tasks/update"
	MethodCancelTask        = "tasks/cancel"
	MethodListSkills        = "skills/list"
	MethodGetSkill          = "skills/get"
	MethodReadDirectory     = "resources/directory/read"
	MethodListEvents        = "events/list"
	MethodPollEvents        = "events/poll"
	MethodStreamEvents      = "events/stream"
	MethodSubscribeEvents   = "events/subscribe"
	MethodUnsubscribeEvents = "events/unsubscribe"
	MethodListRoots         = "roots/list"
	MethodCreateMessage     = "sampling/createMessage"
	MethodElicit            = "elicitation/create"
	MethodBatch             = "batch" // a notification that wraps messages; not MCP's, understood on input
	NoteInitialized         = "notifications/initialized"
	NoteCancelled           = "notifications/cancelled"
	NoteProgress            = "notifications/progress"
	NoteMessage             = "notifications/message"
	NoteToolsChanged        = "notifications/tools/list_changed"
	NotePromptsChanged      = "notifications/prompts/list_changed"
	NoteResourcesChanged    = "notifications/resources/list_changed"
	NoteResourceUpdated     = "notifications/resources/updated"
	NoteRootsChanged        = "notifications/roots/list_changed"
	NoteAcknowledged        = "notifications/subscriptions/acknowledged"
	NoteElicitationComplete = "notifications/elicitation/complete"
	NoteTaskStatus          = "notifications/tasks/status"
	NoteTasks               = "notifications/tasks"
)

// Members of _meta. Those of a modern request's envelope are the first three.
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task"
	MetaProgressToken      = "progressToken"
)

// Extensions, as capabilities name them.
const (
	ExtensionApps   = "io.modelcontextprotocol/ui"
	ExtensionEvents = "io.modelcontextprotocol/events" // a draft
	ExtensionSkills = "io.modelcontextprotocol/skills"
	ExtensionTasks  = "io.modelcontextprotocol/tasks"
)

// MetaRenewed is a member of ours of an answer's _meta: the session with the server
// is a new one, and the value says what became of the one before, in which earlier
// calls may have left something.
const MetaRenewed = "dragoman/session-renewed"

// HTTP headers.
const (
	HeaderVersion     = "MCP-Protocol-Version"
	HeaderSession     = "Mcp-Session-Id"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderLastEventID = "Last-Event-ID"
	HeaderAuthServer  = "Mcp-Auth-Server"
)

// Error codes of JSON-RPC and MCP.
const (
	CodeParse             = -32700
	CodeInvalidRequest    = -32600
	CodeMethodNotFound    = -32601
	CodeInvalidParams     = -32602
	CodeInternal          = -32603
	CodeServer            = -32000 // legacy servers' own
	CodeResourceNotFound  = -32002 // legacy only
	CodeHeaderMismatch    = -32020
	CodeMissingCapability = -32021
	CodeUnsupported       = -32022 // protocol version
	CodeURLElicitation    = -32042 // 2025-11-25 only
)

// Error codes of our own, for faults on the way that neither side made. They
// lie outside the range that JSON-RPC reserves.
const (
	CodeUnavailable = -31001 // the server is not there; not sent
	CodeTimeout     = -31002 // no answer in time; outcome unknown
	CodeLost        = -31003 // the conversation ended meanwhile; outcome unknown
	CodeOverloaded  = -31004 // a limit was reached; not sent
	CodeDraining    = -31005 // we are stopping; not sent
	CodeTooLarge    = -31006 // the answer exceeds the limit; outcome unknown
	CodeSignIn      = -31007 // the server wants a sign-in that nobody has made yet; not sent
	CodeDenied      = -31008 // the client has not proven who it is, or may not do that; not sent
)

// Values of resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)

// LogLevels are the levels of log messages, least severe first.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogLevel returns the severity of a level by name, or -1.
func LogLevel(name string) int {
	for i, l := range LogLevels {
		if l == name {
			return i
		}
	}
	return -1
}

// IsModern reports whether a request or notification claims to be of the modern
// era: whether it names its revision in _meta.
func IsModern(m *dragoman.Message) bool { return m.Meta(MetaProtocolVersion) != nil }

// Cancellable reports whether a request may be cancelled by a notification. The
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
		MethodReadResource, MethodListPrompts, MethodGetPrompt, MethodComplete, MethodGetTask, MethodListTasks,
		MethodListSkills, MethodGetSkill, MethodReadDirectory, MethodListEvents:
		return true
	}
	return false
}

// IsList reports whether a method asks for a list of what a server offers.
func IsList(method string) bool {
	switch method {
	case MethodListTools, MethodListPrompts, MethodListResources, MethodListTemplates, MethodListSkills, MethodListEvents:
		return true
	}
	return false
}

// IsUpkeep reports whether a method keeps a conversation up, and asks for nothing that a server
// offers.
func IsUpkeep(method string) bool {
	switch method {
	case MethodInitialize, MethodPing, MethodDiscover, MethodListen:
		return true
	}
	return false
}

// Lasts reports whether requests of a method last until either side ends them: their results
// come in notifications, which name the request.
func Lasts(method string) bool { return method == MethodListen || method == MethodStreamEvents }

// MayNeedInput reports whether a server may answer a method by asking for input.
func MayNeedInput(method string) bool {
	return method == MethodCallTool || method == MethodGetPrompt || method == MethodReadResource
}

// NamesItem reports whether requests of a method name a tool, a prompt or a
// resource. A server that answers one of them with −32601 may mean what it names,
// and not the method.
func NamesItem(method string) bool { return MayNeedInput(method) || method == MethodComplete }

// Cacheable reports whether complete results of a method carry ttlMs and
// cacheScope in the modern era.
func Cacheable(method string) bool {
	switch method {
	case MethodDiscover, MethodListTools, MethodListPrompts, MethodListResources, MethodListTemplates, MethodReadResource,
		MethodListSkills, MethodGetSkill:
		return true
	}
	return false
}
