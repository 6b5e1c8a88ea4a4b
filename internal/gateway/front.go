package gateway

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/authserver"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// A front is the authorization server in front of an identity provider, with what it was made of.
type front struct {
	*authserver.Server
	made frontOptions
}

// frontOptions is what of a configuration a front is made of.
type frontOptions struct {
	url                  string
	provider             config.Provider
	client               config.Client
	scopes, needed       []string
	claims               []string // that rules go by
	schemes              []string
	accessFor, signInFor time.Duration
	rate                 limit.Rate
}

func frontOf(file *config.File) frontOptions {
	a := &file.Auth
	set, _ := rules.Parse(file.Rules, file.RuleOptions()) // they have been checked
	return frontOptions{
		url: a.URL, provider: a.Provider.Known(), client: a.Client, scopes: set.Scopes(), claims: set.Claims(), needed: a.Scopes, schemes: a.Schemes,
		accessFor: a.AccessFor, signInFor: a.SignInFor, rate: file.Limits.SignInRate,
	}
}

// readFront returns where users sign in by a configuration, or nil. It is the one before, if
// nothing of that has changed.
func (g *Gateway) readFront(file *config.File, before *access) (*front, error) {
	if file.Auth.Provider.URL == "" {
		return nil, nil
	}
	made := frontOf(file)
	if before != nil && before.front != nil && reflect.DeepEqual(before.front.made, made) {
		return before.front, nil
	}
	server, err := g.newFront(&made)
	if err != nil {
		return nil, err
	}
	return &front{server, made}, nil
}

func (g *Gateway) newFront(f *frontOptions) (*authserver.Server, error) {
	store, key, err := g.signIns.open(g.stateDir(), max(f.signInFor, authserver.DefaultSignInFor), g.disk)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	p := &f.provider
	server, err := authserver.New(&authserver.Options{
		URL: f.url, Scopes: f.scopes, Needed: f.needed, AccessFor: f.accessFor, SignInFor: f.signInFor, Schemes: f.schemes, Rate: f.rate,
		Provider: authserver.Provider{
			ClaimOptions: auth.ClaimOptions{Issuer: p.URL, Principal: p.Principal, Groups: p.Groups, Claims: f.claims},
			ClientID:     f.client.ID, ClientSecret: f.client.Secret, Scopes: p.Scopes, Parameters: p.Parameters,
			Authorize: p.Authorize, Token: p.Token, Userinfo: p.Userinfo, Lists: listsOf(p), Keeps: p.IsGoogle(),
		},
		EndpointPaths: g.siblings, Store: store, Key: key, Logger: g.log,
		Revoked: func(hashes ...[32]byte) { g.policy.Doubt(hashes...) },
		OnEvent: g.observeSignIn, ServerSignIns: &g.serverSignIns,
	})
	if err != nil {
		return nil, fmt.Errorf("auth.provider: %w", err)
	}
	return server, nil
}

// githubLists are claims that GitHub has lists for.
var githubLists = []authserver.List{
	{Claim: config.Organizations, URL: "https://api.github.com/user/orgs", Paths: []string{"login"}},
	{Claim: config.Teams, URL: "https://api.github.com/user/teams", Paths: []string{"organization.login", "slug"}},
}

// listsOf returns the lists that a provider is asked for because they are groups.
func listsOf(p *config.Provider) (lists []authserver.List) {
	for _, l := range githubLists {
		if p.IsGitHub() && slices.Contains(p.Groups, l.Claim) {
			lists = append(lists, l)
		}
	}
	return lists
}

// observeSignIn reports an event of a sign-in. That a client registers is not reported: it has no
// consequence, and every client can do it.
func (g *Gateway) observeSignIn(kind, who, client string) {
	g.log.Debug("a client signs in", "event", kind, "user", who, "client", client)
	e := event.Event{Caller: &dragoman.Caller{Principal: who, Credential: "sign-in", Client: client}}
	switch kind {
	case "register":
		return
	case "sign-in":
		e.Kind = event.SignIn
	case "connect": // at a server
		e.Kind, e.Server, e.Caller.Client = event.SignIn, client, ""
	case "stranger":
		e.Kind, e.Server, e.Caller.Client = event.SignIn, client, ""
		e.Refused, e.Reason = true, "the sign-in at the server was begun by another user, or in another browser"
	case "denied":
		e.Kind, e.Refused, e.Reason = event.SignIn, true, "the user has refused"
	case "token", "refresh":
		e.Kind = event.TokenIssued
	default:
		e.Kind, e.Reason = event.TokenRevoked, endings[kind]
	}
	g.observe(&e)
}

// endings are why sign-ins end.
var endings = map[string]string{
	"revoke": "the client has signed out",
	"gone":   "the identity provider does not vouch for the user any more",
	"reuse":  "a refresh token has come twice, or from another client",
	"replay": "a code has come twice",
	"misuse": "a code has come with something else than its request",
}

// callback returns where the browser of a caller comes back to from a sign-in at a server, or nil
// if that is this machine: when nobody could tell in a browser that its user is the caller.
func (g *Gateway) callback(server, principal string) *oauth.Callback {
	f := g.front.Load()
	if f == nil || !f.Knows(principal) {
		return nil
	}
	return &oauth.Callback{URI: f.Callback(server), Open: func(in *oauth.SignIn) (string, func(), error) {
		v := &authserver.ServerSignIn{Server: server, Principal: principal, URL: in.URL, State: in.State, Expires: in.Expires, Take: in.Take}
		end, err := g.serverSignIns.Begin(v)
		return f.Page(v), end, err
	}}
}

// siblings returns the paths of all transports of the endpoint that a path is of.
func (g *Gateway) siblings(path string) (list []string) {
	paths := []string{MCPPath, SSEPath, MessagesPath, WSPath, CallPath}
	i := slices.IndexFunc(paths, func(p string) bool { return strings.HasSuffix(path, p) })
	if i < 0 {
		return nil
	}
	base := strings.TrimSuffix(path, paths[i])
	for _, p := range paths {
		list = append(list, base+p)
	}
	if base == "" && g.opts.MessagesPath != "" {
		list = append(list, g.opts.MessagesPath)
	}
	return list
}

// signIns is where sign-ins are kept. It is opened when the first front is made, and outlives
// every one.
type signIns struct {
	mu     sync.Mutex
	store  eventlog.Records
	key    []byte
	dir    *store.Dir // nil if they are in memory
	closed bool
}

// open returns the store and its key. Without a directory both end with the process.
func (s *signIns) open(dir string, lasts time.Duration, disk *disk) (eventlog.Records, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, errors.New("shutting down")
	case s.store != nil:
		return s.store, s.key, nil
	case dir == "":
		s.key = token.NewKey()
		s.store = store.NewMemory(&store.Options{MaxRecords: authserver.MaxSignIns})
		return s.store, s.key, nil
	}
	key, err := store.LoadKey(dir, "sign-ins.key")
	if err != nil {
		return nil, nil, err
	}
	opened, err := store.Open(filepath.Join(dir, "sign-ins"), &store.Options{MaxAge: lasts + 24*time.Hour})
	if err != nil {
		return nil, nil, err
	}
	s.store, s.key, s.dir = diskRecords{opened, disk}, key, opened
	return s.store, s.key, nil
}

func (s *signIns) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.dir == nil {
		return nil
	}
	return s.dir.Close()
}
