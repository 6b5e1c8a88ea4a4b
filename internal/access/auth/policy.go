package auth

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Verifier knows some kind of token.
type Verifier interface {
	// verify returns whose token it is. The error is errForeign for a token that another
	// one may know, an *oidc.InvalidError for one that is not good, and an *oidc.UnavailableError
	// if that cannot be told now.
	verify(ctx context.Context, token string) (*identity, error)
}

// Options says who may come in.
type Options struct {
	// Anyone lets in everybody, and nobody has to prove anything.
	Anyone bool

	// Verifiers know the tokens that are accepted, and are asked in this order.
	Verifiers []Verifier

	// Certificates lets in whoever has a certificate that the listener accepts.
	Certificates bool

	// Users are users of this machine that are let in by Unix sockets, by their
	// numbers.
	Users []int

	// URL is where clients reach the gateway, without a path. It is an audience of tokens, and so
	// is each resource below it. If empty, only Audiences are: the Host of a request is chosen by
	// the client, and proves nothing.
	URL string

	// Audiences are other names of the gateway in tokens.
	Audiences []string

	// Issuers are the authorization servers where clients get tokens, and Scopes what
	// they should ask for there. Whoever lacks one of them is not let in.
	Issuers, Scopes []string
}

// A Policy lets clients in.
type Policy struct {
	log      *slog.Logger
	failures *limit.Failures // of addresses
	proofs   proofs
	now      atomic.Pointer[Options]
}

// New returns a policy that lets an address fail so often; zero means the default. Logger may be nil.
func New(o *Options, failures limit.Rate, logger *slog.Logger) *Policy {
	p := &Policy{log: httpserver.Logger(logger), failures: limit.NewFailures(failures)}
	p.Set(o)
	return p
}

// Set replaces what the policy says. Whoever is not let in by that any more is told so in
// the streams that are open.
func (p *Policy) Set(o *Options) {
	p.now.Store(o)
	p.proofs.doubt()
}

// Anyone reports whether everybody is let in.
func (p *Policy) Anyone() bool { return p.now.Load().Anyone }

// Caller returns who makes a request, or refuses it. The proof is not in the header any
// more then: nobody else gets to see it.
func (p *Policy) Caller(r *http.Request) (*dragoman.Caller, error) {
	o := p.now.Load()
	if o.Anyone {
		return httpserver.ByAddress(r)
	}
	found, err := p.prove(r, o)
	if err == nil {
		err = o.admit(found.identity, r)
	}
	if err != nil {
		return nil, p.refuse(r, o, err)
	}
	delete(r.Header, "Authorization")
	c, err := httpserver.ByAddress(r)
	if err != nil {
		return nil, err
	}
	c.Principal, c.Credential = found.principal, found.proof
	c.Scopes, c.Claims, c.Rights = found.scopes, found.claims, found.rights
	c.OnEnd = found.onEnd
	if len(o.Issuers) > 0 {
		c.Metadata = o.metadataURL(r)
	}
	return c, nil
}

// prove finds out who makes a request. A token counts before all else, because it was
// sent for this request.
func (p *Policy) prove(r *http.Request, o *Options) (*proof, error) {
	token, err := bearer(r)
	switch {
	case err == nil:
		return p.token(r, token)
	case !errors.Is(err, errNone):
		return nil, err
	}
	if id := o.certified(r); id != nil {
		if !time.Now().Before(id.expires) { // the handshake may have been long ago
			return nil, oidc.Invalid("the client certificate has expired; connect again with a new one")
		}
		id.rights = rightsOf(id)
		return newProof(id, nil), nil
	}
	if id := o.local(r.Context()); id != nil {
		return newProof(id, nil), nil
	}
	return nil, errNone
}

// token returns the proof that a token is.
//
// An address that has sent too many that are not good has to wait, unless it is one that
// is known to be: others may have the same address.
func (p *Policy) token(r *http.Request, token string) (*proof, error) {
	d := digestOf(token)
	known := p.proofs.get(d)
	if known != nil && known.good(time.Now()) {
		return known, nil
	}
	from := addressOf(r)
	if wait := p.failures.Allow(from); wait > 0 {
		return nil, httpserver.Unavailable(protocol.Limited(protocol.LimitCaller, "too many tokens that are not good have come from this address (limits.failedProofs)", wait))
	}
	id, err := p.verify(r.Context(), token)
	if isInvalid(err) {
		p.failures.Failed(from)
	}
	if err != nil {
		if known != nil && isInvalid(err) {
			p.proofs.drop(d, known)
		}
		return nil, err
	}
	if known != nil && known.confirm(id) {
		return known, nil
	}
	found := newProof(id, func(ctx context.Context) (*identity, error) { return p.verify(ctx, token) })
	if known != nil {
		p.proofs.drop(d, known) // it says something else now
	}
	return p.proofs.put(d, found), nil
}

func addressOf(r *http.Request) string {
	c, err := httpserver.ByAddress(r)
	if err != nil {
		return ""
	}
	return c.Address
}

// verify asks who knows a token.
func (p *Policy) verify(ctx context.Context, token string) (*identity, error) {
	for _, v := range p.now.Load().Verifiers {
		id, err := v.verify(ctx, token)
		switch {
		case errors.Is(err, errForeign):
			continue
		case err != nil:
			return nil, err
		case !id.expires.IsZero() && !time.Now().Before(id.expires):
			return nil, oidc.Invalid("the token has expired")
		}
		whole := *id // who made it may have it in use
		whole.rights = rightsOf(id)
		return &whole, nil
	}
	return nil, oidc.Invalid("the token is not known here")
}

// admit checks that a proof was made for us and for who sends it, and that it grants
// enough.
func (o *Options) admit(id *identity, r *http.Request) error {
	if id.audience != nil && !o.addressed(id.audience, r) {
		return oidc.Invalid("the token was issued for another audience (aud)")
	}
	if id.thumbprint != "" && thumbprint(r) != id.thumbprint {
		return oidc.Invalid("the token is bound to a certificate that was not used")
	}
	for _, scope := range o.Scopes {
		if !slices.Contains(id.scopes, scope) {
			return &ScopeError{Scopes: o.Scopes}
		}
	}
	return nil
}

// addressed reports whether one of the audiences is the gateway, or the requested resource.
func (o *Options) addressed(audiences []string, r *http.Request) bool {
	return slices.ContainsFunc(audiences, func(a string) bool {
		if slices.Contains(o.Audiences, a) {
			return true
		}
		if o.URL == "" {
			return false
		}
		path, ok := strings.CutPrefix(a, o.base(r))
		path = strings.TrimSuffix(path, "/")
		return ok && (path == "" || path[0] == '/' && path == r.URL.Path)
	})
}

// base returns where clients reach the gateway, without a path: URL, or what the request says.
func (o *Options) base(r *http.Request) string {
	if o.URL != "" {
		return strings.TrimSuffix(o.URL, "/")
	}
	return httpserver.Scheme(r) + "://" + r.Host
}

// certified returns who has the client certificate of a request, or nil.
func (o *Options) certified(r *http.Request) *identity {
	if !o.Certificates || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	leaf := r.TLS.VerifiedChains[0][0]
	name := leaf.Subject.CommonName
	switch {
	case len(leaf.URIs) > 0:
		name = leaf.URIs[0].String()
	case len(leaf.EmailAddresses) > 0:
		name = leaf.EmailAddresses[0]
	case len(leaf.DNSNames) > 0:
		name = leaf.DNSNames[0]
	}
	if name == "" {
		return nil
	}
	return &identity{
		principal: "cert:" + name, proof: "certificate", expires: chainEnd(r.TLS.VerifiedChains),
		claims: map[string][]string{rules.Groups: leaf.Subject.OrganizationalUnit},
	}
}

// chainEnd returns when the last of the chains stops being valid. A chain is valid as long as each of
// its certificates is.
func chainEnd(chains [][]*x509.Certificate) (end time.Time) {
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
		if first.After(end) {
			end = first
		}
	}
	return end
}

// thumbprint returns the SHA-256 of the client certificate of a request, or "".
func thumbprint(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
	return hex.EncodeToString(sum[:])
}
