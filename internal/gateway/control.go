package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/manager"
)

// Control answers the owner of the program, on a socket that nobody else can
// open:
//
//	GET  /status                 how everything is, also what is not public
//	POST /reload                 reads the configuration again
//	POST /servers/NAME/restart   restarts a server
//	GET  /servers/NAME/logs      what it has said, a JSON object per line; ?follow=true goes on
func (g *Gateway) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, g.Status()) })
	mux.HandleFunc("POST /reload", g.serveReload)
	mux.HandleFunc("POST /servers/{name}/restart", g.named(g.serveRestart))
	mux.HandleFunc("GET /servers/{name}/logs", g.named(g.serveLogs))
	return mux
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
func (g *Gateway) named(do func(http.ResponseWriter, *http.Request, *manager.Upstream)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		up := g.manager.Upstream(r.PathValue("name"))
		if up == nil {
			fail(w, http.StatusNotFound, "there is no server "+r.PathValue("name")+"; dragoman status lists them")
			return
		}
		do(w, r, up)
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

func (g *Gateway) serveRestart(w http.ResponseWriter, r *http.Request, up *manager.Upstream) {
	if err := up.Restart(r.Context()); err != nil {
		fail(w, http.StatusBadGateway, err.Error())
		return
	}
	answer(w, up.Status())
}

func (g *Gateway) serveLogs(w http.ResponseWriter, r *http.Request, up *manager.Upstream) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	if r.URL.Query().Get("follow") != "true" {
		for _, line := range up.Logs() {
			_ = out.Encode(line) // who asked has left
		}
		return
	}
	flush := http.NewResponseController(w)
	up.Follow(r.Context(), func(line manager.LogLine) {
		_ = out.Encode(line) // as above
		_ = flush.Flush()
	})
}
