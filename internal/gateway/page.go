package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
)

const pageStyle = `body{font:16px/1.5 system-ui,sans-serif;max-width:44em;margin:3em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.4em}td{padding:.1em 1em .1em 0;vertical-align:top}code{overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1c1c1c}}`

// pageSecurity is what the page may do: show text.
var pageSecurity = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">
<title>{{.Name}}</title><style>` + pageStyle + `</style></head><body><h1>{{.Name}} {{.Version}}</h1>
<p>This is a server for programs that speak MCP, not a page for people. Give your client one of these addresses:</p>
<table>
{{range .Doors}}<tr><td><code>{{.URL}}</code></td><td>{{.What}}</td></tr>
{{end}}</table>
{{if .Protected}}<p>Clients have to prove who they are. What is served here, they see once they have.</p>
{{end}}{{if .Paths}}<p>The same is below each of these:</p>
<ul>
{{range .Paths}}<li><code>{{.}}</code></li>
{{end}}</ul>
{{end}}<p>In the configuration of many clients:</p>
<pre><code>{"mcpServers": {"{{.Name}}": {"type": "http", "url": "{{(index .Doors 0).URL}}"}}}</code></pre>
<p>How it is: <code>{{.Base}}` + HealthPath + `</code>, <code>{{.Base}}` + ReadyPath + `</code> and <code>{{.Base}}` + StatusPath + `</code>.</p>
</body></html>
`))

// A pageDoor is a door as the page shows it.
type pageDoor struct{ URL, What string }

// wantsPage reports whether a person looks at us with a browser.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// servePage tells a person what is here. Who has to prove who they are to see servers is
// not told of them.
func (g *Gateway) servePage(w http.ResponseWriter, r *http.Request, open bool) {
	base := httpx.Scheme(r) + "://" + r.Host
	now := g.now.Load()
	p := struct {
		Name, Version, Base string
		Doors               []pageDoor
		Protected           bool
		Paths               []string
	}{Name: g.opts.Name, Version: g.opts.Version, Base: base, Protected: !open && !g.policy.Anyone()}
	p.Doors = append(p.Doors, pageDoor{base + MCPPath, "Streamable HTTP"})
	if s := now.all.backend; s.Sessions != nil {
		p.Doors = append(p.Doors, pageDoor{base + SSEPath, "HTTP+SSE, for older clients"})
	}
	p.Doors = append(p.Doors, pageDoor{"ws" + strings.TrimPrefix(base, "http") + WSPath, "WebSocket"})
	if now.all.backend.Requests != nil {
		p.Doors = append(p.Doors, pageDoor{base + CallPath, "tool calls over plain HTTP: POST " + CallPath + "/TOOL"})
	}
	if !p.Protected && !g.opts.Single {
		nobody := dragoman.CallerOf(r.Context())
		for _, e := range slices.Concat(slices.Collect(maps.Values(now.servers)), slices.Collect(maps.Values(now.groups))) {
			if now.shows(e, nobody) {
				p.Paths = append(p.Paths, base+e.path)
			}
		}
		slices.Sort(p.Paths)
	}
	var b strings.Builder
	if err := page.Execute(&b, &p); err != nil {
		g.log.Error("a page cannot be made", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pageSecurity)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	_, _ = w.Write([]byte(b.String())) // who asked may have left
}
