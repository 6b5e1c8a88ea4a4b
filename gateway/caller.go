package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
)

// caller tells who makes a request: everything that is kept for somebody is bound to
// that. What of its headers some server has passed on makes a difference.
func (g *Gateway) caller(r *http.Request) (*dragoman.Caller, error) {
	c, err := httpx.Address(r)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, up := range g.manager.Upstreams() {
		conf := up.Config()
		for name := range conf.PassHeaders {
			names[http.CanonicalHeaderKey(name)] = true
		}
		for name := range conf.PassEnv {
			names[http.CanonicalHeaderKey(name)] = true
		}
	}
	sum, passes := sha256.New(), false
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if values := r.Header.Values(name); len(values) > 0 {
			passes = true
			fmt.Fprintf(sum, "%q=%q;", name, strings.Join(values, ", "))
		}
	}
	if passes {
		c.Passed = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return c, nil
}
