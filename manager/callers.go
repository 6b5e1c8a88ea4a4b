package manager

import (
	"container/list"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/target"
)

// passed is what a caller has passed on to a server: values by the server's names
// of headers or variables. It is never shown.
type passed struct {
	digest string
	env    bool // variables, not headers
	values map[string]string
}

// addTo adds the values to a server's. Nil adds nothing.
func (p *passed) addTo(spec *target.Spec) {
	if p == nil {
		return
	}
	for name, value := range p.values {
		switch {
		case p.env:
			spec.Env = append(spec.Env, name+"="+value)
		default:
			if spec.Header == nil {
				spec.Header = make(http.Header)
			}
			spec.Header.Set(name, value)
		}
	}
}

// callers remembers what each caller passes on. The one who has not called for the
// longest time is forgotten first.
type callers struct {
	mu    sync.Mutex
	known map[string]*list.Element // of order
	order list.List                // of remembered, the last to call first
}

type remembered struct {
	key    string
	passed *passed
}

// mark stands in the key of a caller who passes something on.
const mark = "#passes-"

// Caller returns the key under which a caller is known to this upstream, and
// remembers what of the request's headers is passed on to the server for that key.
// It is for the doors: what it returns is who calls, see [dragoman.WithCaller].
func (u *Upstream) Caller(identity string, h http.Header) string {
	p := u.passedOf(h)
	if p == nil {
		return identity
	}
	key := identity + mark + p.digest
	u.callers.put(key, p)
	return key
}

// Remember is Caller for a door that serves several upstreams and has keys of its
// own. Under one key the same headers must come.
func (u *Upstream) Remember(key string, h http.Header) {
	if p := u.passedOf(h); p != nil {
		u.callers.put(key, p)
	}
}

// passedOf returns what of the headers is passed on, or nil.
func (u *Upstream) passedOf(h http.Header) *passed {
	c := u.conf.Load()
	p := &passed{env: c.Command != "", values: make(map[string]string)}
	names := c.PassHeaders
	if p.env {
		names = c.PassEnv
	}
	for theirs, ours := range names {
		if values := h.Values(theirs); len(values) > 0 {
			p.values[ours] = strings.Join(values, ", ")
		}
	}
	if len(p.values) == 0 {
		return nil
	}
	sum := hmac.New(sha256.New, u.manager.salt)
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		fmt.Fprintf(sum, "%q=%q;", name, p.values[name])
	}
	p.digest = hex.EncodeToString(sum.Sum(nil)[:16])
	return p
}

func (c *callers) put(key string, p *passed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.known[key]; e != nil {
		c.order.MoveToFront(e)
		e.Value = remembered{key, p}
		return
	}
	if c.known == nil {
		c.known = make(map[string]*list.Element)
	}
	c.known[key] = c.order.PushFront(remembered{key, p})
	if len(c.known) > MaxCallers {
		oldest := c.order.Remove(c.order.Back()).(remembered)
		delete(c.known, oldest.key)
	}
}

func (c *callers) find(key string) *passed {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(remembered).passed
}
