package manager

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
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

// passedOf returns what of a caller is passed on, or nil.
func (u *Upstream) passedOf(caller *dragoman.Caller) *passed {
	c, h := u.conf.Load(), http.Header(caller.Header)
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
