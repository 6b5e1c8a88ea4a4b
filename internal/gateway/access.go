package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os/user"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// access is who may come in, as a configuration says.
type access struct {
	*auth.Options
	auth    config.Auth
	claims  []string        // that rules go by
	issuers []auth.Verifier // of tokens that somebody else has made
	names   []string        // of these issuers
	closers []func()        // of these
	front   *front          // where users sign in by us; nil if they do not
}

// readAccess reads who may come in by a configuration, in the place of another, which may be
// nil. What would be the same is taken from that.
func (g *Gateway) readAccess(file *config.File, before *access) (*access, error) {
	f, err := g.readFront(file, before)
	if err != nil {
		return nil, err
	}
	a, err := newAccess(file, before, g.log)
	switch {
	case err != nil && f != nil && (before == nil || f != before.front):
		f.Close()
		return nil, err
	case err != nil:
		return nil, err
	case f != nil:
		a.front = f
		a.Verifiers, a.Issuers = append(a.Verifiers, f.Verifier()), slices.Concat(a.names, []string{f.Issuer()})
	}
	return a, nil
}

// CheckAccess returns what is wrong with the credentials that a configuration names: files that cannot be
// read, and the like. No issuer is asked.
func CheckAccess(file *config.File) error {
	a, err := newAccess(file, nil, slog.New(slog.DiscardHandler))
	if err == nil {
		a.close()
	}
	return err
}

// newAccess reads who may come in by a configuration. What asks issuers is taken from the
// one before, with all that it knows, if it would be the same.
func newAccess(file *config.File, before *access, log *slog.Logger) (*access, error) {
	a := &access{auth: file.Auth, Options: &auth.Options{
		Anyone: !file.Auth.Wanted(), Certificates: file.Auth.Certificates,
		URL: file.Auth.URL, Audiences: file.Auth.Audiences, Scopes: file.Auth.Scopes,
	}}
	tokens, err := listedTokens(&a.auth)
	if err != nil {
		return nil, err
	}
	if a.Users, err = userNumbers(a.auth.Users); err != nil {
		return nil, err
	}
	set, _ := rules.Parse(file.Rules, file.RuleOptions()) // they have been checked
	a.claims = set.Claims()
	if before != nil && slices.Equal(before.claims, a.claims) && reflect.DeepEqual(before.auth.JWT, a.auth.JWT) && reflect.DeepEqual(before.auth.Introspection, a.auth.Introspection) {
		a.issuers, a.closers, a.names = before.issuers, before.closers, before.names
	} else if err := a.askIssuers(log); err != nil {
		a.close()
		return nil, err
	}
	a.Verifiers, a.Issuers = append([]auth.Verifier{auth.NewTokens(tokens)}, a.issuers...), a.names
	return a, nil
}

// askIssuers makes what knows the tokens of others. Signed ones come first: they are no
// business of who is asked about the rest.
func (a *access) askIssuers(log *slog.Logger) error {
	for i, c := range a.auth.JWT {
		o := &auth.JWTOptions{
			ClaimOptions: auth.ClaimOptions{Issuer: c.Issuer, Principal: c.Principal, Groups: c.GroupClaims(), Claims: a.claims, NoAudience: c.AnyAudience, Leeway: c.Leeway},
			Keys:         oidc.KeySetOptions{URL: c.Keys, File: c.KeysFile, MaxAge: c.KeysFor, Logger: log}, Algorithms: c.Algorithms,
		}
		v, err := auth.NewJWT(o)
		if err != nil {
			return fmt.Errorf("auth.jwt[%d]: %w", i, err)
		}
		a.add(v, c.Issuer, v.Close)
	}
	for i, c := range a.auth.Introspection {
		v, err := auth.NewIntrospection(&auth.IntrospectionOptions{
			ClaimOptions: auth.ClaimOptions{Issuer: c.Issuer, Principal: c.Principal, Groups: c.GroupClaims(), Claims: a.claims, NoAudience: c.AnyAudience},
			Endpoint:     c.Endpoint, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
		})
		if err != nil {
			return fmt.Errorf("auth.introspection[%d]: %w", i, err)
		}
		a.add(v, c.Issuer, v.Close)
	}
	return nil
}

func (a *access) add(v auth.Verifier, issuer string, closer func()) {
	a.issuers, a.closers = append(a.issuers, v), append(a.closers, closer)
	if !slices.Contains(a.names, issuer) {
		a.names = append(a.names, issuer)
	}
}

// close ends what asks issuers.
func (a *access) close() {
	for _, f := range a.closers {
		f()
	}
}

// setAccess has another access in force, and ends what only the one before has asked.
// Reloads come one after another.
func (g *Gateway) setAccess(a *access) {
	before := g.access
	g.access = a
	g.policy.Set(a.Options)
	g.front.Store(a.front)
	if !sameVerifiers(before.issuers, a.issuers) {
		before.close()
	}
	if before.front != nil && before.front != a.front {
		before.front.Close()
	}
}

func sameVerifiers(a, b []auth.Verifier) bool {
	return len(a) == len(b) && (len(a) == 0 || a[0] == b[0])
}

// listedTokens returns the tokens that are listed, here and in a file.
func listedTokens(a *config.Auth) (list []auth.Token, err error) {
	for i, secret := range a.Tokens {
		t, err := auth.Named(strconv.Itoa(i+1), secret)
		if err != nil {
			return nil, fmt.Errorf("auth.tokens[%d]: %w", i, err)
		}
		list = append(list, t)
	}
	if a.TokenFile == "" {
		return list, nil
	}
	more, err := auth.ReadTokens(a.TokenFile)
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

// authenticate returns a request with its caller in its context, or why it is refused.
func (g *Gateway) authenticate(r *http.Request, open bool) (*http.Request, *httpserver.Refusal) {
	find := g.policy.Caller
	if open {
		find = httpserver.ByAddress
	}
	c, refusal := httpserver.CallerOf(r, find)
	if refusal != nil {
		g.deny(r, "", "proof", refusal)
		refusal.Log(g.mistakes, r)
		return r, refusal
	}
	c.Passed = g.passed(r)
	return r.WithContext(dragoman.WithCaller(r.Context(), c)), nil
}

// caller returns the caller of a request at an endpoint: the one that authenticate has found, or
// its address if clients need not authenticate. A request is refused here already if it is sure
// that it would be later.
func (g *Gateway) caller(r *http.Request) (*dragoman.Caller, error) {
	if c := dragoman.CallerOf(r.Context()); c.Header != nil {
		return c, g.checkLimits(r, c)
	}
	if !g.policy.Anyone() {
		return nil, httpserver.Refuse(http.StatusUnauthorized, "nobody has been let in") // every request comes by Handler
	}
	c, err := httpserver.ByAddress(r)
	if err != nil {
		return nil, err
	}
	c.Passed = g.passed(r)
	return c, g.checkLimits(r, c)
}

// checkLimits refuses a request early if its body need not be read for that.
func (g *Gateway) checkLimits(r *http.Request, c *dragoman.Caller) error {
	opens := strings.HasSuffix(r.URL.Path, WSPath) || strings.HasSuffix(r.URL.Path, SSEPath)
	return g.admission.Check(r, c, opens)
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
		ctx = dragoman.WithCaller(ctx, auth.Self())
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
func passes(ups []*upstream.Upstream) []string {
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

const (
	// refusalWindow is the time in which at most maxRefusals refused requests are logged:
	// whoever can reach us can have any number refused.
	refusalWindow = time.Minute
	maxRefusals   = 5
)

// refusals bounds what is logged of requests that are refused because of their Host or
// Origin.
type refusals struct {
	mu      sync.Mutex
	began   time.Time // of the window
	logged  int       // in it
	leftOut int       // and not
}

// log logs a request that is refused, unless there were too many.
func (f *refusals) log(log *slog.Logger, r *http.Request, err error) {
	f.mu.Lock()
	now := time.Now()
	var before int
	if now.Sub(f.began) >= refusalWindow {
		before = f.leftOut
		f.began, f.logged, f.leftOut = now, 0, 0
	}
	f.logged++
	tooMany := f.logged > maxRefusals
	if tooMany {
		f.leftOut++
	}
	f.mu.Unlock()
	if before > 0 {
		log.Warn("more requests were refused because of their Host or Origin", "requests", before)
	}
	if tooMany {
		return
	}
	address := r.RemoteAddr
	if c, err := httpserver.ByAddress(r); err == nil {
		address = c.Address
	}
	reason := err.Error()
	if refusal, ok := errors.AsType[*httpserver.Refusal](err); ok {
		reason = refusal.Message
	}
	log.Warn("request refused", "reason", redact.Clip(reason), "client", address, "method", redact.Clip(r.Method), "path", redact.Clip(r.URL.Path))
}
