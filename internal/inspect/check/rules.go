package check

import "slices"

// Rules returns all rules, in the order in which they are looked at. docs/check.md has them as a
// table.
func Rules() []Rule {
	return slices.Concat(smokeRules, handshakeRules, messageRules, listRules, modernRules, httpRules, oldRules, socketRules, toolRules, callRules, stdioRules, spokenRules)
}

// smokeRules are the shortest conversation.
var smokeRules = []Rule{
	{"smoke-handshake", Error, "a handshake is answered, under its own id", "E09", smokeAlone, smokeHandshake},
	{"smoke-tools-list", Error, "tools/list is answered with a list of tools", "E09", smokeAlone, smokeList},
	{"smoke-tools-call", Error, "tools/call of the tool that is named is answered with a result", "E09", smokeAlone | namedTool, smokeCall},
}

var handshakeRules = []Rule{
	{"init-result", Error, "the result of initialize has a revision as protocolVersion, capabilities, and serverInfo with name and version", "", legacyEra, initResult},
	{"init-version", Error, "a revision that it does not know is answered by one that it speaks, or by an error", "", legacyEra | again, initVersion},
	{"init-kept", Error, "the revision that initialize is answered with is spoken from then on", "", overHTTP, initKept},
	{"init-old", Info, "older revisions are spoken, too", "", legacyEra, initOld},
	{"init-capabilities", Error, "capabilities of the client that it does not know do not matter", "", legacyEra, initCapabilities},
	{"init-early", Warning, "nothing but pings and logs comes before notifications/initialized", "", legacyEra, initEarly},
	{"ping", Error, "ping is answered with an empty result", "", legacyEra, ping},
}

var messageRules = []Rule{
	{"rpc-unknown-method", Error, "a method that it does not know is answered with -32601", "A03", 0, unknownMethod},
	{"rpc-text-id", Error, "an id may be a string or a number, and comes back as it was", "A04", 0, textID},
	{"rpc-notification", Error, "notifications are not answered, also those that are unknown", "", 0, notification},
	{"rpc-concurrent", Error, "several requests at once are each answered, under their own ids", "A10", 0, concurrent},
	{"cancel-unknown", Error, "a cancellation of a request that is not there does not matter", "", again, cancelUnknown},
	{"rpc-batch", Warning, "an array of messages does not end the conversation", "B01", 0, batch},
	{"rpc-garbage", Warning, "what is no JSON does not end the conversation", "A12", 0, garbage},
	{"rpc-parse-error", Info, "what is no JSON is answered with -32700", "A12", 0, parseError},
}

var listRules = []Rule{
	{"list-promise", Error, "what capabilities promise is answered", "", 0, listPromise},
	{"list-end", Error, "the pages of a list have an end", "", 0, listEnd},
	{"list-cursor", Info, "a cursor that it has not given out is answered with -32602", "", 0, listCursor},
	{"list-steady", Warning, "tools are listed in the same order each time", "", haveTools, listSteady},
	{"unknown-tool", Error, "a tool that does not exist is an error", "A03", haveTools, unknownTool},
	{"unknown-resource", Warning, "a resource that does not exist is an error", "A03", 0, unknownResource},
	{"unknown-resource-code", Info, "that error has the code of the revision: -32002, and -32602 in the modern era", "A03", 0, unknownResourceCode},
	{"unknown-prompt", Warning, "a prompt that does not exist is an error", "A03", 0, unknownPrompt},
	{"log-level", Warning, "a log level that does not exist is answered with -32602", "", legacyEra, logLevel},
}

var modernRules = []Rule{
	{"modern-discover", Error, "server/discover has supportedVersions, capabilities, ttlMs and cacheScope", "", modernEra, modernDiscover},
	{"modern-result-type", Error, "every result has a resultType that is known", "", modernEra, modernResultType},
	{"modern-cache", Error, "lists have ttlMs and cacheScope", "", modernEra, modernCache},
	{"modern-cache-read", Error, "templates and what is read have them, too", "", modernEra, modernCacheRead},
	{"modern-cache-pages", Error, "all pages of a list have the same cacheScope", "", modernEra, modernCachePages},
	{"modern-server-info", Info, "results say in _meta which server they are from", "", modernEra, modernServerInfo},
	{"modern-envelope", Error, "a request without clientCapabilities in _meta is answered with -32602", "", modernEra, modernEnvelope},
	{"modern-client-info", Error, "a request need not say who the client is", "", modernEra, modernClientInfo},
	{"modern-version", Error, "a revision that it does not speak is answered with -32022, which names those that it does", "", modernEra, modernVersion},
	{"modern-version-data", Warning, "that error names the revision that was asked for, and those of server/discover", "", modernEra, modernVersionData},
	{"modern-only", Warning, "who speaks no legacy revision names those that it speaks in the error to initialize", "", modernEra | onlyModern, modernOnly},
	{"modern-log-level", Warning, "a logLevel that does not exist is answered with -32602", "", modernEra, modernLogLevel},
	{"modern-steady", Error, "the tools are the same in every conversation", "", modernEra | haveTools | again, modernSteady},
	{"modern-listen", Error, "subscriptions/listen begins with an acknowledgement that names the request", "", modernEra | listens, modernListen},
	{"modern-listen-asked", Error, "the acknowledgement names nothing that was not asked for", "", modernEra | listens, modernListenAsked},
	{"modern-listen-params", Warning, "subscriptions/listen without notifications is answered with -32602", "", modernEra | listens, modernListenParams},
	{"modern-status", Error, "errors have the status that clients tell them by: 404 for a method, 400 for a revision or an envelope", "", modernEra | overHTTP, modernStatus},
	{"modern-headers", Error, "headers that are missing or differ from the body get 400 and -32020", "", modernEra | overHTTP, modernHeaders},
	{"modern-header-name", Error, "an Mcp-Name that is missing, differs from the body or is no base64 gets 400 and -32020", "", modernEra | overHTTP, modernName},
	{"modern-header-base64", Error, "an Mcp-Name in base64 is decoded before it is compared", "", modernEra | overHTTP, modernEncoding},
	{"modern-header-alone", Error, "a request that is modern by its header and has no envelope gets 400, and -32602 or -32020", "", modernEra | overHTTP, modernBare},
	{"modern-session", Error, "modern requests are given no session", "", modernEra | overHTTP, modernSession},
	{"modern-session-ignored", Warning, "Mcp-Session-Id and Last-Event-ID of modern requests are ignored", "", modernEra | overHTTP, modernSessionIgnored},
	{"modern-event-id", Error, "events of modern streams have no ids", "", modernEra | overHTTP, modernEventIDs},
	{"modern-methods", Warning, "GET and DELETE get 405 from who speaks no legacy revision", "", modernEra | overHTTP | onlyModern, modernMethods},
}

var httpRules = []Rule{
	{"http-type", Error, "answers are application/json or text/event-stream", "A15", overHTTP, httpType},
	{"http-accepted", Error, "a notification gets 202 and no body", "B05", overHTTP | legacyEra, httpAccepted},
	{"http-stream-end", Warning, "the stream of a request ends behind its response", "B07", overHTTP, httpStreamEnd},
	{"http-buffering", Info, "event streams tell proxies not to hold them back: Cache-Control: no-cache, or X-Accel-Buffering: no", "A20", overHTTP, httpBuffering},
	{"http-methods", Warning, "methods other than POST, GET and DELETE get 405", "A18", overHTTP, httpMethods},
	{"http-get", Error, "GET opens an event stream or gets 405", "B09", overHTTP, httpGet},
	{"http-get-answers", Error, "the stream of GET has no answers to requests that were posted", "B10", overHTTP | legacyEra, getAnswers},
	{"http-content-type", Warning, "a body that is not said to be JSON is refused: pages may send text/plain without being asked", "A14", overHTTP, httpContentType},
	{"http-origin", Error, "requests of foreign pages are refused, from 2025-11-25 on with 403", "B03", overHTTP, httpOrigin},
	{"http-origin-status", Warning, "requests of foreign pages are refused with 403 in older revisions, too", "B03", overHTTP, httpOriginStatus},
	{"http-host", Warning, "on this machine, requests for foreign hosts are refused", "B03", overHTTP, httpHost},
	{"http-version", Error, "an MCP-Protocol-Version that does not exist gets 400", "", overHTTP | legacyEra | versions, httpVersion},
	{"http-version-absent", Warning, "a request in a session is served without MCP-Protocol-Version, too", "", overHTTP | legacyEra | sessions | versions, versionAbsent},
	{"http-session-id", Error, "session ids are visible ASCII, and cannot be guessed", "B12", overHTTP | legacyEra | sessions, sessionID},
	{"http-session-unique", Error, "each session has an id of its own", "B12", overHTTP | legacyEra | sessions, sessionUnique},
	{"http-session-needed", Warning, "a request without the id of its session gets 400", "B12", overHTTP | legacyEra | sessions, sessionNeeded},
	{"http-session-unknown", Error, "a session that is not there gets 404", "B12", overHTTP | legacyEra | sessions, sessionUnknown},
	{"http-delete", Error, "DELETE ends a session, which gets 404 from then on, or gets 405", "B13", overHTTP | legacyEra | sessions, sessionDelete},
	{"http-resume", Warning, "events that have ids can be resumed behind", "B11", overHTTP | legacyEra, resume},
	{"http-event-id", Error, "no two events of a session have the same id", "B11", overHTTP | legacyEra, eventIDs},
	{"http-priming", Info, "streams whose events have ids begin with one that has no data, from 2025-11-25 on", "B11", overHTTP | legacyEra, priming},
	{"http-priming-old", Warning, "clients of older revisions get no event without data", "", overHTTP | legacyEra, primingOld},
	{"http-tls", Warning, "a server that is not on this machine is reached by https", "A19", overHTTP, httpTLS},
}

var oldRules = []Rule{
	{"sse-origin", Error, "foreign pages are refused the stream", "B03", overOld, oldOrigin},
	{"sse-post-origin", Error, "messages of foreign pages are refused", "B03", overOld, oldPostOrigin},
	{"sse-host", Warning, "on this machine, requests for foreign hosts are refused", "B03", overOld, oldHost},
	{"sse-accepted", Warning, "a message that is posted gets 202", "A16", overOld, oldAccepted},
	{"sse-content-type", Warning, "a message that is not said to be JSON is refused: pages may send text/plain without being asked", "A14", overOld, oldContentType},
	{"sse-session", Error, "the endpoint of each stream is another, and cannot be guessed", "", overOld, oldSession},
	{"sse-session-unknown", Error, "a message for a stream that is not there is refused", "", overOld, oldUnknown},
	{"sse-session-end", Warning, "a message for a stream that its client has closed is refused", "", overOld, oldEnd},
	{"sse-event", Warning, "messages are events called message", "", overOld, oldEvent},
	{"sse-buffering", Info, "the stream tells proxies not to hold it back: Cache-Control: no-cache, or X-Accel-Buffering: no", "A20", overOld, oldBuffering},
	{"sse-legacy", Warning, "modern revisions, which this transport does not have, are not spoken", "", overOld, oldEra},
	{"sse-tls", Warning, "a server that is not on this machine is reached by https", "A19", overOld, oldTLS},
}

var socketRules = []Rule{
	{"ws-origin", Error, "foreign pages are refused a WebSocket", "B03", overSocket, socketOrigin},
	{"ws-host", Warning, "on this machine, requests for foreign hosts are refused", "B03", overSocket, socketHost},
	{"ws-subprotocol", Info, "the subprotocol mcp is agreed to", "", overSocket, socketSubprotocol},
	{"ws-ping", Error, "a ping of the WebSocket gets its pong", "", overSocket, socketPing},
	{"ws-close", Warning, "a close is answered with a close", "", overSocket, socketClose},
	{"ws-text", Warning, "messages are text frames", "", overSocket, socketText},
	{"ws-tls", Warning, "a server that is not on this machine is reached by wss", "A19", overSocket, socketTLS},
}

var toolRules = []Rule{
	{"tool-name", Warning, "names are 1 to 64 letters, digits, _ and -: hosts refuse others", "", haveTools, eachTool(toolName)},
	{"tool-name-unique", Error, "no two tools have the same name", "", haveTools, toolUnique},
	{"tool-description", Warning, "tools say what they do", "", haveTools, eachTool(toolDescription)},
	{"tool-description-size", Warning, "descriptions have at most 1,024 characters: hosts cut or refuse longer ones", "", haveTools, eachTool(toolDescriptionSize)},
	{"tool-schema-object", Error, "inputSchema is there, and is a schema of type object", "", haveTools, eachTool(schemaObject)},
	{"tool-schema-union", Warning, "inputSchema has no anyOf, oneOf, allOf, not or enum at the top: hosts refuse them there", "", haveTools, eachTool(schemaUnion)},
	{"tool-schema-ref", Error, "every $ref leads somewhere in the schema itself", "", haveTools, eachTool(schemaRef)},
	{"tool-schema-recursive", Warning, "no $ref leads back to where it stands: hosts refuse such schemas", "", haveTools, eachTool(schemaRecursive)},
	{"tool-schema-property", Warning, "properties have names of 1 to 64 letters, digits, _, . and -: hosts refuse others", "", haveTools, eachTool(schemaProperty)},
	{"tool-schema-required", Warning, "what is required is among the properties", "", haveTools, eachTool(schemaRequired)},
	{"tool-schema-depth", Warning, "schemas are at most 10 levels deep: hosts refuse deeper ones", "", haveTools, eachTool(schemaDepth)},
	{"tool-schema-valid", Error, "schemas are JSON Schema", "", haveTools, eachTool(schemaValid)},
	{"tool-output-object", Error, "outputSchema is of type object, where the revision wants that", "", haveTools | legacyEra, eachTool(outputObject)},
	{"tool-header", Error, "x-mcp-header names a header once, at a string, an integer or a boolean", "", haveTools, eachTool(toolHeader)},
	{"tools-count", Warning, "there are at most 128 tools: hosts take no more", "", haveTools, toolsCount},
	{"tools-size", Warning, "the list of tools costs a model less than 25,000 tokens", "", haveTools, toolsSize},
}

var callRules = []Rule{
	{"call-content", Error, "the result of the tool has content that is not empty", "A02", namedTool, callContent},
	{"call-structured", Error, "structuredContent fits outputSchema", "", namedTool, callStructured},
}

var stdioRules = []Rule{
	{"stdio-blank", Warning, "empty lines and white space behind a message do not matter", "A11", process, stdioBlank},
	{"stdio-first", Warning, "nothing is asked before the handshake", "", process | legacyEra, stdioFirst},
	{"stdio-eof", Error, "the process ends when its standard input does", "A09", process, stdioEOF},
	{"stdio-stdout", Error, "standard output has messages alone, each on one line", "A08", process, stdioStdout},
	{"stdio-framing", Error, "messages are lines, without headers", "A07", process, stdioFraming},
	{"stdio-stderr", Warning, "standard error has no messages", "A08", process, stdioStderr},
}

// spokenRules judge all that was said, so they come last.
var spokenRules = []Rule{
	{"rpc-version", Error, "every message has \"jsonrpc\":\"2.0\" and the shape of JSON-RPC", "A01", 0, spokenShape},
	{"rpc-id", Error, "every answer has the id of its request", "A04", 0, spokenID},
	{"rpc-error", Error, "every error has an integer code and a message for people", "A03", 0, spokenError},
	{"rpc-flood", Error, "what comes before an answer is no flood", "", 0, spokenFlood},
	{"rpc-progress", Error, "progress is told of requests that asked for it, under their token, and increases", "", 0, spokenProgress},
	{"rpc-modern-silence", Error, "in the modern era the server asks nothing, and logs nothing that was not asked for", "", modernEra, spokenModern},
}
