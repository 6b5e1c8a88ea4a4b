package gateway

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// tags mark what one server gives out to be sent back: states of calls, cursors and ids of tasks.
// Each is good for the principal alone that was given it, at this server. The server cannot see
// to that: all callers may be one client to it. A tag is what we know it again by; nothing else
// is kept but which tasks were given, for lists of them.
type tags struct {
	key    []byte
	anyone func() bool // who has proven nothing is let in everywhere: nothing is bound to anybody
	tasks  given
}

func newTags(key []byte, server string, anyone func() bool) *tags {
	return &tags{key: token.Derive(key, "tags of "+server), anyone: anyone}
}

// owner returns to whom something is bound. All who have proven nothing are one. Without tags
// nothing is bound.
func (t *tags) owner(caller *dragoman.Caller) (o owner, ok bool) {
	if t == nil || caller.Principal == "" && t.anyone() {
		return owner{}, false
	}
	return owner{t, caller.Principal}, true
}

// Names of what is given out to be sent back, in results and in params. They are what the tag is
// made of, too, so that one kind does not pass for another.
const (
	stateName  = "requestState"
	nextName   = "nextCursor"
	cursorName = "cursor"
	taskName   = "taskId"
	tasksName  = "taskIds"
)

// pass sends a request to the server with the server's own values in place of those that the
// caller of the view was given, and returns the response with the caller's.
func (f *filter) pass(ctx context.Context, v *view, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	o, ok := f.tags.owner(v.caller)
	if !ok {
		return f.Peer.Call(ctx, req, from)
	}
	own, refusal := o.open(req)
	switch {
	case refusal != nil:
		return req.Fail(refusal), nil
	case from != nil && (req.Method() == protocol.MethodListen || aboutTask(req.Method()) || req.Get("task") != nil):
		from = boundPeer{from, o}
	}
	resp, err := f.Peer.Call(ctx, own, from)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	return o.tag(req, resp)
}

// An owner is a principal to whom something is bound.
type owner struct {
	*tags
	principal string
}

// tagMark stands between what a server gave out and the tag.
const tagMark = "."

// given returns what a principal is given in place of a server's own, both as JSON text. What is
// no text is given as one; only that it is known again counts.
func (o owner) given(kind string, own []byte) []byte {
	given, _ := o.marked(kind, own)
	return given
}

// marked is given, with what that is known by.
func (o owner) marked(kind string, own []byte) (given []byte, known token.Tag) {
	text, isText := dragoman.Text(own)
	if !isText {
		kind, text = kind+" as JSON", string(own)
	}
	known = o.mark(kind, text)
	return dragoman.Quote(text + tagMark + known.String()), known
}

// newTask returns what the principal is given for the id of a new task of its own.
func (o owner) newTask(id []byte) []byte {
	given, known := o.marked(taskName, id)
	o.tasks.add(o.principal, known)
	return given
}

func (o owner) mark(kind, own string) token.Tag { return token.TagOf(o.key, kind, o.principal, own) }

// own returns the server's own of what a principal sends back, if it was given it.
func (o owner) own(kind string, given []byte) (own []byte, ok bool) {
	text, _ := dragoman.Text(given)
	at := strings.LastIndex(text, tagMark)
	if at < 0 {
		return nil, false
	}
	text, tag := text[:at], text[at+1:]
	switch {
	case o.mark(kind, text).Is(tag):
		return dragoman.Quote(text), true
	case o.mark(kind+" as JSON", text).Is(tag):
		return []byte(text), true
	}
	return nil, false
}

// open returns a request with the server's own, or why it is refused.
func (o owner) open(req *dragoman.Message) (*dragoman.Message, *dragoman.Error) {
	edit, changed := req.Edit(), false
	if kind, value := sentBack(req); !empty(value) {
		own, ok := o.own(kind, value)
		if !ok {
			return nil, notGiven(kind, value)
		}
		edit, changed = edit.Set(kind, own), true
	}
	if req.Method() == protocol.MethodListen {
		if own, ok := narrowMember(req.Get("notifications"), tasksName, func(id []byte) []byte { own, _ := o.own(taskName, id); return own }); ok {
			edit, changed = edit.Set("notifications", own), true
		}
	}
	if !changed {
		return req, nil
	}
	own, err := edit.Message()
	if err != nil {
		return nil, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: err.Error()}
	}
	return own, nil
}

// empty reports whether a member stands for none.
func empty(value []byte) bool {
	return len(value) == 0 || string(value) == "null" || string(value) == `""`
}

// sentBack returns the member of a request that a server may have given out, and what it is. Other
// spellings of its name are refused when a message is read.
func sentBack(req *dragoman.Message) (kind string, value []byte) {
	switch method := req.Method(); {
	case pages(method):
		return cursorName, req.Get(cursorName)
	case aboutTask(method):
		return taskName, req.Get(taskName)
	}
	if state := req.Get(stateName); state != nil && protocol.IsModern(req) {
		return stateName, state
	}
	return "", nil
}

func pages(method string) bool {
	switch method {
	case protocol.MethodListTools, protocol.MethodListPrompts, protocol.MethodListResources, protocol.MethodListTemplates, protocol.MethodListTasks:
		return true
	}
	return false
}

func aboutTask(method string) bool {
	switch method {
	case protocol.MethodGetTask, protocol.MethodTaskResult, protocol.MethodUpdateTask, protocol.MethodCancelTask:
		return true
	}
	return false
}

// notGiven is the error for what a caller was never given, which is that for what nobody has.
func notGiven(kind string, value []byte) *dragoman.Error {
	e := &dragoman.Error{Code: protocol.CodeInvalidParams}
	switch kind {
	case stateName:
		e.Message = "params.requestState has been altered, or was never given out here; send it back as it came"
	case cursorName:
		e.Message = "params.cursor is not one that this list gave; start over without a cursor"
	default:
		text, _ := dragoman.Text(value)
		e.Message = fmt.Sprintf("unknown task: %.200q", text)
	}
	return e
}

// tag returns an answer with what the principal is given.
func (o owner) tag(req, resp *dragoman.Message) (*dragoman.Message, error) {
	edit, changed := resp.Edit(), false
	set := func(name, kind string) {
		if value := resp.Get(name); !empty(value) {
			edit, changed = edit.Set(name, o.given(kind, value)), true
		}
	}
	method := req.Method()
	if pages(method) {
		set(nextName, cursorName)
	}
	switch {
	case method == protocol.MethodListTasks:
		list := narrow(resp.Get("tasks"), func(task []byte) []byte {
			if given, known := o.marked(taskName, dragoman.Member(task, taskName)); o.tasks.has(known) {
				return dragoman.WithMember(task, taskName, given)
			}
			return nil
		})
		edit, changed = edit.Set("tasks", list), true
	case aboutTask(method):
		set(taskName, taskName)
		if related := o.related(resp); related != nil {
			edit, changed = edit.SetMeta(protocol.MetaRelatedTask, related), true
		}
	case protocol.IsModern(req):
		switch kind, _ := dragoman.Text(resp.Get("resultType")); kind {
		case protocol.ResultInputRequired:
			set(stateName, stateName)
		case protocol.ResultTask:
			if id := resp.Get(taskName); !empty(id) {
				edit, changed = edit.Set(taskName, o.newTask(id)), true
			}
		}
	case req.Get("task") != nil: // of revisions that have tasks in their core
		if task := resp.Get("task"); !empty(dragoman.Member(task, taskName)) {
			edit, changed = edit.Set("task", dragoman.WithMember(task, taskName, o.newTask(dragoman.Member(task, taskName)))), true
		}
	}
	if !changed {
		return resp, nil
	}
	return edit.Message()
}

// related returns which task of the server a message belongs to, as the principal knows it, or
// nil.
func (o owner) related(m *dragoman.Message) []byte {
	related := m.Meta(protocol.MetaRelatedTask)
	id := dragoman.Member(related, taskName)
	if empty(id) {
		return nil
	}
	return dragoman.WithMember(related, taskName, o.given(taskName, id))
}

// told returns what a server tells or asks a client, with the tasks that the principal knows.
func (o owner) told(m *dragoman.Message) (*dragoman.Message, error) {
	edit, changed := m.Edit(), false
	switch m.Method() {
	case protocol.NoteTasks, protocol.NoteTaskStatus:
		if id := m.Get(taskName); !empty(id) {
			edit, changed = edit.Set(taskName, o.given(taskName, id)), true
		}
	case protocol.NoteAcknowledged:
		if ours, ok := narrowMember(m.Get("notifications"), tasksName, func(id []byte) []byte { return o.given(taskName, id) }); ok {
			edit, changed = edit.Set("notifications", ours), true
		}
	}
	if related := o.related(m); related != nil {
		edit, changed = edit.SetMeta(protocol.MetaRelatedTask, related), true
	}
	if !changed {
		return m, nil
	}
	return edit.Message()
}

// A boundPeer is who is told of tasks by the ids that it was given: the client of a conversation,
// or who has made a request.
type boundPeer struct {
	dragoman.Peer
	owner owner
}

// Unwrap returns who is told.
func (b boundPeer) Unwrap() dragoman.Peer { return b.Peer }

// Call implements dragoman.Peer. The answer belongs to the task that the question does.
func (b boundPeer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	told, err := b.owner.told(req)
	if err != nil {
		return nil, err
	}
	resp, err := b.Peer.Call(ctx, told, from)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	related := resp.Meta(protocol.MetaRelatedTask)
	own, ok := b.owner.own(taskName, dragoman.Member(related, taskName))
	if !ok {
		return resp, nil
	}
	return resp.Edit().SetMeta(protocol.MetaRelatedTask, dragoman.WithMember(related, taskName, own)).Message()
}

// Notify implements dragoman.Peer.
func (b boundPeer) Notify(ctx context.Context, note *dragoman.Message) error {
	told, err := b.owner.told(note)
	if err != nil {
		return err
	}
	return b.Peer.Notify(ctx, told)
}

const (
	// maxGiven is how many tasks of one server are known to be somebody's, and
	// maxGivenEach how many of one caller, the newest: lists show no others. Each can
	// be asked for by its id for as long as the server has it.
	maxGiven     = 10_000
	maxGivenEach = 2_000
)

// given are the tasks that were given out. When there are too many, the oldest of the caller goes
// that has most.
type given struct {
	mu    sync.Mutex
	known map[token.Tag]struct{}
	of    map[[sha256.Size]byte][]token.Tag // by caller, oldest first
}

func (g *given) add(principal string, task token.Tag) {
	who := sha256.Sum256([]byte(principal))
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.known[task]; ok {
		return
	}
	if g.known == nil {
		g.known, g.of = make(map[token.Tag]struct{}), make(map[[sha256.Size]byte][]token.Tag)
	}
	switch {
	case len(g.of[who]) >= maxGivenEach:
		g.forget(who)
	case len(g.known) >= maxGiven:
		most := who
		for other, list := range g.of {
			if len(list) > len(g.of[most]) {
				most = other
			}
		}
		g.forget(most)
	}
	g.known[task] = struct{}{}
	g.of[who] = append(g.of[who], task)
}

// forget forgets the oldest task of a caller, who has some. g.mu is locked.
func (g *given) forget(who [sha256.Size]byte) {
	list := g.of[who]
	delete(g.known, list[0])
	if list = slices.Delete(list, 0, 1); len(list) == 0 {
		delete(g.of, who)
	} else {
		g.of[who] = list
	}
}

func (g *given) has(task token.Tag) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.known[task]
	return ok
}
