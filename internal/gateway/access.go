package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"net"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/policy"
)

// accessOf reads who may come in by a configuration.
func accessOf(file *config.File) (*policy.Options, error) {
	a := &file.Auth
	o := &policy.Options{
		Anyone: !a.Wanted(), Certificates: a.Certificates, URL: a.URL, Audiences: a.Audiences, Scopes: a.Scopes,
	}
	tokens, err := listedTokens(a)
	if err != nil {
		return nil, err
	}
	o.Verifiers = append(o.Verifiers, policy.NewTokens(tokens))
	if o.Users, err = userNumbers(a.Users); err != nil {
		return nil, err
	}
	return o, nil
}

// listedTokens returns the tokens that are listed, here and in a file.
func listedTokens(a *config.Auth) (list []policy.Token, err error) {
	for i, secret := range a.Tokens {
		t, err := policy.Named(strconv.Itoa(i+1), secret)
		if err != nil {
			return nil, fmt.Errorf("auth.tokens[%d]: %w", i, err)
		}
		list = append(list, t)
	}
	if a.TokenFile == "" {
		return list, nil
	}
	more, err := policy.ReadTokens(a.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("auth.tokenFile: %w", err)
	}
	return append(list, more...), nil
}

// userNumbers returns the numbers of users of this machine.
func userNumbers(names []string) (list []int, err error) {
	for _, name := range names {
		if u, err := user.Lookup(name); err == nil {
			name = u.Uid
		}
		uid, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("auth.users: there is no user %q on this machine", name)
		}
		list = append(list, uid)
	}
	return list, nil
}

// letIn returns a request with its caller, or answers it.
func (g *Gateway) letIn(w http.ResponseWriter, r *http.Request, open bool) (*http.Request, bool) {
	find := g.policy.Caller
	if open {
		find = httpx.ByAddress
	}
	c, err := find(r)
	if err == nil {
		c.Passed = g.passed(r)
		return r.WithContext(dragoman.WithCaller(r.Context(), c)), true
	}
	refuse(w, err)
	return nil, false
}

// caller returns who makes a request that letIn has let in. If nobody has to prove who
// they are, it need not have.
func (g *Gateway) caller(r *http.Request) (*dragoman.Caller, error) {
	if c := dragoman.CallerOf(r.Context()); c.Header != nil {
		return c, nil
	}
	if !g.policy.Anyone() {
		return nil, httpx.Refuse(http.StatusUnauthorized, "nobody has been let in") // every request comes by Handler
	}
	c, err := httpx.ByAddress(r)
	if err == nil {
		c.Passed = g.passed(r)
	}
	return c, err
}

// SocketCaller returns who is on the other side of a socket that carries messages
// without HTTP, or why that one is hung up on.
func (g *Gateway) SocketCaller(c net.Conn) (*dragoman.Caller, error) { return g.policy.SocketCaller(c) }

// Acceptor returns what takes conversations on plain streams. Those on standard input and
// output are with whoever has started this process.
func (g *Gateway) Acceptor() dragoman.Acceptor { return lines{g} }

type lines struct{ g *Gateway }

// Accept implements dragoman.Acceptor.
func (l lines) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	if !l.g.policy.Anyone() && dragoman.CallerOf(ctx).Principal == "" {
		ctx = dragoman.WithCaller(ctx, policy.Self())
	}
	return l.g.Backend().Acceptor.Accept(ctx, client)
}

// passed returns what identifies the headers of a request that some server has passed on,
// without showing them: they make a difference between two callers.
func (g *Gateway) passed(r *http.Request) string {
	var sum hash.Hash
	for _, name := range g.now.Load().passes {
		if values := r.Header.Values(name); len(values) > 0 {
			if sum == nil {
				sum = sha256.New()
			}
			fmt.Fprintf(sum, "%q=%q;", name, strings.Join(values, ", "))
		}
	}
	if sum == nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
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
