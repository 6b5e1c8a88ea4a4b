package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// MaxName is how long the name of a server or a group may be.
const MaxName = 64

var goodName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// readRoot reads a whole file.
func (r *reader) readRoot(f *File) {
	found := recognise(r.src)
	v := reflect.ValueOf(f).Elem()
	if found == nil {
		r.readOwn(f, v)
		return
	}
	r.host, r.inputs = found.host, found.inputs
	for _, m := range r.src.root.members {
		k, own := fileObject.find(m.key)
		switch {
		case found.bare:
			// All of them are servers.
		case m.key == found.key || m.value == found.inputs:
		case m.key == "mcp" && r.host == hostGemini:
		case m.key == "servers" && found.host.ours:
			r.host = ours
			r.readServers(f, m.value, "servers")
			r.host = found.host
		case own && found.host.ours:
			r.readKey(v, k, m, "")
		case m.key == "$schema" || strings.HasPrefix(m.key, "x-"):
		default:
			r.ignore(m, "", nil)
		}
	}
	r.readServers(f, found.servers, found.where)
	r.checkAllowed(f)
}

// readOwn reads a file of our own format.
func (r *reader) readOwn(f *File, v reflect.Value) {
	for _, m := range r.src.root.members {
		k, ok := fileObject.find(m.key)
		switch {
		case m.key == "servers":
			r.mark("servers", m.at, m.value)
			r.readServers(f, m.value, "servers")
		case ok:
			r.readKey(v, k, m, "")
		case m.key == "$schema" || strings.HasPrefix(m.key, "x-"):
			// For editors, and for what aliases refer to.
		default:
			r.unknown(m, "", &fileObject)
		}
	}
}

// readServers reads a mapping of servers. where is its path, for errors.
func (r *reader) readServers(f *File, n *node, where string) {
	if n.kind == null {
		return
	}
	if n.kind != table {
		r.expect(n, where, "a mapping from names to servers")
		return
	}
	if f.Servers == nil {
		f.Servers = map[string]*Server{}
	}
	for _, m := range n.members {
		name, ok := r.serverName(m, f)
		if !ok {
			continue
		}
		path := join("servers", name)
		if old, twice := r.spots[path]; twice && r.seen[name] {
			r.warn(m.at, fmt.Sprintf("the server %q takes the place of the one in %s, line %d", name, old.src.name, old.at.line), "")
		}
		r.seen[name], r.server = true, name
		delete(r.broken, name)
		if m.value.repeats() || slices.ContainsFunc(n.dropped, func(d member) bool { return d.key == m.key }) {
			r.broken[name] = true // as has been reported
		}
		r.spots[path] = spot{r.src, m.at, m.value}
		r.here = map[string]spot{path: r.spots[path]}
		s := &Server{Name: name}
		switch {
		case m.value.kind != table:
			r.expect(m.value, path, "a mapping with a command or a url")
		case r.host == ours:
			r.readTable(reflect.ValueOf(s).Elem(), m.value, path)
		default:
			r.readSpelled(s, m.value, path)
		}
		if m.value.kind == table {
			r.checkServer(s, path)
		}
		r.server = ""
		if f.Servers[name] == nil {
			f.Names = append(f.Names, name)
		}
		f.Servers[name] = s
	}
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// serverName checks a name. Hosts allow more characters than we do.
func (r *reader) serverName(m member, f *File) (string, bool) {
	if goodName.MatchString(m.key) {
		return m.key, true
	}
	name := strings.Trim(notInName.ReplaceAllString(m.key, "-"), "-")
	switch {
	case r.host == ours || !goodName.MatchString(name):
		r.fail(m.at, fmt.Sprintf("%q cannot be the name of a server", clip(m.key)), "use 1 to 64 of the characters A-Z a-z 0-9 _ . -")
		return "", false
	case f.Servers[name] != nil:
		r.fail(m.at, fmt.Sprintf("%q would be called %q here, as another server is", clip(m.key), name), "rename one of them")
		return "", false
	}
	r.warn(m.at, fmt.Sprintf("%q is called %q here", clip(m.key), name), "")
	return name, true
}
