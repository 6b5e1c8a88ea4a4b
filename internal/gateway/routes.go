package gateway

import (
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/near"
	"github.com/dragoman-mcp/dragoman/internal/rules"
)

// The paths of servers and groups.
const (
	serversPath = "/servers/"
	groupsPath  = "/groups/"
)

// routes says which doors a path leads to. It never changes.
type routes struct {
	servers map[string]*entry
	groups  map[string]*entry // by the path that is before their doors
	leaving []*entry          // what is gone but finishes what is under way
	all     *entry
	passes  []string // headers of callers that some server has passed on
	rules   *atomic.Pointer[rules.Set]
	grouped map[*entry][]string // the servers of groups
}

// shows reports whether there is something for a caller behind an entry.
func (t *routes) shows(e *entry, c *dragoman.Caller) bool {
	set := t.rules.Load()
	if e.chain != nil {
		return set.Any(c, e.chain.Name())
	}
	servers, ok := t.grouped[e]
	return !ok || slices.ContainsFunc(servers, func(name string) bool { return set.Any(c, name) })
}

// An entry is what stands behind a path, with its doors: one server, or several.
type entry struct {
	*Doors
	backend *Backend // what the doors lead to
	path    string   // before the doors
	mcp     string   // where Streamable HTTP is, if not at the usual place
	chain   *chain   // of one server; nil if it is a union, or the caller's own
	union   *union   // nil if it is no union
}

// members returns servers as members of a union. Those without an entry keep their
// places, and those that are disabled have none.
func (t *routes) members(names []string) []aggregate.Member {
	list := make([]aggregate.Member, 0, len(names))
	for _, name := range names {
		switch e := t.servers[name]; {
		case e == nil:
			list = append(list, missing{&views{server: name, config: noConfig, rules: t.rules}})
		case !e.chain.up.Config().Disabled:
			list = append(list, e.chain)
		}
	}
	return list
}

// noConfig is that of a server that has errors.
func noConfig() *config.Server { return &config.Server{} }

// find returns the entry for a path, and the path below it.
func (t *routes) find(path string) (e *entry, rest string) {
	if after, ok := strings.CutPrefix(path, serversPath); ok {
		name, rest, _ := strings.Cut(after, "/")
		if e = t.servers[name]; e == nil {
			e, _ = findEntry(slices.Values(t.leaving), path)
		}
		return e, "/" + rest
	}
	if len(t.groups)+len(t.leaving) == 0 {
		return t.all, path
	}
	if e, rest = findEntry(maps.Values(t.groups), path); e == nil {
		e, rest = findEntry(slices.Values(t.leaving), path)
	}
	if e != nil {
		return e, rest
	}
	return t.all, path
}

// findEntry returns the entry that a path is of, and the path below it.
func findEntry(list iter.Seq[*entry], path string) (e *entry, rest string) {
	for e := range list {
		if path == e.mcp {
			return e, MCPPath
		}
		if rest, ok := strings.CutPrefix(path, e.path); ok && strings.HasPrefix(rest, "/") {
			return e, rest
		}
	}
	return nil, ""
}

// nearServers asks whether a server was meant that has nearly the name in the path and is
// there for the caller, or returns "".
func (t *routes) nearServers(r *http.Request) string {
	after, ok := strings.CutPrefix(r.URL.Path, serversPath)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(after, "/")
	hint := near.Hint(name, func(yield func(string) bool) {
		for other, e := range t.servers {
			if t.shows(e, dragoman.CallerOf(r.Context())) && !yield(other) {
				return
			}
		}
	})
	if hint != "" {
		hint += " "
	}
	return hint
}

// serve answers a request by the doors of its path.
func (t *routes) serve(w http.ResponseWriter, r *http.Request) {
	e, rest := t.find(r.URL.Path)
	if e == nil || !t.shows(e, dragoman.CallerOf(r.Context())) {
		http.Error(w, "there is no server of that name; "+t.nearServers(r)+"GET /status lists them", http.StatusNotFound)
		return
	}
	door, prefix := e.At(rest)
	if door == nil {
		http.Error(w, "nothing is here; the doors of a server are /mcp, /sse, /messages, /ws and /call", http.StatusNotFound)
		return
	}
	if prefix != "" {
		door = http.StripPrefix(strings.TrimSuffix(r.URL.Path, rest)+prefix, door)
	}
	door.ServeHTTP(w, r)
}
