package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/manager"
)

// caller tells who makes a request: everything that is kept for somebody is bound to
// that. What of its headers some server has passed on makes a difference. A request is
// refused here already if it is sure that it would be later.
func (g *Gateway) caller(r *http.Request) (*dragoman.Caller, error) {
	c, err := httpx.ByAddress(r)
	if err != nil {
		return nil, err
	}
	var sum hash.Hash
	for _, name := range g.now.Load().passes {
		if values := r.Header.Values(name); len(values) > 0 {
			if sum == nil {
				sum = sha256.New()
			}
			fmt.Fprintf(sum, "%q=%q;", name, strings.Join(values, ", "))
		}
	}
	if sum != nil {
		c.Passed = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return c, g.entrance.check(r, c)
}

// passes returns the names of headers that some server has passed on.
func passes(ups []*manager.Upstream) []string {
	names := make(map[string]bool)
	for _, up := range ups {
		conf := up.Config()
		for _, pass := range []map[string]string{conf.PassHeaders, conf.PassEnv} {
			for name := range pass {
				names[http.CanonicalHeaderKey(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
