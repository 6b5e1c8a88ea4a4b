package aggregate

import (
	"context"
	"errors"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A kind is a kind of things that servers offer.
type kind uint8

const (
	tools kind = iota
	prompts
	resources
	templates
	skills
	events
	numKinds
)

// lists says how each kind is listed: the method, the member of the result, the
// member of an element that tells it from others, and what notifies of changes, which
// is "" if nothing does. Only members with one of the capabilities of a kind are asked
// for it, if it has any: they are spelled as in has.
var lists = [numKinds]struct {
	method, array, key, note, noun string
	needs                          []string
}{
	tools:     {protocol.MethodListTools, "tools", "name", protocol.NoteToolsChanged, "tool", nil},
	prompts:   {protocol.MethodListPrompts, "prompts", "name", protocol.NotePromptsChanged, "prompt", nil},
	resources: {protocol.MethodListResources, "resources", "uri", protocol.NoteResourcesChanged, "resource", nil},
	templates: {protocol.MethodListTemplates, "resourceTemplates", "uriTemplate", protocol.NoteResourcesChanged, "resource template", nil},
	skills:    {protocol.MethodListSkills, "skills", "uri", "", "skill", []string{protocol.ExtensionSkills}},
	events:    {protocol.MethodListEvents, "events", "name", "", "event", []string{protocol.ExtensionEvents, "events"}},
}

// A route is how requests of a method are answered.
type route struct {
	kind  kind // in whose list the owner of what they name is found
	serve func(*Aggregate, context.Context, *request, kind) (*dragoman.Message, error)
	own   bool // the envelope is checked here, since no member does
}

// routes are the methods that are served, and, by names that end in "/", how the other
// methods of a namespace are. An extension is its rows here, a row in lists if it has a
// list, and one in served by which it is advertised.
var routes = map[string]route{
	protocol.MethodDiscover: {0, (*Aggregate).discover, true},
	protocol.MethodListen:   {0, (*Aggregate).listen, true},
	protocol.MethodComplete: {0, (*Aggregate).complete, false},

	protocol.MethodListTools: {tools, (*Aggregate).list, true},
	protocol.MethodCallTool:  {tools, (*Aggregate).named, false},
	"tools/":                 {tools, (*Aggregate).other, true},

	protocol.MethodListPrompts: {prompts, (*Aggregate).list, true},
	protocol.MethodGetPrompt:   {prompts, (*Aggregate).named, false},
	"prompts/":                 {prompts, (*Aggregate).other, true},

	protocol.MethodListResources: {resources, (*Aggregate).list, true},
	protocol.MethodListTemplates: {templates, (*Aggregate).list, true},
	protocol.MethodReadResource:  {resources, (*Aggregate).read, false},
	"resources/":                 {resources, (*Aggregate).other, true},

	protocol.MethodGetTask:    {0, (*Aggregate).task, false},
	protocol.MethodUpdateTask: {0, (*Aggregate).task, false},
	protocol.MethodCancelTask: {0, (*Aggregate).task, false},

	protocol.MethodListSkills:    {skills, (*Aggregate).list, true},
	protocol.MethodGetSkill:      {skills, (*Aggregate).read, false},
	protocol.MethodReadDirectory: {skills, (*Aggregate).read, false},
	"skills/":                    {skills, (*Aggregate).other, true},

	protocol.MethodListEvents:        {events, (*Aggregate).list, true},
	protocol.MethodPollEvents:        {events, (*Aggregate).named, false},
	protocol.MethodStreamEvents:      {events, (*Aggregate).named, false},
	protocol.MethodSubscribeEvents:   {events, (*Aggregate).named, false},
	protocol.MethodUnsubscribeEvents: {events, (*Aggregate).named, false},
	"events/":                        {events, (*Aggregate).other, true},
}

// served are the capabilities and extensions that are advertised if a member has them:
// those whose methods are in routes, and those that have none. The value has the
// settings that are left out, because nothing here follows them.
var served = map[string][]string{
	"tools": nil, "prompts": nil, "resources": nil, "completions": nil, "logging": nil,
	"events": {"listChanged"}, // as the draft was deployed before it had an extension

	protocol.ExtensionApps:   nil,
	protocol.ExtensionTasks:  nil,
	protocol.ExtensionSkills: nil,
	protocol.ExtensionEvents: {"listChanged"},
}

func (a *Aggregate) serve(ctx context.Context, r *request) (*dragoman.Message, error) {
	method := r.Method()
	to, ok := routes[method]
	if !ok {
		to, ok = routes[method[:strings.IndexByte(method, '/')+1]]
	}
	if !ok || legacy(method) {
		to = route{0, (*Aggregate).unknown, true}
	}
	if to.own {
		if e := protocol.CheckEnvelope(r.Message); e != nil {
			return r.Fail(e), nil
		}
	}
	return to.serve(a, ctx, r, to.kind)
}

// unknown refuses a method.
func (a *Aggregate) unknown(_ context.Context, r *request, _ kind) (*dragoman.Message, error) {
	return r.Fail(failure(protocol.CodeMethodNotFound, "method not found: %s", r.Method())), nil
}

// other passes a request of an unknown method in a known namespace to the owner of what it
// names.
func (a *Aggregate) other(ctx context.Context, r *request, k kind) (*dragoman.Message, error) {
	name := r.Name()
	if lists[k].key == "uri" {
		name = r.URI()
	}
	if t, ok := r.view(ctx).indexed(k).byName[name]; ok {
		return t.pass(ctx, r)
	}
	return a.unknown(ctx, r, k)
}

// legacy reports whether a method is one that the modern era does not have.
func legacy(method string) bool {
	switch method {
	case protocol.MethodInitialize, protocol.MethodPing, protocol.MethodSetLevel, protocol.MethodSubscribe,
		protocol.MethodUnsubscribe, protocol.MethodTaskResult, protocol.MethodListTasks:
		return true
	}
	return false
}

// factsOf returns the capabilities of a member, and asks for them with the envelope of req if
// they are not known. A server that refuses server/discover has none.
func (m *member) factsOf(ctx context.Context, req *dragoman.Message) (*facts, error) {
	if f := m.facts.Load(); f != nil {
		return f, nil
	}
	own, err := ownRequest(req, protocol.MethodDiscover)
	if err != nil {
		return nil, err
	}
	f, err := m.discover(ctx, own)
	if e, ok := errors.AsType[*dragoman.Error](err); ok && e.Code == protocol.CodeMethodNotFound {
		return new(facts), nil
	}
	if err != nil {
		return nil, err
	}
	m.facts.CompareAndSwap(nil, f)
	return f, nil
}

// has reports whether a server with these capabilities has a kind.
func (f *facts) has(k kind) bool {
	if lists[k].needs == nil {
		return true
	}
	extensions := dragoman.Member(f.capabilities, "extensions")
	for _, name := range lists[k].needs {
		if dragoman.Member(f.capabilities, name) != nil || dragoman.Member(extensions, name) != nil {
			return true
		}
	}
	return false
}
