package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/proc"
)

// Paths that tell about the gateway.
const (
	HealthPath = "/healthz" // we are there
	ReadyPath  = "/readyz"  // we take requests
	StatusPath = "/status"  // who is behind us, and how they are
)

// A Status says how the gateway is. All of it is for the owner alone: see Public.
type Status struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Began    time.Time         `json:"began"`
	Draining bool              `json:"draining"`
	Servers  []upstream.Status `json:"servers"` // also those that are left out because of errors

	PID      int      `json:"pid,omitempty"`
	Files    []string `json:"files,omitempty"`    // of the configuration
	Sessions int      `json:"sessions,omitempty"` // of clients, and conversations on sockets and streams
	Calls    int64    `json:"calls,omitempty"`    // that were passed to servers
	Memory   int64    `json:"memory,omitempty"`   // that we have ourselves

	Owner     *Owner `json:"owner,omitempty"`     // nil without rules
	WithoutID int64  `json:"withoutId,omitempty"` // requests that were refused because they lacked an id

	Groups []Grouped `json:"groups,omitempty"`
	Reload *Reloaded `json:"reload,omitempty"` // the last one
	Later  []string  `json:"later,omitempty"`  // keys of the file that take effect when we are restarted

	StateFailure *StateFailure `json:"stateFailure,omitempty"` // while it lasts
	Audit        any           `json:"audit,omitempty"`        // the state of the audit log, as its observer reports it
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
	p := Status{Name: s.Name, Version: s.Version, Began: s.Began, Draining: s.Draining, Servers: []upstream.Status{}}
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
	s := Status{Name: g.opts.Name, Version: g.opts.Version, Began: g.began, Draining: g.draining.Load(), Servers: []upstream.Status{}, StateFailure: g.disk.failure()}
	s.PID, s.Files, s.Sessions, s.Memory = os.Getpid(), g.opts.Files, g.admission.Sessions(), proc.OwnMemory()
	if g.opts.AuditStatus != nil {
		s.Audit = g.opts.AuditStatus()
	}
	s.WithoutID = g.admission.WithoutID()
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
	c := auth.Self()
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
func (g *Gateway) inOrder(list []upstream.Status) (all []upstream.Status) {
	for _, name := range g.file.Broken {
		if fault, ok := g.file.Fault(name); ok {
			s := upstream.Status{Name: name, State: upstream.Stopped, Broken: true, LastError: fault, Since: g.began}
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
	slices.SortStableFunc(list, func(a, b upstream.Status) int { return order[a.Name] - order[b.Name] })
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
	if strings.HasPrefix(path, auth.MetadataPath) && !g.policy.Anyone() {
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
		if s.State == upstream.Disabled {
			continue
		}
		enabled++
		switch s.State {
		case upstream.Ready, upstream.Degraded, upstream.Idle:
			available++
		case upstream.Starting:
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
