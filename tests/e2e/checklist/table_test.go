package checklist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// A line is one line of a list and what shows it.
type line struct {
	says string
	show func(t *testing.T)
}

// A list is a list of the document, in its order.
type list struct {
	name  string
	lines []line
}

// lists are all of them: first the lines that carry numbers, then the five
// checklists at the end of the document. Lines that say the same are shown by the
// same function.
func lists() []list {
	return []list{
		{"seeds", []line{
			{"A01 a tool request is JSON-RPC 2.0 with method tools-call, checked", requestsAreChecked},
			{"A02 a tool response has a non-empty result.content array and may have structured metadata, checked", responsesAreChecked},
			{"A03 a tool error has an integer code and a message that a person can act on, checked", errorsCanBeActedOn},
			{"A04 every response carries the id of its request", responsesCarryTheID},
			{"A05 stdio: the host starts the server with command and arguments", serverIsStarted},
			{"A06 stdio: configured variables are merged into the child's environment", variablesReachTheChild},
			{"A07 stdio: requests are written as one JSON object and a newline", framesAreLines},
			{"A08 stdio: responses come on stdout, one per line; stderr carries diagnostics only and never frames", stderrIsApart},
			{"A09 stdio: either side ends the session by closing its stream; clean shutdown on EOF or process exit", streamsEndCleanly},
			{"A10 stdio: no partial or chunked frames; writes never interleave with many requests in flight", framesAreWhole},
			{"A11 stdio: trailing whitespace trimmed, blank lines ignored", blanksDoNotMatter},
			{"A12 stdio: a parse failure produces an error response and can be logged for audit", parseFailuresAreAnswered},
			{"A13 stdio: a broken pipe or unexpected EOF closes the client for good and rejects what is outstanding", brokenPipeIsFinal},
			{"A14 HTTP: each tool call is one POST with application-json, custom headers possible", callIsOnePost},
			{"A15 HTTP: 200 carries a checked tool response; 4xx and 5xx a tool error; without one the client makes it", statusesBecomeErrors},
			{"A16 HTTP: answers within the timeout, or the client aborts", slowAnswersAreAborted},
			{"A17 HTTP: keep-alive for sequential calls", connectionsAreKept},
			{"A18 HTTP: other methods get 405", otherMethodsGet405},
			{"A19 HTTP: TLS, certificates verified, trust settings of the environment", certificatesAreVerified},
			{"A20 SSE: the same POST answered with text-event-stream, not buffered, open until the call is complete", eventsAreNotBuffered},
			{"A21 SSE: event result carries fragments, event complete the whole checked response, event error a tool error and the end", eventsEndWithTheAnswer},
			{"A22 SSE: heartbeat comments at intervals under 30 s", silentStreamsHaveHeartbeats},
			{"A23 SSE: the client reassembles the fragments into one response before it returns", fragmentsAreReassembled},
			{"A24 SSE: the client aborts at its timeout and turns that into a tool error", slowStreamsAreAborted},
			{"A25 WS: open, then ready; a call on a socket that is not open is rejected", callsNeedAnOpenSocket},
			{"A26 WS: a request is {id, name, arguments?}; the answer is a tool response or tool error with that id", toolFramesAreAnswered},
			{"A27 WS: ids count up; outstanding requests are kept until the answer or the close; answered ones are removed", both(idsCountUp, answersAreMatched)},
			{"A28 WS: unsolicited ping or notification frames and unknown messages are ignored and work goes on", unsolicitedFramesAreIgnored},
			{"A29 WS: a dropped connection rejects everything pending with a terminal error", dropRejectsWhatIsPending},
			{"A30 WS: protocol errors as tool errors; close frames with fitting codes; close and errors reach the callers", both(socketsCloseWithFittingCodes, closesReachCallers)},
			{"A31 timeouts and retries follow the host's requestTimeoutMs", both(timeoutsAreFollowed, lostCallsAreNotSentAgain)},
			{"A32 secrets are redacted before frames are logged", secretsAreNotLogged},
		}},
		{"Shared", []line{
			{"JSON payloads validate against toolRequestSchema, toolResponseSchema, or toolErrorSchema as appropriate",
				both(requestsAreChecked, responsesAreChecked, errorsCanBeActedOn)},
			{"All responses echo the originating JSON-RPC id", responsesCarryTheID},
			{"toolErrorSchema.error.message provides actionable feedback", errorsCanBeActedOn},
			{"Timeouts and retries respect the host's requestTimeoutMs configuration", both(timeoutsAreFollowed, lostCallsAreNotSentAgain)},
			{"Sensitive data is redacted before logging protocol frames", secretsAreNotLogged},
		}},
		{"stdio", []line{
			{"Child process inherits required environment variables", variablesReachTheChild},
			{"Frames are newline-delimited UTF-8 JSON objects", framesAreLines},
			{"stderr output is isolated from protocol streams", stderrIsApart},
			{"Transport shuts down cleanly on EOF or process exit", streamsEndCleanly},
		}},
		{"HTTP", []line{
			{"Requests use POST with Content-Type application-json", callIsOnePost},
			{"Non-200 responses translate into MCP error payloads", statusesBecomeErrors},
			{"HTTP client honours keep-alive and timeout settings", both(connectionsAreKept, slowAnswersAreAborted)},
			{"TLS certificates are validated for remote endpoints", certificatesAreVerified},
		}},
		{"SSE", []line{
			{"Responses set Content-Type text-event-stream and disable HTTP buffering", eventsAreNotBuffered},
			{"Streamed events include terminal result or error markers", eventsEndWithTheAnswer},
			{"Heartbeat comments are emitted periodically for long-lived operations", silentStreamsHaveHeartbeats},
			{"Client concatenates streamed fragments into a single MCP result", fragmentsAreReassembled},
		}},
		{"WebSocket", []line{
			{"Client rejects tool calls if the socket is not open", callsNeedAnOpenSocket},
			{"Each outbound frame includes an incrementing numeric ID", idsCountUp},
			{"Responses are matched to requests and removed from the pending map", answersAreMatched},
			{"Close frames and errors propagate to callers as MCP error payloads", both(closesReachCallers, dropRejectsWhatIsPending)},
		}},
	}
}

// both shows a line that says several things.
func both(shows ...func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		for _, show := range shows {
			show(t)
		}
	}
}

func TestChecklist(t *testing.T) {
	peertest.NoLeak(t)
	for i, l := range lists()[0].lines {
		if number := fmt.Sprintf("A%02d ", i+1); !strings.HasPrefix(l.says, number) {
			t.Errorf("line %d is %q, want %s", i+1, l.says, number)
		}
	}
	for _, list := range lists() {
		t.Run(list.name, func(t *testing.T) {
			t.Parallel()
			for _, l := range list.lines {
				t.Run(l.says, func(t *testing.T) {
					t.Parallel()
					l.show(t)
				})
			}
		})
	}
}
