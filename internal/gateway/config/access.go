package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// An Auth says who may come in. If nothing of it is given, everybody may.
type Auth struct {
	Tokens        []string        `key:"tokens" short:"true" one:"true" doc:"Bearer tokens, one of which a client must send. Use references: ${file:/run/secrets/token}. They are named token:1, token:2 and so on."`
	TokenFile     string          `key:"tokenFile" path:"true" doc:"File of tokens that dragoman token new makes, or with a token in each line. It is read again when it changes."`
	JWT           []JWT           `key:"jwt" one:"true" doc:"Issuers of signed tokens (JWT) that are accepted. Clients are told to sign in there."`
	Introspection []Introspection `key:"introspection" one:"true" doc:"Servers that are asked whether a token is good (RFC 7662)."`
	Certificates  bool            `key:"certificates" doc:"Let in clients with a certificate of tls.clientCA, as cert:NAME." default:"false"`
	Users         []string        `key:"users" one:"true" doc:"Users of this machine, by name or number, that are let in by Unix sockets without a token, as local:NAME (Linux)."`
	URL           string          `key:"url" doc:"Where clients reach the gateway, without a path. Tokens must be issued for it. Needed by provider, and by jwt and introspection unless audiences is given."`
	Audiences     []string        `key:"audiences" one:"true" doc:"Other audiences of tokens that are accepted, for issuers that do not know the URL."`
	Scopes        []string        `key:"scopes" one:"true" doc:"Scopes that every token must have, and that clients are told to ask for."`
	Provider      Provider        `key:"provider" doc:"Identity provider at which users sign in, with Dragoman in front of it as the authorization server that clients expect. Needs url and client."`
	Client        Client          `key:"client" doc:"Who Dragoman is at the provider: a web application with the redirect URI URL/oauth/callback."`
	AccessFor     time.Duration   `key:"accessFor" doc:"How long an access token is good that a client gets by a sign-in at the provider." default:"10m" limit:"401, the client refreshes"`
	SignInFor     time.Duration   `key:"signInFor" doc:"How long such a sign-in lasts that its client does not use." default:"720h" limit:"the user signs in again"`
	Schemes       []string        `key:"schemes" one:"true" doc:"Schemes of clients' redirect URIs that are accepted though they have no dot." default:"cursor vscode vscode-insiders"`
}

// A Provider is an identity provider that knows the users, and not the clients.
type Provider struct {
	URL        string            `key:"url" short:"true" doc:"Its URL, as it is in its tokens (OpenID Connect), or github."`
	Scopes     []string          `key:"scopes" one:"true" doc:"Scopes that it is asked for." default:"openid profile email"`
	Principal  string            `key:"principal" doc:"Claim that names the user, who is user:VALUE@PROVIDER." default:"sub"`
	Groups     []string          `key:"groups" one:"true" doc:"Claims with the groups of the user; a.b is b in a. Of github: organizations and teams, which are ORGANIZATION/TEAM." default:"groups; of github none"`
	Parameters map[string]string `key:"parameters" doc:"Parameters that are added when a user is sent there."`
	Authorize  string            `key:"authorize" doc:"URL of its authorization endpoint, if it does not speak OpenID Connect." default:"as its metadata says"`
	Token      string            `key:"token" doc:"URL of its token endpoint, with authorize."`
	Userinfo   string            `key:"userinfo" doc:"URL that tells who a user is, with authorize."`
}

// A Client is who we are at the provider.
type Client struct {
	ID     string `key:"id" doc:"The client's id."`
	Secret string `key:"secret" doc:"Its secret, better as ${file:PATH} or ${VARIABLE}."`
}

// github is the provider that may be given by its name.
var github = Provider{
	URL: "https://github.com", Scopes: []string{"read:user"}, Principal: "login",
	Authorize: "https://github.com/login/oauth/authorize", Token: "https://github.com/login/oauth/access_token", Userinfo: "https://api.github.com/user",
}

// Known returns the provider with what is known of it.
func (p *Provider) Known() Provider {
	known := *p
	switch {
	case p.URL == "github":
		known.URL, known.Authorize, known.Token, known.Userinfo = github.URL, github.Authorize, github.Token, github.Userinfo
		known.Principal = cmp.Or(p.Principal, github.Principal)
		if len(p.Scopes) == 0 {
			known.Scopes = github.Scopes
			if len(p.Groups) > 0 {
				known.Scopes = append(slices.Clone(known.Scopes), "read:org")
			}
		}
	case p.URL == googleURL && p.Parameters["access_type"] == "":
		known.Parameters = maps.Clone(p.Parameters)
		if known.Parameters == nil {
			known.Parameters = make(map[string]string)
		}
		known.Parameters["access_type"] = "offline" // or it cannot be asked about a user again
	}
	if len(known.Scopes) == 0 && known.Authorize == "" {
		known.Scopes = []string{"openid", "profile", "email"}
	}
	return known
}

// Memberships are the claims of a user at GitHub that are lists of their own.
const (
	Organizations = "organizations"
	Teams         = "teams"
)

// IsGitHub reports whether the provider is GitHub, as it is given by its name.
func (p *Provider) IsGitHub() bool {
	return p.URL == "github" || p.URL == github.URL && p.Userinfo == github.Userinfo
}

// IsGoogle reports whether the provider is Google.
func (p *Provider) IsGoogle() bool { return strings.TrimSuffix(p.URL, "/") == googleURL }

const googleURL = "https://accounts.google.com"

// anybody reports whether everybody in the world can have an account at the provider.
func (p *Provider) anybody() bool {
	return p.URL == "github" || p.URL == github.URL || p.IsGoogle()
}

// A JWT is an issuer of signed tokens.
type JWT struct {
	Issuer      string        `key:"issuer" short:"true" doc:"Its URL, as it is in the tokens."`
	Keys        string        `key:"keys" doc:"URL of its keys (JWKS)." default:"as the issuer's metadata says"`
	KeysFile    string        `key:"keysFile" path:"true" doc:"File with its keys, in place of a URL."`
	Algorithms  []string      `key:"algorithms" one:"true" doc:"Algorithms of signatures that are accepted." default:"RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA"`
	Principal   string        `key:"principal" doc:"Claim that names the caller, who is user:VALUE@ISSUER." default:"sub"`
	Groups      string        `key:"groups" doc:"Claim with the groups of the caller; a.b is b in a." default:"groups"`
	AnyAudience bool          `key:"anyAudience" doc:"Accept tokens that do not say for whom they are. Any other service with tokens of the issuer can then use them here." default:"false"`
	Leeway      time.Duration `key:"leeway" doc:"How far clocks may be apart." default:"60s" limit:"401"`
	KeysFor     time.Duration `key:"keysFor" doc:"How long keys are used when the issuer cannot be asked for newer ones. Then requests get 503." default:"1h" limit:"503"`
}

// An Introspection is a server that is asked about tokens.
type Introspection struct {
	Endpoint     string `key:"endpoint" short:"true" doc:"Its URL."`
	ClientID     string `key:"clientId" doc:"Who we are there."`
	ClientSecret string `key:"clientSecret" doc:"Our secret, better as ${file:PATH} or ${VARIABLE}."`
	Issuer       string `key:"issuer" doc:"URL of the authorization server, where clients are told to sign in."`
	Principal    string `key:"principal" doc:"Member of the answer that names the caller, who is user:VALUE@ISSUER." default:"sub"`
	Groups       string `key:"groups" doc:"Member of the answer with the groups of the caller; a.b is b in a." default:"groups"`
	AnyAudience  bool   `key:"anyAudience" doc:"Accept tokens that do not say for whom they are." default:"false"`
}

// GroupClaims returns the claims with the groups of a caller.
func (j *JWT) GroupClaims() []string { return claims(j.Groups) }

// GroupClaims returns the members of an answer with the groups of a caller.
func (i *Introspection) GroupClaims() []string { return claims(i.Groups) }

func claims(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// Wanted reports whether clients have to prove who they are.
func (a *Auth) Wanted() bool {
	return len(a.Tokens)+len(a.JWT)+len(a.Introspection)+len(a.Users) > 0 || a.TokenFile != "" || a.Certificates || a.Provider.URL != ""
}

// checkAuth checks who may come in.
func (l *loader) checkAuth() {
	a := &l.file.Auth
	for j, token := range a.Tokens {
		if token == "" || strings.ContainsAny(token, " \r\n\t\x00") {
			l.note(false, "auth: a token is empty or has white space", "", "auth", "tokens", j)
		}
	}
	if a.TokenFile != "" && !slices.Contains(l.file.Files, a.TokenFile) {
		l.file.Files = append(l.file.Files, a.TokenFile)
	}
	for i, j := range a.JWT {
		l.checkWebURL(j.Issuer, fmt.Sprintf("auth.jwt[%d].issuer", i), "auth", "jwt", i, "issuer")
		if j.Keys != "" && j.KeysFile != "" {
			l.note(false, fmt.Sprintf("auth.jwt[%d] has keys at a URL and in a file", i), "remove one of them", "auth", "jwt", i, "keysFile")
		}
	}
	for i, j := range a.Introspection {
		l.checkWebURL(j.Endpoint, fmt.Sprintf("auth.introspection[%d].endpoint", i), "auth", "introspection", i, "endpoint")
		l.checkWebURL(j.Issuer, fmt.Sprintf("auth.introspection[%d].issuer", i), "auth", "introspection", i, "issuer")
	}
	if a.URL != "" {
		l.checkWebURL(a.URL, "auth.url", "auth", "url")
		if u, err := url.Parse(a.URL); err == nil && strings.Trim(u.Path, "/") != "" {
			l.note(false, "auth.url has a path", "write scheme and host alone", "auth", "url")
		}
	}
	if a.URL == "" && len(a.Audiences) == 0 {
		const hint = "write the URL at which clients reach this gateway, as in auth.url: https://HOST, or the audience that the issuer puts into tokens, in auth.audiences"
		if len(a.JWT) > 0 {
			l.note(false, "auth.jwt needs auth.url or auth.audiences, or tokens for other services would be accepted", hint, "auth", "jwt")
		}
		if len(a.Introspection) > 0 {
			l.note(false, "auth.introspection needs auth.url or auth.audiences, or tokens for other services would be accepted", hint, "auth", "introspection")
		}
	}
	if !a.Wanted() { // which is no reason to let everybody in
		l.note(false, "auth lets nobody in", "give tokenFile, tokens, jwt, introspection or provider, or leave auth out to let everybody in", "auth")
	}
	l.checkProvider(a)
	if a.Certificates && !slices.ContainsFunc(l.file.Listen, func(e Listen) bool { return e.TLS.ClientCA != "" }) {
		l.note(false, "auth.certificates needs a listener with tls.clientCA", "", "auth", "certificates")
	}
	if a.Wanted() {
		l.checkPassed()
	}
}

// checkProvider checks where users sign in.
func (l *loader) checkProvider(a *Auth) {
	p := a.Provider.Known()
	if p.URL == "" {
		if !reflect.ValueOf(a.Provider).IsZero() || a.Client != (Client{}) {
			l.note(false, "auth.provider says nothing of where users sign in", "give auth.provider a url", "auth")
		}
		return
	}
	l.checkWebURL(p.URL, "auth.provider", "auth", "provider")
	if strings.Contains(p.URL, "@") {
		l.note(false, "auth.provider has an @", "", "auth", "provider")
	}
	if a.URL == "" {
		l.note(false, "auth.provider needs auth.url, where clients reach us", "write https://HOST", "auth")
	}
	if a.Client.ID == "" {
		l.note(false, "auth.provider needs auth.client, who we are there", "register a web application there, with the redirect URI "+cmp.Or(strings.TrimSuffix(a.URL, "/"), "https://HOST")+"/oauth/callback, and write its id and secret", "auth")
	}
	byHand := map[string]string{"authorize": p.Authorize, "token": p.Token, "userinfo": p.Userinfo}
	for _, key := range slices.Sorted(maps.Keys(byHand)) {
		if p.Authorize+p.Token+p.Userinfo != "" {
			l.checkWebURL(byHand[key], "auth.provider."+key, "auth", "provider", key)
		}
	}
	if a.AccessFor < 0 || a.SignInFor < 0 || a.SignInFor > 0 && a.SignInFor < max(a.AccessFor, time.Minute) {
		l.note(false, "auth.signInFor is shorter than accessFor, or than a minute", "", "auth", "signInFor")
	}
	for i, scheme := range a.Schemes {
		if !goodScheme().MatchString(scheme) || slices.Contains(badSchemes, scheme) {
			l.note(false, fmt.Sprintf("auth.schemes: %q is no scheme that a program can have", scheme), "", "auth", "schemes", i)
		}
	}
	if a.Provider.anybody() && len(l.file.Rules) == 0 {
		l.note(false, "everybody in the world can have an account at auth.provider, and there are no rules", "say in rules who may use what", "auth", "provider")
	}
}

var (
	goodScheme = lazy.Regexp(`^[a-z][a-z0-9+.-]{0,63}$`)

	// badSchemes are those that browsers and systems give a meaning of their own.
	badSchemes = []string{"http", "https", "ws", "wss", "ftp", "file", "javascript", "vbscript", "data", "blob", "about", "view-source", "mailto", "tel", "sms", "intent", "filesystem", "chrome", "edge", "ms-settings", "search-ms"}
)

// RuleOptions returns what rules may refer to.
func (f *File) RuleOptions() *rules.ParseOptions {
	o := &rules.ParseOptions{Groups: make(map[string][]string), Servers: f.All()}
	for name, g := range f.Groups {
		o.Groups[name] = g.Servers
	}
	for _, j := range f.Auth.JWT {
		o.Issuers = append(o.Issuers, strings.TrimPrefix(j.Issuer, "https://"))
	}
	for _, i := range f.Auth.Introspection {
		o.Issuers = append(o.Issuers, strings.TrimPrefix(i.Issuer, "https://"))
	}
	if p := f.Auth.Provider.Known(); p.URL != "" {
		o.Issuers = append(o.Issuers, strings.TrimPrefix(p.URL, "https://"))
	}
	return o
}

// checkRules checks who may use what.
func (l *loader) checkRules() {
	_, wrong := rules.Parse(l.file.Rules, l.file.RuleOptions())
	for i, err := range wrong {
		l.note(false, fmt.Sprintf("rules[%d]: %v", i, err), "", "rules", i)
	}
	if len(l.file.Rules) == 0 {
		l.note(false, "rules holds none, and so allows nothing", "leave rules out to allow everything", "rules")
	}
	if len(l.file.Rules) > 0 && !l.file.Auth.Wanted() {
		l.note(true, "there are rules, and nobody has to prove who they are: all callers are the same to them", "say in auth who may come in", "rules")
	}
}

// checkPassed refuses to pass on the header that proves to us who a caller is.
func (l *loader) checkPassed() {
	for name, s := range l.file.Servers {
		for _, pass := range []map[string]string{s.PassHeaders, s.PassEnv} {
			for header := range pass {
				if strings.EqualFold(header, "Authorization") {
					l.note(false, fmt.Sprintf("servers.%s passes the caller's Authorization on, which is for us", name),
						"have callers send what is meant for the server in another header, or use auth.signIn: caller", "servers", name)
				}
			}
		}
	}
}

// checkWebURL notes a URL that secrets could be read from on the way.
func (l *loader) checkWebURL(text, what string, at ...any) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		l.note(false, what+" is missing", "", at[:len(at)-1]...)
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		l.note(false, what+" is no URL that can be used", "write https://HOST/PATH", at...)
	case u.Scheme != "https" && (u.Scheme != "http" || !isLocal(u.Hostname())):
		l.note(false, what+" is not encrypted", "write https://", at...)
	}
}
