package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A filter is a server, in either era, with the tools, prompts and resources that its
// configuration offers and the rules allow the caller, under the names that the
// configuration gives them. What is not offered does not exist: it is neither listed nor
// can it be asked for. Who is told of changes by the server is told when the
// configuration changes too.
type filter struct {
	dragoman.Peer
	views    *views
	tags     *tags
	client   dragoman.Conn                     // of a session; nil for single requests
	caller   *dragoman.Caller                  // who began the conversation
	changes  *subscription.Hub                 // of what the configuration offers
	promised atomic.Pointer[protocol.Interest] // by the answer to initialize: to tell of these changes
}

// Call implements dragoman.Peer.
func (f *filter) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	v := f.views.of(ctx, f.caller)
	if !v.grant.Any() {
		return v.nothing(req)
	}
	if e := v.refusal(ctx, asking{f, v}, req); e != nil {
		return nil, e
	}
	req, err := v.withoutLevel(req)
	if err != nil {
		return nil, err
	}
	switch req.Method() {
	case protocol.MethodInitialize:
		resp, err := f.pass(ctx, v, req, from)
		if err == nil && resp != nil && !resp.IsError() {
			can := protocol.ListsOf(resp.Get("capabilities"))
			f.promised.Store(&can)
		}
		return resp, err
	case protocol.MethodListTools, protocol.MethodListPrompts, protocol.MethodListResources, protocol.MethodListTemplates:
		return f.list(ctx, v, req, from)
	case protocol.MethodListen:
		return f.listen(ctx, v, req, from)
	case protocol.MethodListTasks:
		return f.listTasks(ctx, v, req, from)
	case protocol.MethodCallTool:
		return f.callTool(ctx, v, req, from)
	}
	return f.pass(ctx, v, req, from)
}

// asking is the server as the filter itself asks it for its lists: on behalf of the caller of a view.
type asking struct {
	*filter
	view *view
}

// Call implements dragoman.Peer.
func (a asking) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return a.pass(ctx, a.view, req, from)
}

// callTool passes on a call of a tool that is offered, under the server's name for it.
func (f *filter) callTool(ctx context.Context, v *view, req *dragoman.Message, from dragoman.Peer) (resp *dragoman.Message, err error) {
	own, _ := ownName(&v.conf.Tools, req.Name())
	asked := req
	if own != req.Name() {
		if asked, err = req.Edit().Set("name", dragoman.Quote(own)).Message(); err != nil {
			return nil, err
		}
	}
	resp, err = f.pass(ctx, v, asked, from)
	switch {
	case err != nil || resp == nil:
	case resp.IsError():
		resp = v.withNear(own, req, resp)
	case v.grant != nil:
		v.tasks.learn(own, req, resp)
	}
	return resp, err
}

// Notify implements dragoman.Peer. A session is told of changes when it has begun.
func (f *filter) Notify(ctx context.Context, note *dragoman.Message) error {
	if !f.views.of(ctx, f.caller).grant.Any() {
		return nil
	}
	if note.Method() == protocol.NoteInitialized && f.client != nil {
		if can := f.promised.Swap(nil); can != nil && !can.Empty() {
			f.changes.Add(&subscription.Session{Client: f.client, Lists: *can}, 0)
		}
	}
	return f.Peer.Notify(ctx, note)
}

// ownName returns what the server calls a tool that is offered.
func ownName(t *config.Tools, name string) (string, bool) {
	for own, ours := range t.Rename {
		if ours == name {
			return own, t.Offers(own)
		}
	}
	if _, renamed := t.Rename[name]; renamed {
		return "", false
	}
	return name, t.Offers(name)
}

// list answers a request for a list by what is offered of it.
func (f *filter) list(ctx context.Context, v *view, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	offer, err := v.lists().List(dragoman.WithCaller(ctx, v.session()), req)
	if e, refused := errors.AsType[*dragoman.Error](err); refused {
		return req.Fail(e), nil
	}
	if err != nil {
		return nil, err
	}
	if offer != nil {
		offer.List = f.views.of(ctx, f.caller).offered(offer.List) // as it is now: a client that was notified of a change gets the new list
		return offer.Reply(req)
	}
	resp, err := f.pass(ctx, v, req, from)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	k := catalog.KindOf(req.Method())
	becomes := f.views.of(ctx, f.caller).becomes(k)
	if becomes == nil {
		return resp, nil
	}
	list := narrow(resp.Get(k.Array), func(text []byte) []byte {
		return becomes(catalog.Element{Key: dragoman.MemberText(text, k.Key), Text: text}).Text
	})
	return resp.Edit().Set(k.Array, list).Message()
}

// ToolList implements toollist.Lister: transports check headers and arguments by the tools that the caller is offered.
func (f *filter) ToolList(ctx context.Context, caller *dragoman.Caller, meta json.RawMessage, _ string, than *toollist.List) (*toollist.List, error) {
	v := f.views.forCaller(cmp.Or(caller, dragoman.CallerOf(ctx)), f.caller)
	if !v.grant.Any() {
		return new(toollist.List), nil
	}
	if d := judged(v.grant.Decide(protocol.MethodListTools, "", nil), func() *dragoman.Error { return noMethod(protocol.MethodListTools) }); d != nil {
		return nil, d.Answer
	}
	view := catalog.View{Caller: v.session(), Meta: meta}
	list, err := v.lists().Tools(ctx, view, nil, asking{f, v})
	if err == nil && v.offered(list).Tools() == than {
		list, err = v.lists().Tools(ctx, view, list, asking{f, v})
	}
	if err != nil {
		return nil, err
	}
	return v.offered(list).Tools(), nil
}

// narrow returns a list of what becomes of its elements; nil is left out.
func narrow(list []byte, becomes func([]byte) []byte) []byte {
	out := []byte{'['}
	for _, element := range dragoman.Items(list) {
		element = becomes(element)
		if element == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']')
}

// narrowMember returns an object whose list of that name, in whatever spelling, is narrowed, and
// whether it has one.
func narrowMember(object []byte, name string, becomes func([]byte) []byte) (narrowed []byte, ok bool) {
	out, last := []byte(nil), 0
	for key, at := range dragoman.Fields(object) {
		if strings.EqualFold(key, name) {
			out = append(append(out, object[last:at.Start]...), narrow(object[at.Start:at.End], becomes)...)
			last = at.End
		}
	}
	return append(out, object[last:]...), last > 0
}

// described returns a tool with the name and the description that it has here.
func described(t *config.Tools, name string, tool []byte) []byte {
	if ours, ok := t.Rename[name]; ok {
		tool = dragoman.WithMember(tool, "name", dragoman.Quote(ours))
	}
	if text, ok := t.Describe[name]; ok {
		tool = dragoman.WithMember(tool, "description", dragoman.Quote(text))
	}
	return tool
}

// listTasks passes a request for a list of tasks on, and returns those whose tools are allowed.
func (f *filter) listTasks(ctx context.Context, v *view, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	resp, err := f.pass(ctx, v, req, from)
	if err != nil || resp == nil || resp.IsError() || v.grant == nil {
		return resp, err
	}
	list := narrow(resp.Get("tasks"), func(task []byte) []byte {
		if !v.allowsTask(ctx, asking{f, v}, req, dragoman.Member(task, taskName)).Shown() {
			return nil
		}
		return task
	})
	return resp.Edit().Set("tasks", list).Message()
}

// listen passes a subscription on, without the resources and tasks that are not offered, and adds
// what we have to tell.
func (f *filter) listen(ctx context.Context, v *view, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	req, err := v.narrowListen(ctx, asking{f, v}, req)
	if err != nil {
		return nil, err
	}
	if from == nil {
		return f.pass(ctx, v, req, nil)
	}
	client := subscription.NewRelay(req, filteredPeer{from, f.views.hides(ctx, f.caller)})
	f.changes.Add(client, 0)
	defer client.Close()
	defer f.changes.Remove(client)
	return f.pass(ctx, v, req, client)
}

// narrowListen returns a subscription without the resources and tasks that the caller may not subscribe to.
func (v *view) narrowListen(ctx context.Context, server dragoman.Peer, req *dragoman.Message) (*dragoman.Message, error) {
	wanted, changed := []byte(req.Get("notifications")), false
	leaveOut := func(name string, allowed func(element []byte) bool) {
		narrowed, ok := narrowMember(wanted, name, func(element []byte) []byte {
			if !allowed(element) {
				return nil
			}
			return element
		})
		if ok {
			wanted, changed = narrowed, true
		}
	}
	if v.offers(protocol.MethodListResources) != nil {
		leaveOut("resourceSubscriptions", func(uri []byte) bool { text, _ := dragoman.Text(uri); return v.subscribes(text) })
	}
	if v.grant != nil {
		leaveOut(tasksName, func(id []byte) bool { return v.allowsTask(ctx, server, req, id).Allowed })
	}
	if !changed {
		return req, nil
	}
	return req.Edit().Set("notifications", wanted).Message()
}

// A filteredPeer is a client as the server sees it. It is not notified of resources that are not
// offered, also if they were when it subscribed.
type filteredPeer struct {
	dragoman.Peer
	hides func(note *dragoman.Message) bool
}

// Notify implements dragoman.Peer.
func (p filteredPeer) Notify(ctx context.Context, note *dragoman.Message) error {
	if p.hides(note) {
		return nil
	}
	return p.Peer.Notify(ctx, note)
}

// A lister has the lists of a server. It is the upstream.
type lister interface {
	List(ctx context.Context, req *dragoman.Message) (*catalog.Offer, error)
	KnownTools(v catalog.View) *catalog.List
	Tools(ctx context.Context, v catalog.View, than *catalog.List, server dragoman.Peer) (*catalog.List, error)
}

// views are what callers are offered of one server: what its configuration says, as far
// as the rules allow it.
type views struct {
	server string
	config func() *config.Server
	lists  func() lister
	rules  *atomic.Pointer[rules.Set] // of the gateway
	tasks  taskTools
}

// A view is what one caller is offered of a server at one time.
type view struct {
	*views
	conf   *config.Server
	set    *rules.Set
	grant  *rules.Grant // nil if everything is allowed
	caller *dragoman.Caller
	began  *dragoman.Caller // who opened the session; nil for single requests
}

// of returns the view of who makes a request. In a conversation over a socket that is who
// has begun it.
func (s *views) of(ctx context.Context, began *dragoman.Caller) *view {
	return s.forCaller(dragoman.CallerOf(ctx), began)
}

// forCaller is of for a caller that is not in a context.
func (s *views) forCaller(caller, began *dragoman.Caller) *view {
	v := &view{views: s, conf: s.config(), set: s.rules.Load(), caller: caller, began: began}
	if v.caller.Principal == "" && began != nil {
		v.caller = began
	}
	v.grant = v.set.For(v.caller, s.server)
	return v
}

// hides returns a function that reports whether a notification is about a resource that a caller may not
// subscribe to when it comes.
func (s *views) hides(ctx context.Context, began *dragoman.Caller) func(*dragoman.Message) bool {
	at := dragoman.WithCallerOf(context.Background(), ctx)
	return func(note *dragoman.Message) bool {
		return note.Method() == protocol.NoteResourceUpdated && !s.of(at, began).subscribes(note.URI())
	}
}

// nothing is the answer to somebody for whom there is nothing here: that of a server that
// has nothing. The server is not asked, and whether it is there is not told.
func (v *view) nothing(req *dragoman.Message) (*dragoman.Message, error) {
	result := map[string]any{}
	switch req.Method() {
	case protocol.MethodListTools:
		result["tools"] = []any{}
	case protocol.MethodListPrompts:
		result["prompts"] = []any{}
	case protocol.MethodListResources:
		result["resources"] = []any{}
	case protocol.MethodListTemplates:
		result["resourceTemplates"] = []any{}
	case protocol.MethodDiscover:
		result["supportedVersions"], result["capabilities"] = []string{protocol.Latest.String()}, map[string]any{}
	case protocol.MethodCallTool:
		return nil, denied(unknown("tool", req.Name()))
	case protocol.MethodGetPrompt:
		return nil, denied(unknown("prompt", req.Name()))
	case protocol.MethodReadResource, protocol.MethodSubscribe:
		return nil, denied(noResource(req))
	default:
		return nil, denied(noMethod(req.Method()))
	}
	if protocol.IsModern(req) {
		result["resultType"], result["ttlMs"], result["cacheScope"] = protocol.ResultComplete, 0, "private"
	}
	return req.Reply(result)
}

// Why something is denied, in the audit log, if no rule says it.
const (
	notOffered    = "not offered"
	notAllowed    = "no rule allows it"
	wrongType     = "parameters of another type"
	wrongSpelling = "a method in another spelling"
)

func hidden(e *dragoman.Error) *event.Refusal { return refusedBy(notOffered, e) }
func denied(e *dragoman.Error) *event.Refusal { return refusedBy(notAllowed, e) }

func refusedBy(rule string, e *dragoman.Error) *event.Refusal {
	return &event.Refusal{Rule: rule, Admitted: true, Answer: e}
}

func noMethod(method string) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "Method not found: " + redact.Clip(method)}
}

// refusal returns the error for a request about something that is not offered: that for
// something that does not exist, in the request's era. It is nil if there is none. server
// is asked for its tools if a rule depends on them.
func (v *view) refusal(ctx context.Context, server dragoman.Peer, req *dragoman.Message) *event.Refusal {
	if e := wrongParams(req); e != nil {
		return refusedBy(wrongType, e)
	}
	method := req.Method()
	switch method {
	case protocol.MethodCallTool:
		own, ok := ownName(&v.conf.Tools, req.Name())
		if !ok {
			return hidden(v.unknownTool(req.Name(), v.knownTools(req)))
		}
		if v.grant == nil {
			return nil
		}
		return judged(v.grant.Decide(method, own, v.hintsOf(ctx, server, req, own)), func() *dragoman.Error { return v.unknownTool(req.Name(), v.knownTools(req)) })
	case protocol.MethodGetPrompt:
		if !v.conf.Prompts.Offers(req.Name()) {
			return hidden(unknown("prompt", req.Name()))
		}
		return judged(v.grant.Decide(method, req.Name(), nil), func() *dragoman.Error { return unknown("prompt", req.Name()) })
	case protocol.MethodReadResource, protocol.MethodSubscribe, protocol.MethodUnsubscribe:
		if !v.conf.Resources.Offers(req.URI()) {
			return hidden(noResource(req))
		}
		return judged(v.grant.Decide(method, req.URI(), nil), func() *dragoman.Error { return noResource(req) })
	case protocol.MethodComplete:
		if d := v.refusedRef(req.Get("ref")); d != nil {
			return d
		}
	}
	if aboutTask(method) {
		id := req.Get(taskName)
		return judged(v.allowsTask(ctx, server, req, id), func() *dragoman.Error { return notGiven(taskName, id) })
	}
	if e := misspelt(method); e != nil {
		return refusedBy(wrongSpelling, e)
	}
	return judged(v.grant.Decide(method, "", nil), func() *dragoman.Error { return noMethod(method) })
}

// allowsTask decides on a request about a task.
func (v *view) allowsTask(ctx context.Context, server dragoman.Peer, req *dragoman.Message, id []byte) rules.Verdict {
	own := ""
	if v.grant != nil {
		own = v.tasks.toolOf(id)
	}
	method := req.Method()
	if !aboutTask(method) {
		method = protocol.MethodGetTask
	}
	return v.grant.Decide(method, own, v.hintsOf(ctx, server, req, own))
}

// withoutLevel returns a request of the modern era without the level of logs that it asks for, if the caller may not set
// one.
func (v *view) withoutLevel(req *dragoman.Message) (*dragoman.Message, error) {
	if v.grant == nil || req.Meta(protocol.MetaLogLevel) == nil || v.grant.Decide(protocol.MethodSetLevel, "", nil).Allowed {
		return req, nil
	}
	return req.Edit().DropMeta(protocol.MetaLogLevel).Message()
}

// judged returns the denial of a verdict, whose answer is otherwise if there is nothing to
// be done about it.
func judged(v rules.Verdict, otherwise func() *dragoman.Error) *event.Refusal {
	if v.Allowed {
		return nil
	}
	d := denied(otherwise())
	if v.Rule != nil {
		d.Rule = v.Rule.String()
	}
	if len(v.Scopes) > 0 {
		d.Answer = protocol.ScopeNeeded(v.Scopes)
	}
	return d
}

// hintsOf returns a function that returns what the server says of a tool.
func (v *view) hintsOf(ctx context.Context, server dragoman.Peer, req *dragoman.Message, name string) func() (rules.Hints, bool) {
	return func() (rules.Hints, bool) { return v.hints(ctx, server, req, name) }
}

// hints returns what the server says of a tool.
func (v *view) hints(ctx context.Context, server dragoman.Peer, req *dragoman.Message, name string) (rules.Hints, bool) {
	list, err := v.lists().Tools(ctx, v.catalogView(req), nil, server)
	if err != nil {
		return rules.Hints{}, false
	}
	tool := list.Tools().Tool(name)
	if tool == nil {
		return rules.Hints{}, false
	}
	return rules.HintsOf(tool.Annotations), true
}

// session returns the caller whose session with the server is used.
func (v *view) session() *dragoman.Caller { return cmp.Or(v.began, v.caller) }

// catalogView says whose lists of the server are asked for to answer a request.
func (v *view) catalogView(req *dragoman.Message) catalog.View {
	if !protocol.IsModern(req) {
		return catalog.View{Caller: v.session(), Meta: json.RawMessage("{}"), Session: true}
	}
	return catalog.View{Caller: protocol.Named(v.session(), req), Meta: req.Get("_meta")}
}

// nearTools asks whether a tool was meant that has nearly that name and that the caller is
// offered, or returns "".
func (v *view) nearTools(name string, list *catalog.List) string {
	if list == nil {
		return ""
	}
	return humanize.SuggestHint(name, func(yield func(string) bool) {
		for own, tool := range list.Tools().All() {
			if v.offersTool(own, tool.Annotations) && !yield(cmp.Or(v.conf.Tools.Rename[own], own)) {
				return
			}
		}
	})
}

// unknownTool is the error for a tool that is not offered. list may be nil.
func (v *view) unknownTool(name string, list *catalog.List) *dragoman.Error {
	e := unknown("tool", name)
	if hint := v.nearTools(name, list); hint != "" {
		e.Message += "; " + hint
	}
	return e
}

// knownTools returns the server's list of tools if the caller has had it, or nil. Who may not
// use a tool does not make us ask the server.
func (v *view) knownTools(req *dragoman.Message) *catalog.List {
	return v.lists().KnownTools(v.catalogView(req))
}

// withNear adds to the server's error for a tool that it does not have what may have been
// meant. Who is not offered everything gets our words in place of the server's, which may name
// what is hidden; without a list it may be either, and they say so. Any other answer is returned
// as it is. The server is not asked for its list: there is an answer, which would wait for it.
func (v *view) withNear(own string, req, resp *dragoman.Message) *dragoman.Message {
	e := resp.RPCError()
	if e.Code != protocol.CodeInvalidParams {
		return resp
	}
	list := v.knownTools(req)
	if list != nil && list.Tools().Tool(own) != nil {
		return resp
	}
	if v.offers(protocol.MethodListTools) != nil {
		if list == nil {
			return req.Fail(unlisted(req.Name()))
		}
		return req.Fail(v.unknownTool(req.Name(), list))
	}
	hint := v.nearTools(req.Name(), list)
	if hint == "" || strings.Contains(e.Message, "did you mean") {
		return resp
	}
	return req.Fail(&dragoman.Error{Code: e.Code, Message: e.Message + "; " + hint, Data: e.Data})
}

// refusedRef is refusal for what is to be completed. Servers differ in which of two
// members with one name they take, and in whether case matters, so all must be offered.
func (v *view) refusedRef(ref []byte) *event.Refusal {
	for key, value := range dragoman.Members(ref) {
		text, _ := dragoman.Text(value)
		switch {
		case strings.EqualFold(key, "name") && !v.offersPrompt(protocol.MethodGetPrompt, text):
			return hidden(unknown("prompt", text))
		case strings.EqualFold(key, "uri") && !v.offersResource(protocol.MethodReadResource, text):
			return hidden(unknown("resource", text))
		}
	}
	return nil
}

// offersPrompt reports whether a request of a method may name a prompt, or have it in its list.
func (v *view) offersPrompt(method, name string) bool {
	return v.conf.Prompts.Offers(name) && v.grant.Decide(method, name, nil).Shown()
}

// offersResource is offersPrompt for a resource or a template.
func (v *view) offersResource(method, uri string) bool {
	return v.conf.Resources.Offers(uri) && v.grant.Decide(method, uri, nil).Shown()
}

// subscribes reports whether the caller may be notified of the changes of a resource.
func (v *view) subscribes(uri string) bool {
	return v.conf.Resources.Offers(uri) && v.grant.Decide(protocol.MethodSubscribe, uri, nil).Allowed
}

func (v *view) offersTool(own string, annotations []byte) bool {
	t := &v.conf.Tools
	name, ok := ownName(t, cmp.Or(t.Rename[own], own))
	if !ok || name != own { // another tool has its name
		return false
	}
	return v.grant.Decide(protocol.MethodListTools, own, func() (rules.Hints, bool) { return rules.HintsOf(annotations), true }).Shown()
}

// offers returns what reports whether an element of a list is offered, by its key; nil if all are, as they are.
func (v *view) offers(method string) func(key string, element []byte) bool {
	c := v.conf
	switch method {
	case protocol.MethodListTools:
		if t := &c.Tools; v.grant != nil || len(t.Include)+len(t.Exclude)+len(t.Rename)+len(t.Describe) > 0 {
			return func(name string, tool []byte) bool { return v.offersTool(name, dragoman.Member(tool, "annotations")) }
		}
		return nil
	case protocol.MethodListPrompts:
		if v.grant != nil || len(c.Prompts.Include)+len(c.Prompts.Exclude) > 0 {
			return func(name string, _ []byte) bool { return v.offersPrompt(method, name) }
		}
		return nil
	}
	if v.grant != nil || len(c.Resources.Include)+len(c.Resources.Exclude) > 0 {
		return func(uri string, _ []byte) bool { return v.offersResource(method, uri) }
	}
	return nil
}

// becomes returns what makes of an element what is offered of it; nil if that is everything, as it is.
func (v *view) becomes(k *catalog.Kind) func(catalog.Element) catalog.Element {
	offers := v.offers(k.Method)
	if offers == nil {
		return nil
	}
	return func(e catalog.Element) catalog.Element {
		if !offers(e.Key, e.Text) {
			return catalog.Element{}
		}
		if t := &v.conf.Tools; k.Method == protocol.MethodListTools {
			e.Text = described(t, e.Key, e.Text)
			e.Key = cmp.Or(t.Rename[e.Key], e.Key)
		}
		return e
	}
}

// offered returns what the caller is offered of a list. It is made once for all callers with the same grant.
func (v *view) offered(l *catalog.List) *catalog.List {
	type by struct {
		conf  *config.Server
		set   *rules.Set
		grant string
	}
	if becomes := v.becomes(l.Kind); becomes != nil {
		return l.Derived(by{v.conf, v.set, v.grant.Key()}, becomes)
	}
	return l
}

func unknown(noun, name string) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown " + noun + ": " + redact.Clip(name)}
}

// unlisted is the error for a tool that the server refuses to call, and of which is not known
// whether there is one.
func unlisted(name string) *dragoman.Error {
	return &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown tool, or arguments that do not fit it: " + redact.Clip(name) + "; tools/list names what there is"}
}

// noResource is the error for a resource that does not exist, in the era of the request.
func noResource(req *dragoman.Message) *dragoman.Error {
	rev, uri := protocol.LatestLegacy, req.URI()
	if protocol.IsModern(req) {
		rev = protocol.Latest
	}
	return &dragoman.Error{Code: rev.CodeNoResource(), Message: "Resource not found: " + redact.Clip(uri), Data: dragoman.WithMember([]byte("{}"), "uri", dragoman.Quote(uri))}
}
