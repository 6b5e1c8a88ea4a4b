package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/audit"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/policy"
	"github.com/dragoman-mcp/dragoman/internal/procmem"
)

// Paths that tell about the gateway.
const (
	HealthPath = "/healthz" // we are there
	ReadyPath  = "/readyz"  // we take requests
	StatusPath = "/status"  // who is behind us, and how they are
)

// A Status says how the gateway is. All of it is for the owner alone: see Public.
type Status struct {
	Name     string           `json:"name"`
	Version  string           `json:"version"`
	Began    time.Time        `json:"began"`
	Draining bool             `json:"draining"`
	Servers  []manager.Status `json:"servers"` // also those that are left out because of errors

	PID      int      `json:"pid,omitempty"`
	Files    []string `json:"files,omitempty"`    // of the configuration
	Sessions int      `json:"sessions,omitempty"` // of clients, and conversations on sockets and streams
	Calls    int64    `json:"calls,omitempty"`    // that were passed to servers
	Memory   int64    `json:"memory,omitempty"`   // that we have ourselves

	Owner *Owner `json:"owner,omitempty"` // nil without rules

	Groups []Grouped `json:"groups,omitempty"`
	Reload *Reloaded `json:"reload,omitempty"` // the last one
	Later  []string  `json:"later,omitempty"`  // keys of the file that take effect when we are restarted

	StateFailure *StateFailure `json:"stateFailure,omitempty"` // while it lasts
	Audit        *audit.Status `json:"audit,omitempty"`
}

// An Owner is the caller of the control socket, with what the rules allow it.
type Owner struct {
	Principal string   `json:"principal"`
	Denied    []string `json:"denied,omitempty"` // servers of which the rules allow it nothing
}

// Public returns what of it a caller may know: names and states of the servers that there
// are for it. How servers are run, what they said and what is wrong with files and disks
// is not in it.
func (s *Status) Public(shown func(server string) bool) Status {
	p := Status{Name: s.Name, Version: s.Version, Began: s.Began, Draining: s.Draining, Servers: []manager.Status{}}
	for i := range s.Servers {
		if shown(s.Servers[i].Name) && !s.Servers[i].Broken {
			p.Servers = append(p.Servers, s.Servers[i].Public())
		}
	}
	for _, g := range s.Groups {
		g.Servers = slices.DeleteFunc(slices.Clone(g.Servers), func(name string) bool { return !shown(name) })
		if len(g.Servers) > 0 {
			p.Groups = append(p.Groups, g)
		}
	}
	if s.Reload != nil {
		p.Reload = &Reloaded{At: s.Reload.At, Failed: s.Reload.Failed}
	}
	if s.StateFailure != nil {
		p.StateFailure = &StateFailure{Since: s.StateFailure.Since}
	}
	return p
}

// A Grouped is a group of servers.
type Grouped struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`
	Servers []string `json:"servers"`
}

// Status returns how the gateway is, for its owner. It shows no secrets.
func (g *Gateway) Status() Status {
	s := Status{Name: g.opts.Name, Version: g.opts.Version, Began: g.began, Draining: g.draining.Load(), Servers: []manager.Status{}, StateFailure: g.disk.failure(), Audit: g.audit.Status()}
	s.PID, s.Files, s.Sessions, s.Memory = os.Getpid(), g.opts.Files, g.entrance.all.Used(), procmem.Own()
	list := g.manager.Statuses()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range list {
		s.Calls += list[i].Calls
	}
	s.Servers = append(s.Servers, g.inOrder(list)...)
	for name, e := range g.groups {
		s.Groups = append(s.Groups, Grouped{name, e.mcp, g.file.Groups[name].Servers})
	}
	slices.SortFunc(s.Groups, func(a, b Grouped) int { return strings.Compare(a.Name, b.Name) })
	s.Later = g.needsRestart(g.file)
	if len(g.file.Rules) > 0 {
		s.Owner = g.owner(g.file.All())
	}
	if !g.last.At.IsZero() {
		last := g.last
		s.Reload = &last
	}
	return s
}

// owner returns the caller of the control socket, with what the rules allow it of servers.
func (g *Gateway) owner(servers []string) *Owner {
	c := policy.Self()
	o := &Owner{Principal: c.Principal}
	for _, name := range servers {
		if !g.now.Load().rules.Load().Any(c, name) {
			o.Denied = append(o.Denied, name)
		}
	}
	return o
}

// inOrder returns how servers are in the order of the configuration, with those that it
// names and that have errors. g.mu is locked.
func (g *Gateway) inOrder(list []manager.Status) (all []manager.Status) {
	for _, name := range g.file.Broken {
		if fault, ok := g.file.Fault(name); ok {
			s := manager.Status{Name: name, State: manager.Stopped, Broken: true, LastError: fault, Since: g.began}
			if r := &g.last; !r.At.IsZero() {
				s.Since = r.At
			}
			list = append(list, s)
		}
	}
	order := make(map[string]int, len(list))
	for i, name := range g.file.All() {
		order[name] = i
	}
	slices.SortStableFunc(list, func(a, b manager.Status) int { return order[a.Name] - order[b.Name] })
	return list
}

// public returns who answers at a path that tells about the gateway, or nil.
func (g *Gateway) public(path string) http.HandlerFunc {
	switch path {
	case HealthPath:
		return plain(http.StatusOK, "ok\n")
	case ReadyPath:
		if reason := g.unready(); reason != "" {
			return plain(http.StatusServiceUnavailable, reason+"\n")
		}
		return plain(http.StatusOK, "ready\n")
	}
	if strings.HasPrefix(path, policy.MetadataPath) && !g.policy.Anyone() {
		return g.policy.Metadata
	}
	if f := g.front.Load(); f != nil {
		return f.At(path)
	}
	return nil
}

// unready returns why the gateway is not ready for requests, or "". It is public, and names no server.
func (g *Gateway) unready() string {
	if g.draining.Load() {
		return "draining"
	}
	g.mu.Lock()
	wanted, broken := g.file.Readyz, len(g.file.Broken)
	g.mu.Unlock()
	var enabled, available, starting int
	for _, up := range g.manager.Upstreams() {
		s := up.Status()
		if s.State == manager.Disabled {
			continue
		}
		enabled++
		switch s.State {
		case manager.Ready, manager.Degraded, manager.Idle:
			available++
		case manager.Starting:
			if s.LastErrorAt == nil { // else it has failed, and is tried again
				starting++
			}
		}
	}
	switch {
	case wanted == "all" && available < enabled+broken:
		return fmt.Sprintf("%d of %d servers are not ready", enabled+broken-available, enabled+broken)
	case enabled > 0 && starting == enabled:
		return fmt.Sprintf("starting: 0 of %d servers are ready", enabled)
	}
	return ""
}

func (g *Gateway) serveStatus(w http.ResponseWriter, r *http.Request) {
	if reads(w, r) {
		s := g.Status()
		set, who := g.rules.Load(), dragoman.CallerOf(r.Context())
		answer(w, s.Public(func(server string) bool { return set.Any(who, server) }))
	}
}

func plain(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !reads(w, r) {
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // who asked has left
	}
}

// reads reports whether a request only wants to know.
func reads(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "use GET", http.StatusMethodNotAllowed)
	return false
}

// answer writes a value as JSON for people and programs.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // who asked has left
}

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

// A rootPage is what people are told who look at us, and a pageDoor a door of it.
type rootPage struct {
	Name, Version, Base string
	Doors               []pageDoor
	Protected           bool
	Paths               []string
}

type pageDoor struct{ URL, What string }

// What a person uses to look at us.
const (
	withBrowser  = "text/html"
	withTerminal = "text/plain"
)

// wantsPage returns what a person looks at us with, or "" if it is a program. What people use in a terminal
// takes anything, and says so. Clients of MCP that have come to the wrong place get an
// error: they name event streams, JSON or the protocol of a socket, or nothing.
func wantsPage(r *http.Request) string {
	if r.URL.Path != "/" || r.Method != http.MethodGet && r.Method != http.MethodHead {
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

// servePage tells a person what is here, with what it is looked at.
func (g *Gateway) servePage(w http.ResponseWriter, r *http.Request, with string, open bool) {
	p := g.rootPage(r, open)
	var b strings.Builder
	h := w.Header()
	if with == withTerminal {
		p.print(&b)
	} else {
		if err := page.Execute(&b, p); err != nil {
			g.log.Error("a page cannot be made", "error", err)
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		h.Set("Content-Security-Policy", pageSecurity)
	}
	h.Set("Content-Type", with+"; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	_, _ = w.Write([]byte(b.String())) // who asked may have left
}

// rootPage returns what a person is told. Who has to prove who they are to see servers is
// not told of them.
func (g *Gateway) rootPage(r *http.Request, open bool) *rootPage {
	base := httpx.Scheme(r) + "://" + r.Host
	now := g.now.Load()
	p := &rootPage{Name: g.opts.Name, Version: g.opts.Version, Base: base, Protected: !open && !g.policy.Anyone()}
	p.Doors = append(p.Doors, pageDoor{base + MCPPath, "Streamable HTTP"})
	if s := now.all.backend; s.Sessions != nil {
		p.Doors = append(p.Doors, pageDoor{base + SSEPath, "HTTP+SSE, for older clients"})
	}
	p.Doors = append(p.Doors, pageDoor{"ws" + strings.TrimPrefix(base, "http") + WSPath, "WebSocket"})
	if now.all.backend.Requests != nil {
		p.Doors = append(p.Doors, pageDoor{base + CallPath, "tool calls over plain HTTP: POST " + CallPath + "/TOOL"})
	}
	if p.Protected || g.opts.Single {
		return p
	}
	nobody := dragoman.CallerOf(r.Context())
	for _, e := range slices.Concat(slices.Collect(maps.Values(now.servers)), slices.Collect(maps.Values(now.groups))) {
		if now.shows(e, nobody) {
			p.Paths = append(p.Paths, base+e.path)
		}
	}
	slices.Sort(p.Paths)
	return p
}

// print writes the page as text.
func (p *rootPage) print(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s, a server for programs that speak MCP. Give your client one of these addresses:\n\n", p.Name, p.Version)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, d := range p.Doors {
		fmt.Fprintf(t, "  %s\t%s\n", d.URL, d.What)
	}
	_ = t.Flush() // a Builder takes everything
	if p.Protected {
		b.WriteString("\nClients have to prove who they are. What is served here, they see once they have.\n")
	}
	if len(p.Paths) > 0 {
		fmt.Fprintf(b, "\nThe same is below each of these:\n\n  %s\n", strings.Join(p.Paths, "\n  "))
	}
	fmt.Fprintf(b, "\nHow it is: %s, %s and %s.\n", p.Base+HealthPath, p.Base+ReadyPath, p.Base+StatusPath)
}
