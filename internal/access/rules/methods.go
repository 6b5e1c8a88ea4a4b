package rules

import (
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A kind is what the requests of a method are about, which decides who may make them.
type kind uint8

const (
	other      kind = iota // something that rules do not know: a rule must name the method, or be about everything
	basic                  // what every client needs: allowed as soon as anything is
	list                   // basic; the result has what the caller may use
	listen                 // basic; for each resource it is resources/subscribe
	completion             // basic; for what the caller may use
	tool
	prompt
	resource
	task // what has become of a call of a tool
)

// A method is what rules know of a method.
type method struct {
	kind  kind
	uses  string // the method that uses what is listed
	equal string // the method of the other era that does the same: a rule that names one of the two is about both
}

// methods are those of the specification. The counterpart of logging/setLevel in the modern era is a member of
// _meta, which is decided on as logging/setLevel.
var methods = map[string]method{
	protocol.MethodInitialize:    {kind: basic, equal: protocol.MethodDiscover},
	protocol.MethodDiscover:      {kind: basic, equal: protocol.MethodInitialize},
	protocol.MethodPing:          {kind: basic},
	protocol.MethodSetLevel:      {kind: basic},
	protocol.MethodListTools:     {kind: list, uses: protocol.MethodCallTool},
	protocol.MethodListPrompts:   {kind: list, uses: protocol.MethodGetPrompt},
	protocol.MethodListResources: {kind: list, uses: protocol.MethodReadResource},
	protocol.MethodListTemplates: {kind: list, uses: protocol.MethodReadResource},
	protocol.MethodListen:        {kind: listen},
	protocol.MethodComplete:      {kind: completion},
	protocol.MethodCallTool:      {kind: tool},
	protocol.MethodGetPrompt:     {kind: prompt},
	protocol.MethodReadResource:  {kind: resource},
	protocol.MethodSubscribe:     {kind: resource, equal: protocol.MethodListen},
	protocol.MethodUnsubscribe:   {kind: resource, equal: protocol.MethodListen},
	protocol.MethodListTasks:     {kind: task},
	protocol.MethodGetTask:       {kind: task, equal: protocol.MethodTaskResult},
	protocol.MethodTaskResult:    {kind: task, equal: protocol.MethodGetTask},
	protocol.MethodUpdateTask:    {kind: task},
	protocol.MethodCancelTask:    {kind: task},
}

// Misspelt reports whether a server might take the name of a method for that of another one, because it differs from that
// only by case, or has spaces or characters that are not shown. meant is the other one, or "" if it is none that rules know.
func Misspelt(name string) (meant string, is bool) {
	if _, ok := methods[name]; ok {
		return "", false
	}
	plain := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	for known := range methods {
		if strings.EqualFold(plain, known) {
			return known, true
		}
	}
	return "", plain != name
}
