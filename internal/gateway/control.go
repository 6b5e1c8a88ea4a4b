package gateway

import (
	"encoding/json"
	"iter"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Control answers the owner of the program, on a socket that nobody else can
// open:
//
//	GET  /status                 how everything is, also what is not public
//	POST /reload                 reads the configuration again
//	POST /servers/NAME/restart   restarts a server
//	GET  /servers/NAME/logs      what it has said, a JSON object per line; ?follow=true continues
//
// and the handlers of Options.ControlHandlers.
//
// Streamable HTTP is at its paths, too: the owner comes as who runs this process does.
func (g *Gateway) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, g.Status()) })
	mux.HandleFunc("POST /reload", g.serveReload)
	mux.HandleFunc("POST /servers/{name}/restart", g.named(g.serveRestart))
	mux.HandleFunc("GET /servers/{name}/logs", g.named(g.serveLogs))
	for pattern, h := range g.opts.ControlHandlers {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if server := r.URL.Query().Get("server"); server == "" || g.serverOr(w, server) != nil {
				h.ServeHTTP(w, r)
			}
		})
	}
	for _, path := range []string{MCPPath, serversPath + "{name}" + MCPPath, groupsPath + "{name}" + MCPPath} {
		mux.HandleFunc(path, g.serveOwner)
	}
	return mux
}

// serveOwner serves the endpoints to the owner of the program.
func (g *Gateway) serveOwner(w http.ResponseWriter, r *http.Request) {
	c := auth.Self()
	c.Header, c.Passed = r.Header, g.passed(r)
	t := g.now.Load()
	if e, _ := t.find(r.URL.Path); e != nil && !t.shows(e, c) {
		denied := protocol.Denied("the rules do not allow " + c.Principal + " to use " + r.URL.Path)
		(&httpserver.Refusal{Status: http.StatusForbidden, Code: denied.Code, Message: denied.Message, Data: denied.Data}).Write(w)
		return
	}
	_ = t.serve(w, r.WithContext(dragoman.WithCaller(r.Context(), c)))
}

// A Failed is the body of a control request that failed.
type Failed struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Failed{text}) // who asked has left
}

// named finds the server that a request names.
func (g *Gateway) named(do func(http.ResponseWriter, *http.Request, *upstream.Upstream)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if up := g.serverOr(w, r.PathValue("name")); up != nil {
			do(w, r, up)
		}
	}
}

// serverOr returns the server of a name, or says why there is none.
func (g *Gateway) serverOr(w http.ResponseWriter, name string) *upstream.Upstream {
	up := g.manager.Upstream(name)
	if up != nil {
		return up
	}
	g.mu.Lock()
	fault, broken := g.file.Fault(name)
	g.mu.Unlock()
	if broken {
		fail(w, http.StatusConflict, "the server "+name+" is left out, because its configuration has errors:\n"+fault)
		return nil
	}
	text := "there is no server " + name + "; "
	if hint := humanize.SuggestHint(name, g.serverNames()); hint != "" {
		text += hint + " "
	}
	fail(w, http.StatusNotFound, text+"dragoman status lists them")
	return nil
}

// serverNames returns the names of all servers.
func (g *Gateway) serverNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, up := range g.manager.Upstreams() {
			if !yield(up.Name()) {
				return
			}
		}
	}
}

func (g *Gateway) serveReload(w http.ResponseWriter, _ *http.Request) {
	done, err := g.Reload()
	if err != nil {
		fail(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, done)
}

func (g *Gateway) serveRestart(w http.ResponseWriter, r *http.Request, up *upstream.Upstream) {
	if err := up.Restart(r.Context()); err != nil {
		fail(w, http.StatusBadGateway, err.Error())
		return
	}
	answer(w, up.Status())
}

func (g *Gateway) serveLogs(w http.ResponseWriter, r *http.Request, up *upstream.Upstream) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	if r.URL.Query().Get("follow") != "true" {
		for _, line := range up.Logs() {
			_ = out.Encode(line) // who asked has left
		}
		return
	}
	flush := http.NewResponseController(w)
	up.Follow(r.Context(), func(line upstream.LogLine) {
		_ = out.Encode(line) // as above
		_ = flush.Flush()
	})
}
