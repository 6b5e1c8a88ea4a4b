package auth

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// MetadataPath is what the path of a resource follows where clients find out how to get
// tokens for it (RFC 9728).
const MetadataPath = "/.well-known/oauth-protected-resource"

// Metadata answers what clients ask at MetadataPath and below it, before they have a token. It
// tells nothing of what there is here: the answer is the same for every path.
func (p *Policy) Metadata(w http.ResponseWriter, r *http.Request) {
	o := p.now.Load()
	path, ok := strings.CutPrefix(r.URL.Path, MetadataPath)
	if !ok || path != "" && path[0] != '/' || len(o.Issuers) == 0 {
		http.Error(w, "nothing is here; tokens for this server are given out by hand", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		httpserver.NotAllowed(r, "GET, HEAD").Write(w)
		return
	}
	text, _ := json.Marshal(struct { // strings always encode
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
	}{o.base(r) + path, o.Issuers, o.Scopes, []string{"header"}})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Access-Control-Allow-Origin", "*") // it is the same for everybody
	h.Set("Cache-Control", "max-age=300")
	_, _ = w.Write(text) // who asked may have left
}

// metadataURL returns where the metadata of what a request is for is.
func (o *Options) metadataURL(r *http.Request) string {
	return o.base(r) + MetadataPath + strings.TrimSuffix(r.URL.EscapedPath(), "/")
}

// A ScopeError says that somebody who is known here lacks scopes.
type ScopeError struct{ Scopes []string }

// Error implements error.
func (e *ScopeError) Error() string {
	return "the token lacks a scope; this needs " + strings.Join(e.Scopes, " ")
}

// refuse makes the answer to a request that is not let in.
func (p *Policy) refuse(r *http.Request, o *Options, err error) *httpserver.Refusal {
	if refusal, ok := errors.AsType[*httpserver.Refusal](err); ok {
		return refusal
	}
	if e, ok := errors.AsType[*oidc.UnavailableError](err); ok {
		p.log.Debug("a token cannot be verified", "error", e.Err)
		return httpserver.Unavailable(protocol.Overloaded("tokens cannot be verified now; try again later"))
	}
	metadata := ""
	if len(o.Issuers) > 0 {
		metadata = o.metadataURL(r)
	}
	status, text, code, scopes := http.StatusUnauthorized, err.Error(), "invalid_token", o.Scopes
	if e, ok := errors.AsType[*ScopeError](err); ok {
		status, code, scopes = http.StatusForbidden, httpframe.InsufficientScope, e.Scopes
	} else if errors.Is(err, errNone) {
		text, code = "send Authorization: Bearer TOKEN; whoever runs this server gives out tokens", ""
		if metadata != "" {
			text = "sign in first; how is said at " + metadata
		}
	}
	e := protocol.Denied(text)
	return &httpserver.Refusal{
		Status: status, Code: e.Code, Message: e.Message, Data: e.Data,
		Challenge: httpserver.Challenge(metadata, code, text, strings.Join(scopes, " ")),
	}
}
