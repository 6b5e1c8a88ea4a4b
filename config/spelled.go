package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A spelled is a key of a host's file that is being read.
type spelled struct {
	*reader
	server *Server
	member member
	path   string // of the server

	sse bool // the server has a url that means HTTP+SSE
}

// readSpelled reads a server of a host's file: by the host's spelling, and else by
// ours. Keys that are neither are named and ignored.
func (r *reader) readSpelled(s *Server, n *node, path string) {
	h := &spelled{reader: r, server: s, path: path}
	for _, m := range n.members {
		h.member = m
		sp, known := r.spellings[m.key]
		k, own := serverObject.find(m.key)
		switch {
		case m.value.kind == null:
		case known && sp.take != nil:
			sp.take(h)
		case known:
			r.ignore(m, path, &sp)
		case own:
			r.readKey(reflect.ValueOf(s).Elem(), k, m, path)
		default:
			r.ignore(m, path, nil)
		}
	}
	if h.sse && s.Transport == "" && r.host.urlIsSSE && !n.has("httpUrl") {
		s.Transport = SSE
	}
}

// as reads a key as one of ours.
func as(name string) func(*spelled) {
	return func(h *spelled) { h.own(name, h.member) }
}

func (h *spelled) own(name string, m member) {
	k, _ := serverObject.find(name)
	h.readKey(reflect.ValueOf(h.server).Elem(), k, m, h.path)
}

// command takes what some hosts write in one key: a list, or a mapping.
func (h *spelled) command() {
	n := h.member.value
	switch n.kind {
	case list:
		if len(n.items) == 0 {
			h.fail(n.at, h.path+".command is an empty list", "")
			return
		}
		h.own("command", member{at: n.items[0].at, value: n.items[0]})
		h.own("args", member{at: n.at, value: &node{kind: list, items: n.items[1:], at: n.at}})
	case table:
		for ours, theirs := range map[string]string{"command": "path", "args": "args", "env": "env"} {
			if v := n.get(theirs); v != nil {
				h.own(ours, member{at: v.at, value: v})
			}
		}
	default:
		h.own("command", h.member)
	}
}

func (h *spelled) env() {
	n := *h.member.value
	n.members = slices.DeleteFunc(slices.Clone(n.members), func(m member) bool { return m.value.kind == null })
	h.own("env", member{at: h.member.at, value: &n})
}

// envVars takes names, or mappings with a name.
func (h *spelled) envVars() {
	n := *h.member.value
	n.items = slices.Clone(n.items)
	for i, item := range n.items {
		if name := item.get("name"); name != nil {
			n.items[i] = name
		}
	}
	h.own("inherit", member{at: h.member.at, value: &n})
}

func (h *spelled) inheritAll() {
	if h.truth(h.member.value, h.path+"."+h.member.key) {
		h.server.Inherit = append(h.server.Inherit, "*")
	}
}

func (h *spelled) transport() {
	h.own("transport", h.member)
	if h.server.Transport == HTTP && h.host.httpIsAuto {
		h.server.Transport = Auto
	}
}

func (h *spelled) url() {
	if h.server.URL == "" {
		h.own("url", h.member)
		h.sse = true
	}
}

func (h *spelled) httpURL() {
	h.own("url", h.member)
	if h.server.Transport == "" {
		h.server.Transport = HTTP
	}
}

func (h *spelled) headers() {
	had := h.server.Headers
	h.own("headers", h.member)
	for name, value := range had {
		h.header(name, value)
	}
}

func (h *spelled) header(name, value string) {
	if h.server.Headers == nil {
		h.server.Headers = map[string]string{}
	}
	if _, given := h.server.Headers[name]; !given {
		h.server.Headers[name] = value
	}
}

// variableOf returns the variable whose name is a value.
func (h *spelled) variableOf(n *node) (string, bool) {
	value, message, hint := "", "the name of a variable is expected", ""
	if n.scalar() {
		value, message, _ = h.variable(n.text, n.text, "", false)
		hint = "set it"
	}
	if message != "" {
		h.fail(n.at, message, hint)
	}
	return value, message == ""
}

func (h *spelled) envHeaders() {
	n := h.member.value
	if n.kind != table {
		h.expect(n, h.path+"."+h.member.key, "a mapping")
	}
	for _, m := range n.members {
		if value, ok := h.variableOf(m.value); ok {
			h.mark(h.path+".headers."+m.key, m.at, m.value)
			h.header(m.key, value)
		}
	}
}

func (h *spelled) bearer() {
	if value, ok := h.variableOf(h.member.value); ok {
		h.mark(h.path+".headers.Authorization", h.member.at, h.member.value)
		h.header("Authorization", "Bearer "+value)
	}
}

// timeIn reads a time. A number is in unit, or in the host's if that is zero.
func timeIn(name string, unit time.Duration) func(*spelled) {
	return func(h *spelled) {
		d := h.time(cmp.Or(unit, h.host.unit))
		switch name {
		case "timeout":
			h.server.Timeout = d
		case "connectTimeout":
			h.server.ConnectTimeout = d
		default:
			h.server.Retry.Min = d
		}
	}
}

// time reads a time in unit, or with a unit of its own. It warns where the unit
// looks wrong.
func (h *spelled) time(unit time.Duration) time.Duration {
	m, where := h.member, h.path+"."+h.member.key
	h.mark(where, m.at, m.value)
	s, ok := h.text(m.value, where)
	if !ok {
		return 0
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		d, message, hint := parseDuration(s)
		h.bad(m.value, where, message, hint)
		return d
	}
	if n < 0 || n > 1e12 {
		h.bad(m.value, where, "is out of range", "")
		return 0
	}
	switch {
	case unit == time.Millisecond && n > 0 && n < 1000 && m.key != "retryInterval":
		h.warn(m.value.at, fmt.Sprintf("%s: %s is in milliseconds here, less than a second", where, show(m.value)), fmt.Sprintf("if seconds are meant, write %g", n*1000))
	case unit == time.Second && n >= 10_000:
		h.warn(m.value.at, fmt.Sprintf("%s: %s is in seconds here, more than two hours", where, show(m.value)), fmt.Sprintf("if milliseconds are meant, write %g", n/1000))
	}
	return time.Duration(n * float64(unit))
}

func (h *spelled) maxRestarts() {
	h.server.Restart.Max = h.count(h.member.value, h.path+"."+h.member.key)
}

func (h *spelled) enabled() {
	h.server.Disabled = !h.truth(h.member.value, h.path+"."+h.member.key)
}

// tools is a list with some hosts and a mapping with us.
func (h *spelled) tools() {
	if h.member.value.kind == list {
		h.include()
		return
	}
	h.own("tools", h.member)
}

func (h *spelled) include() {
	list := h.names()
	switch {
	case slices.Contains(list, "*"):
	case len(list) == 0:
		h.server.Tools.Exclude = append(h.server.Tools.Exclude, "*") // an empty list offers nothing
	default:
		h.server.Tools.Include = append(h.server.Tools.Include, list...)
	}
}

func (h *spelled) exclude() { h.server.Tools.Exclude = append(h.server.Tools.Exclude, h.names()...) }

func (h *spelled) names() (list []string) {
	h.read(reflect.ValueOf(&list).Elem(), key{}, h.member.value, h.path+"."+h.member.key)
	return list
}

func (h *spelled) describe() {
	h.read(reflect.ValueOf(&h.server.Tools.Describe).Elem(), key{}, h.member.value, h.path+"."+h.member.key)
}

// revision reads the era, or a revision of it.
func (h *spelled) revision() {
	for _, r := range protocol.Revisions() {
		if r.String() == h.member.value.text {
			h.server.Era = r.Era().String()
			return
		}
	}
	h.own("era", h.member)
}
