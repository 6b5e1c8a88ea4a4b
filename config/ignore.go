package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// An ignored is a key of a host's file that means nothing to us.
type ignored struct {
	at    place
	key   string
	why   string // empty if it is not known at all
	top   bool   // it stands beside the servers
	times int
}

// ignore notes a key. Each is named once, however often it stands there.
func (r *reader) ignore(m member, server string, sp *spelling) {
	top := server == ""
	id := fmt.Sprint(top, m.key)
	if i, ok := r.indexOf[id]; ok {
		r.ignored[i].times++
		return
	}
	if r.indexOf == nil {
		r.indexOf = map[string]int{}
	}
	r.indexOf[id] = len(r.ignored)
	g := ignored{at: m.at, key: m.key, top: top, times: 1}
	if sp != nil {
		g.why = sp.doc
	}
	r.ignored = append(r.ignored, g)
}

// nameIgnored reports what was ignored: what stands beside the servers in one
// warning, as a host's settings may be many.
func (r *reader) nameIgnored() {
	const shown = 8
	known := slices.Concat(serverObject.names(), sorted(r.spellings))
	beside := append(fileObject.names(), r.host.root)
	var top []string
	var at place
	for _, g := range r.ignored {
		hint := g.why
		switch {
		case !g.top && hint == "":
			hint = didYouMean(g.key, known)
		case g.top && r.host.ours:
			hint = didYouMean(g.key, beside)
		}
		if !g.top || hint != "" {
			message := fmt.Sprintf("%q means nothing here and is ignored", clip(g.key))
			if g.times > 1 {
				message += fmt.Sprintf(" (it stands here %d times)", g.times)
			}
			r.warn(g.at, message, hint)
			continue
		}
		if top == nil {
			at = g.at
		}
		top = append(top, clip(g.key))
	}
	switch {
	case len(top) > shown:
		r.warn(at, fmt.Sprintf("ignored, because it is not about servers: %s and %d more", strings.Join(top[:shown], ", "), len(top)-shown), "")
	case top != nil:
		r.warn(at, "ignored, because it is not about servers: "+strings.Join(top, ", "), "")
	}
}

// checkAllowed turns off the servers that a file of Gemini CLI names elsewhere.
func (r *reader) checkAllowed(f *File) {
	if r.host != hostGemini {
		return
	}
	list := func(name string) (names []string) {
		if n := r.src.root.get("mcp").get(name); n != nil {
			r.read(reflect.ValueOf(&names).Elem(), key{}, n, "mcp."+name)
		}
		return names
	}
	allowed, excluded := list("allowed"), list("excluded")
	for name, s := range f.Servers {
		if len(allowed) > 0 && !slices.Contains(allowed, name) || slices.Contains(excluded, name) {
			s.Disabled = true
		}
	}
}
