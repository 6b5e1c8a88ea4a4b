package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

const pageStyle = `*{box-sizing:border-box}body{font:16px/1.5 system-ui,sans-serif;max-width:46em;margin:2em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.4em}h2{font-size:1.05em;margin:1.6em 0 .4em}code{overflow-wrap:anywhere;font-size:.92em}a{color:#0b57d0}
.row{display:flex;gap:.6em;align-items:flex-start;margin:.35em 0}.row>:first-child{flex:1;min-width:0}
.note{color:#666;font-size:.9em;display:block}pre{margin:0;padding:.5em .7em;background:#f3f3f3;border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere}
button{font:inherit;font-size:.85em;padding:.25em .7em;border:1px solid #bbb;border-radius:6px;background:#fff;color:inherit;cursor:pointer}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1c1c1c}a{color:#8ab4f8}pre{background:#2a2a2a}button{background:#2a2a2a;border-color:#555}.note{color:#999}}`

// pageScript copies the text beside a button. Where a page may not use the clipboard, as over plain HTTP
// from another machine, it selects the text instead.
const pageScript = `document.querySelectorAll("button").forEach(function (b) {
  b.hidden = false;
  b.addEventListener("click", function () {
    var text = b.previousElementSibling.querySelector("[data-copy]") || b.previousElementSibling;
    var done = function () { b.textContent = "Copied"; setTimeout(function () { b.textContent = "Copy"; }, 1500); };
    var select = function () { var r = document.createRange(); r.selectNodeContents(text); var s = getSelection(); s.removeAllRanges(); s.addRange(r); };
    if (navigator.clipboard) { navigator.clipboard.writeText(text.textContent).then(done, select); } else { select(); }
  });
});`

// pageSecurity is what a page may do: show text, and run its own script.
var pageSecurity = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", sourceHash(pageStyle), sourceHash(pageScript))

func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// templates are "root", about the gateway, and "endpoint", about an MCP endpoint.
var templates = template.Must(template.New("pages").Parse(`
{{define "head"}}<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="robots" content="noindex">
<title>{{.Name}}</title><style>` + pageStyle + `</style></head><body>{{end}}
{{define "foot"}}<script>` + pageScript + `</script></body></html>
{{end}}
{{define "copy"}}<button type="button" hidden>Copy</button>{{end}}
{{define "snippets"}}{{range .Snippets}}<h2>{{.Title}}</h2>
<div class="row"><pre><code data-copy>{{.Text}}</code></pre>{{template "copy"}}</div>
{{end}}{{if .Token}}<p>Clients must authenticate. If your client does not sign in by itself, ask the operator for a token, and put it in place of TOKEN.</p>
{{end}}{{end}}
{{define "root"}}{{template "head" .}}<h1>{{.Name}} {{.Version}}</h1>
<p>This is an MCP server. Add one of these URLs to your MCP client:</p>
{{range .Endpoints}}<div class="row"><div>{{if .Link}}<a href="{{.URL}}"><code data-copy>{{.URL}}</code></a>{{else}}<code data-copy>{{.URL}}</code>{{end}} <span class="note">{{.What}}</span></div>{{template "copy"}}</div>
{{end}}{{if .Protected}}<p>Clients must authenticate. They see the servers after that.</p>
{{end}}{{if .Paths}}<h2>Each server also has its own endpoints</h2>
{{range .Paths}}<div class="row"><div><a href="{{.}}/mcp"><code data-copy>{{.}}/mcp</code></a></div>{{template "copy"}}</div>
{{end}}{{end}}{{template "snippets" .}}
<p>Health and status: <a href="{{.Base}}` + HealthPath + `">` + HealthPath + `</a>, <a href="{{.Base}}` + ReadyPath + `">` + ReadyPath + `</a>, <a href="{{.Base}}` + StatusPath + `">` + StatusPath + `</a></p>
{{template "foot" .}}{{end}}
{{define "endpoint"}}{{template "head" .}}<h1>An MCP endpoint</h1>
<p>This URL is for MCP clients. Copy what yours needs:</p>
<div class="row"><div><code data-copy>{{.URL}}</code> <span class="note">Streamable HTTP</span></div>{{template "copy"}}</div>
{{template "snippets" .}}<p><a href="{{.Base}}/">All endpoints of this gateway</a></p>
{{template "foot" .}}{{end}}`))

// A rootPage describes the gateway to a person.
type rootPage struct {
	Name, Version, Base string
	Endpoints           []pageEndpoint
	Protected           bool
	Token               bool // the snippets have a place for a token
	Paths               []string
	Snippets            []snippet
}

type pageEndpoint struct {
	URL, What string
	Link      bool // it answers a GET
}

// An endpointPage tells a person what to paste into a client.
type endpointPage struct {
	Name, Base, URL string
	Token           bool
	Snippets        []snippet
}

// A snippet is a text for the configuration of a client.
type snippet struct{ Title, Text string }

// snippetsOf returns what to paste where for a server at a URL. With a token it has a place for one.
func snippetsOf(name, url string, token bool) []snippet {
	server := map[string]any{"type": "http", "url": url}
	command := []string{"connect", url}
	claude := "claude mcp add --transport http " + name + " " + url
	use := "dragoman tools " + url
	if token {
		server["headers"] = map[string]string{"Authorization": "Bearer TOKEN"}
		command = append(command, "-H", "Authorization: Bearer TOKEN")
		claude += " --header 'Authorization: Bearer TOKEN'"
		use += " -H 'Authorization: Bearer TOKEN'"
	}
	config := func(key string, server any) string {
		text, _ := json.MarshalIndent(map[string]any{key: map[string]any{name: server}}, "", "  ") // strings always encode
		return string(text)
	}
	return []snippet{
		{"Claude Code", claude},
		{"Cursor, Cline, .mcp.json and others", config("mcpServers", server)},
		{"VS Code (.vscode/mcp.json)", config("servers", server)},
		{"Claude Desktop and other hosts that only start commands", config("mcpServers", map[string]any{"command": "dragoman", "args": command})},
		{"From a terminal", use},
	}
}

// What a person uses to look at us.
const (
	withBrowser  = "text/html"
	withTerminal = "text/plain"
)

// isRead reports whether a request only reads.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// wantsPage returns with what a person looks at the root, or "" if the client is a program. Programs of a
// terminal accept anything. MCP clients at a wrong URL get an error: they accept event streams or JSON, ask
// for another protocol, or accept nothing by name.
func wantsPage(r *http.Request) string {
	if r.URL.Path != "/" || !isRead(r) {
		return ""
	}
	accept := r.Header.Get("Accept")
	accepts := func(kind string) bool { return strings.Contains(accept, kind) }
	switch {
	case accepts("text/html"):
		return withBrowser
	case accepts("text/event-stream") || accepts("json") || r.Header.Get("Upgrade") != "":
		return ""
	case accepts("*/*") || accepts("text/*") || accepts("text/plain"):
		return withTerminal
	}
	return ""
}

// wantsEndpointPage reports whether a browser has opened an MCP endpoint. Whether there is one at the
// path is not looked at.
func wantsEndpointPage(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return isRead(r) && strings.HasSuffix(r.URL.Path, MCPPath) && strings.Contains(accept, "text/html") &&
		!strings.Contains(accept, "text/event-stream") && r.Header.Get("Mcp-Session-Id") == ""
}

// serveRootPage describes the gateway to a person, in HTML or in plain text.
func (g *Gateway) serveRootPage(w http.ResponseWriter, r *http.Request, with string, open bool) {
	p := g.rootPage(r, open)
	if with == withTerminal {
		var b strings.Builder
		p.print(&b)
		writePage(w, with, http.StatusOK, b.String())
		return
	}
	g.writeTemplate(w, "root", http.StatusOK, p)
}

// serveEndpointPage tells a person who has opened an MCP endpoint in a browser what to paste into a client.
// It reports whether it has answered: an endpoint that the caller may not know of is not found. Without
// authentication the page is the same for every path.
func (g *Gateway) serveEndpointPage(w http.ResponseWriter, r *http.Request, refusal *httpserver.Refusal) bool {
	status := http.StatusOK
	if refusal != nil {
		if status = refusal.Status; status != http.StatusUnauthorized {
			return false
		}
		w.Header().Set("WWW-Authenticate", refusal.Challenge)
	} else if t := g.now.Load(); !t.leads(r.URL.Path) {
		return false
	} else if e, _ := t.find(r.URL.Path); !t.shows(e, dragoman.CallerOf(r.Context())) {
		return false
	}
	base := httpserver.Scheme(r) + "://" + r.Host
	before, _ := strings.CutSuffix(r.URL.Path, MCPPath)
	name := cmp.Or(before[strings.LastIndexByte(before, '/')+1:], g.opts.Name)
	p := &endpointPage{Name: name, Base: base, URL: base + r.URL.Path, Token: refusal != nil}
	p.Snippets = snippetsOf(name, p.URL, p.Token)
	g.writeTemplate(w, "endpoint", status, p)
	return true
}

func (g *Gateway) writeTemplate(w http.ResponseWriter, name string, status int, data any) {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		g.log.Error("render page", "page", name, "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", pageSecurity)
	writePage(w, withBrowser, status, b.String())
}

func writePage(w http.ResponseWriter, kind string, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", kind+"; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the client may have disconnected
}

// rootPage returns what a person may know of the gateway. Where clients must authenticate it names no servers.
func (g *Gateway) rootPage(r *http.Request, open bool) *rootPage {
	base := httpserver.Scheme(r) + "://" + r.Host
	now := g.now.Load()
	p := &rootPage{Name: g.opts.Name, Version: g.opts.Version, Base: base, Protected: !open && !g.policy.Anyone()}
	p.Endpoints = append(p.Endpoints, pageEndpoint{base + MCPPath, "Streamable HTTP", true})
	if s := now.all.backend; s.Sessions != nil {
		p.Endpoints = append(p.Endpoints, pageEndpoint{base + SSEPath, "HTTP+SSE, for older clients", false})
	}
	p.Endpoints = append(p.Endpoints, pageEndpoint{"ws" + strings.TrimPrefix(base, "http") + WSPath, "WebSocket", false})
	if now.all.backend.Requests != nil {
		p.Endpoints = append(p.Endpoints, pageEndpoint{base + CallPath, "tool calls over plain HTTP: GET lists the tools, POST " + CallPath + "/TOOL calls one", true})
	}
	p.Snippets, p.Token = snippetsOf(p.Name, base+MCPPath, p.Protected), p.Protected
	if p.Protected || g.opts.Single {
		return p
	}
	caller := dragoman.CallerOf(r.Context())
	for _, e := range slices.Concat(slices.Collect(maps.Values(now.servers)), slices.Collect(maps.Values(now.groups))) {
		if now.shows(e, caller) {
			p.Paths = append(p.Paths, base+e.path)
		}
	}
	slices.Sort(p.Paths)
	return p
}

// print writes the page as text.
func (p *rootPage) print(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s, an MCP server. Add one of these URLs to your MCP client:\n\n", p.Name, p.Version)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, e := range p.Endpoints {
		fmt.Fprintf(t, "  %s\t%s\n", e.URL, e.What)
	}
	_ = t.Flush() // a Builder takes everything
	if p.Protected {
		b.WriteString("\nClients must authenticate. They see the servers after that.\n")
	}
	if len(p.Paths) > 0 {
		fmt.Fprintf(b, "\nEach server also has its own endpoints, with the same paths below:\n\n  %s\n", strings.Join(p.Paths, "\n  "))
	}
	fmt.Fprintf(b, "\nHealth and status: %s, %s, %s\n", p.Base+HealthPath, p.Base+ReadyPath, p.Base+StatusPath)
}
