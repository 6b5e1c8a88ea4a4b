package httpx

import (
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
)

var (
	corsRequestHeaders = strings.Join([]string{
		"Content-Type", "Accept", "Authorization", protocol.HeaderSession, protocol.HeaderVersion,
		protocol.HeaderMethod, protocol.HeaderName, protocol.HeaderLastEventID,
	}, ", ")
	corsResponseHeaders = strings.Join([]string{protocol.HeaderSession, protocol.HeaderVersion}, ", ")
)

// CORS tells the browser that a page of an origin that [Gate.Check] accepts may
// read the answer. If the request is a preflight, CORS answers it and returns
// true; there is nothing left to do then.
func (g *Gate) CORS(w http.ResponseWriter, r *http.Request) bool {
	return len(r.Header["Origin"]) > 0 && g.Check(r) == nil && allowOrigin(w, r)
}

// allowOrigin is CORS for an origin that has been checked. Without one there is nothing
// to say: what is not asked for by a page costs no header.
func allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	if len(r.Header["Origin"]) == 0 {
		if r.Method == http.MethodGet {
			h.Add("Vary", "Origin") // a cache may keep the answer, which a page could not read
		}
		return false
	}
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", corsRequestHeaders+paramHeadersAsked(r))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// paramHeadersAsked returns the headers for tool arguments that a preflight asks
// for: their names depend on the tool, so no list can hold them.
func paramHeadersAsked(r *http.Request) string {
	var b strings.Builder
	for _, line := range r.Header.Values("Access-Control-Request-Headers") {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			n := len(protocol.HeaderParamPrefix)
			if len(name) > n && strings.EqualFold(name[:n], protocol.HeaderParamPrefix) && isToken(name) {
				b.WriteString(", ")
				b.WriteString(name)
			}
		}
	}
	return b.String()
}
