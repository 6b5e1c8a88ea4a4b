package manager

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MetaCached marks a list that is the last one known of a server that is away.
const MetaCached = "dragoman/cached"

// A kind is a list that a server has.
type kind struct {
	method, member string
	capability     string
	note           string // tells that it has changed
}

var kinds = []kind{
	{protocol.MethodListTools, "tools", "tools", protocol.NoteToolsChanged},
	{protocol.MethodListPrompts, "prompts", "prompts", protocol.NotePromptsChanged},
	{protocol.MethodListResources, "resources", "resources", protocol.NoteResourcesChanged},
	{protocol.MethodListTemplates, "resourceTemplates", "resources", protocol.NoteResourcesChanged},
}

// isKept tells whether a method's answers are kept.
func isKept(method string) bool {
	return method == protocol.MethodDiscover || slices.ContainsFunc(kinds, func(k kind) bool { return k.method == method })
}

// An offer is an answer of the server that is kept: all its pages as one result, each
// element as it came.
type offer struct {
	result json.RawMessage
	count  int // elements

	until  time.Time // it may be given to anybody, while the server is there
	known  bool      // the server has given it to this process, it is not from the store
	varies bool      // sessions have different ones
}

// lists is what is known of what a server offers.
type lists struct {
	dirty chan struct{} // holds one token when wanted is not empty

	mu      sync.Mutex
	kept    map[string]*offer // by method; what is nil is not known
	wanted  map[string]bool   // notes of kinds that are to be fetched; true if that is to be told
	modern  bool
	changes map[string]bool // capabilities whose lists the server tells changes of
	serves  map[string]bool // capabilities
}

func newLists() *lists {
	return &lists{dirty: make(chan struct{}, 1), kept: make(map[string]*offer), wanted: make(map[string]bool)}
}

// learn takes the answer to server/discover.
func (l *lists) learn(resp *dragoman.Message, modern bool) {
	var caps map[string]json.RawMessage
	_ = json.Unmarshal(resp.Get("capabilities"), &caps) // what cannot be read is not served
	l.mu.Lock()
	defer l.mu.Unlock()
	l.modern = modern
	l.changes, l.serves = make(map[string]bool), make(map[string]bool)
	for name, value := range caps {
		l.serves[name] = true
		l.changes[name] = string(walk.Get(value, "listChanged")) == "true"
	}
	l.put(protocol.MethodDiscover, resp.Result(), 0, resp)
}

// put keeps a result. tags is the response that says how long it is good for. The
// caller holds mu.
func (l *lists) put(method string, result json.RawMessage, count int, tags *dragoman.Message) {
	v := &offer{result: slices.Clone(result), count: count, known: true}
	if old := l.kept[method]; old != nil {
		v.varies = old.varies
	}
	switch now := time.Now(); {
	case !l.modern:
		v.until = now.Add(ListAge)
	case string(tags.Get("cacheScope")) == `"public"`:
		v.until = now.Add(ttlOf(tags))
	}
	l.kept[method] = v
}

// ttlOf returns how long a result is good for, by its own word.
func ttlOf(resp *dragoman.Message) time.Duration {
	ms, err := strconv.ParseFloat(string(resp.Get("ttlMs")), 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, float64(24*time.Hour/time.Millisecond))) * time.Millisecond
}

// want has lists fetched again: those that a note is about. tell says whether to
// tell others of it.
func (l *lists) want(note string, tell bool) {
	l.mu.Lock()
	l.wanted[note] = l.wanted[note] || tell
	for _, k := range kinds {
		if v := l.kept[k.method]; v != nil && k.note == note && tell {
			v.until = time.Time{} // it is not the current one any more
		}
	}
	l.mu.Unlock()
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// take returns what is wanted, which is wanted no more.
func (l *lists) take() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.wanted
	l.wanted = make(map[string]bool)
	return wanted
}

// begin has all lists fetched that the server has. tell says whether others are to
// be told.
func (l *lists) begin(tell bool) {
	l.mu.Lock()
	serves := l.serves
	l.mu.Unlock()
	for _, k := range kinds {
		if serves == nil || serves[k.capability] {
			l.want(k.note, tell)
		}
	}
}

// differs notes that sessions of the server have lists of their own.
func (l *lists) differs(note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range kinds {
		if v := l.kept[k.method]; v != nil && k.note == note {
			v.varies = true
		}
	}
}

// count returns how many elements a list has, and whether it is not of this life of
// the server.
func (l *lists) count(method string) (n int, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.kept[method]; v != nil {
		return v.count, v.known
	}
	return 0, false
}

// fromCache answers a request for a list, if that can be done without the server.
// It returns nil if not.
func (u *Upstream) fromCache(req *dragoman.Message) *dragoman.Message {
	if !isKept(req.Method()) || u.set.passes || !plain(req) {
		return nil
	}
	away := false
	switch u.State() {
	case Ready, Degraded:
	default:
		away = true
	}
	if !protocol.IsModern(req) {
		return nil
	}
	if _, err := protocol.ReadEnvelope(req); err != nil {
		return nil // era says what is wrong
	}
	l := u.lists
	l.mu.Lock()
	v, now := l.kept[req.Method()], time.Now()
	if v == nil {
		l.mu.Unlock()
		return nil
	}
	result, left, modern := v.result, v.until.Sub(now), l.modern
	old := left <= 0 || v.varies
	stale := left <= 0 && v.known && !v.varies
	l.mu.Unlock()
	if !away && old {
		if stale {
			u.lists.refetch(req.Method())
		}
		return nil
	}
	resp, err := req.Reply(result)
	if err != nil {
		return nil
	}
	switch {
	case away:
		resp, err = resp.Edit().Set("ttlMs", []byte("0")).SetMeta(MetaCached, []byte("true")).Message()
	case modern:
		resp, err = resp.Edit().Set("ttlMs", strconv.AppendInt(nil, left.Milliseconds(), 10)).Message()
	}
	if err != nil {
		return nil
	}
	return resp
}

// refetch has a list fetched that was asked for and is too old.
func (l *lists) refetch(method string) {
	for _, k := range kinds {
		if k.method == method {
			l.want(k.note, false)
		}
	}
}

// plain tells whether a request asks for a list from its beginning, and for nothing
// else.
func plain(req *dragoman.Message) bool {
	for name, f := range walk.Members(req.Params()) {
		value := req.Params()[f.Start:f.End]
		if string(name) != "_meta" && string(value) != "null" {
			return false
		}
	}
	return true
}
