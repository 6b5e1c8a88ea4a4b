package gateway

import (
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What members of params must be that decide who may make a request.
const (
	aString     = "a string"
	stringArray = "an array of strings"
)

// wrongParams returns the error for a request whose params that decide who may make it are not of the type that the
// schema of the protocol has. A server may read something else from them than we do.
func wrongParams(req *dragoman.Message) *dragoman.Error {
	switch method := req.Method(); method {
	case protocol.MethodCallTool, protocol.MethodGetPrompt:
		return wrongMember(req, "name")
	case protocol.MethodSubscribe, protocol.MethodUnsubscribe, protocol.MethodTaskResult:
		if protocol.IsModern(req) { // that era has no such methods, whatever their params
			return noMethod(method)
		}
		if method == protocol.MethodTaskResult {
			return wrongMember(req, taskName)
		}
		return wrongMember(req, "uri")
	case protocol.MethodReadResource:
		return wrongMember(req, "uri")
	case protocol.MethodComplete:
		return wrongRef(req.Get("ref"))
	case protocol.MethodListen:
		return wrongInterest(req.Get("notifications"))
	default:
		if aboutTask(method) {
			return wrongMember(req, taskName)
		}
	}
	return nil
}

// wrongMember is wrongParams for a member that must be a string.
func wrongMember(req *dragoman.Message, name string) *dragoman.Error {
	if !isString(req.Get(name)) {
		return mustBe(name, aString)
	}
	return nil
}

// wrongRef is wrongParams for what is to be completed.
func wrongRef(ref []byte) *dragoman.Error {
	if !dragoman.IsObject(ref) {
		return mustBe("ref", "an object")
	}
	needs := map[string]string{"ref/prompt": "name", "ref/resource": "uri"}[dragoman.MemberText(ref, "type")]
	if needs == "" {
		return mustBe("ref.type", `"ref/prompt" or "ref/resource"`)
	}
	found := false
	for key, value := range dragoman.Members(ref) {
		for _, name := range []string{"type", "name", "uri"} {
			if strings.EqualFold(key, name) && !isString(value) {
				return mustBe("ref."+name, aString)
			}
		}
		found = found || key == needs
	}
	if !found {
		return mustBe("ref."+needs, aString)
	}
	return nil
}

// wrongInterest is wrongParams for what a subscription is about.
func wrongInterest(interest []byte) *dragoman.Error {
	if !dragoman.IsObject(interest) {
		return mustBe("notifications", "an object")
	}
	for key, value := range dragoman.Members(interest) {
		for _, name := range []string{"resourceSubscriptions", tasksName} {
			if strings.EqualFold(key, name) && !areStrings(value) {
				return mustBe("notifications."+name, stringArray)
			}
		}
	}
	return nil
}

func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

func areStrings(list []byte) bool {
	if len(list) == 0 || list[0] != '[' {
		return false
	}
	for _, element := range dragoman.Items(list) {
		if !isString(element) {
			return false
		}
	}
	return true
}

func mustBe(name, what string) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: fmt.Sprintf("Invalid params: params.%s must be %s", name, what)}
}

// misspelt returns the error for a method whose name a server might take for that of another one.
func misspelt(method string) *dragoman.Error {
	meant, is := rules.Misspelt(method)
	if !is {
		return nil
	}
	e := &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: fmt.Sprintf("Method not found: %q", redact.Clip(method))}
	if meant != "" {
		e.Message += fmt.Sprintf("; did you mean %q?", meant)
	}
	return e
}
