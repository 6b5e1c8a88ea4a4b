package gateway

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

// The paths of servers and groups.
const (
	serversPath = "/servers/"
	groupsPath  = "/groups/"
)

// routes are the endpoints by their paths. They never change.
type routes struct {
	servers map[string]*route
	groups  map[string]*route // by path
	all     *route
	passes  []string // headers of callers that some server gets
	rules   *atomic.Pointer[rules.Set]
	grouped map[*route][]string // the servers of groups
}

// A route is an endpoint with its path: that of one server, or of several.
type route struct {
	*Endpoint
	backend   *Backend             // what the endpoint serves
	path      string               // before those of the endpoint
	mcp       string               // the path of Streamable HTTP, if not as usual
	chain     *chain               // of one server, or nil
	aggregate *aggregate.Aggregate // of several, or nil
	front     *era.Frontend        // of the aggregate
}

// closeAggregate ends what is in flight at an aggregate whose endpoint has been shut down.
func (e *route) closeAggregate() {
	if e.aggregate != nil {
		_ = e.aggregate.Close() // subscriptions end with their results
		_ = e.front.Close()
	}
}

// shows reports whether a caller may use some server of a route.
func (t *routes) shows(e *route, c *dragoman.Caller) bool {
	set := t.rules.Load()
	if e.chain != nil {
		return set.Any(c, e.chain.service.Name())
	}
	servers, ok := t.grouped[e]
	return !ok || slices.ContainsFunc(servers, func(name string) bool { return set.Any(c, name) })
}

// members returns servers as members of an aggregate. One that has errors keeps its place, and
// one that is disabled is left out.
func (t *routes) members(names []string) []aggregate.Member {
	list := make([]aggregate.Member, 0, len(names))
	for _, name := range names {
		switch e := t.servers[name]; {
		case e == nil:
			list = append(list, missing{&views{server: name, config: noConfig, rules: t.rules}})
		case !e.chain.service.Upstream().Config().Disabled:
			list = append(list, member{e.chain, e.chain.service.Upstream()})
		}
	}
	return list
}

// noConfig is that of a server that has errors.
func noConfig() *config.Server { return &config.Server{} }

// find returns the route for a path, and the rest of the path.
func (t *routes) find(path string) (e *route, rest string) {
	if after, ok := strings.CutPrefix(path, serversPath); ok {
		name, rest, _ := strings.Cut(after, "/")
		return t.servers[name], "/" + rest
	}
	for _, e := range t.groups {
		if path == e.mcp {
			return e, MCPPath
		}
		if rest, ok := strings.CutPrefix(path, e.path); ok && strings.HasPrefix(rest, "/") {
			return e, rest
		}
	}
	return t.all, path
}

// nearServers asks whether a server was meant that has nearly the name in the path and is
// there for the caller, or returns "".
func (t *routes) nearServers(r *http.Request) string {
	after, ok := strings.CutPrefix(r.URL.Path, serversPath)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(after, "/")
	hint := humanize.SuggestHint(name, func(yield func(string) bool) {
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

// leads reports whether there is an endpoint at a path.
func (t *routes) leads(path string) bool {
	e, rest := t.find(path)
	if e == nil {
		return false
	}
	h, _ := e.At(rest)
	return h != nil
}

// withoutSlash returns a request whose URL is that of an endpoint and a slash as one to the endpoint itself:
// users copy such URLs. It is not redirected, as many clients lose the body of a POST by that. All that goes
// by paths is asked about the request that is returned, so that a slash leads around nothing. One that
// is escaped is part of a name.
func (t *routes) withoutSlash(r *http.Request) *http.Request {
	path, ok := strings.CutSuffix(r.URL.Path, "/")
	if !ok || !strings.HasSuffix(r.URL.EscapedPath(), "/") || t.leads(r.URL.Path) || !t.leads(path) {
		return r
	}
	there, where := *r, *r.URL
	where.Path, where.RawPath = path, strings.TrimSuffix(where.RawPath, "/")
	there.URL = &where
	return &there
}

// serve passes a request to the endpoint of its path. Without one it answers 404 and returns the reason.
func (t *routes) serve(w http.ResponseWriter, r *http.Request) (missing string) {
	e, rest := t.find(r.URL.Path)
	if e == nil || !t.shows(e, dragoman.CallerOf(r.Context())) {
		missing = "there is no server of that name; " + t.nearServers(r) + "GET /status lists them"
		http.Error(w, missing, http.StatusNotFound)
		return missing
	}
	h, prefix := e.At(rest)
	if h == nil {
		missing = "nothing is here; the endpoints of a server are /mcp, /sse, /messages, /ws and /call"
		http.Error(w, missing, http.StatusNotFound)
		return missing
	}
	if prefix != "" {
		h = http.StripPrefix(strings.TrimSuffix(r.URL.Path, rest)+prefix, h)
	}
	h.ServeHTTP(w, r)
	return ""
}
