package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

// soon is how long before its end a certificate is a problem.
const soon = 7 * 24 * time.Hour

// network looks at the way to the server: its name, its port, its certificate. It reports
// whether a request can get there.
func (p *prober) network(ctx context.Context, h *rawclient.HTTP) bool {
	at := h.At
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	via := p.Spec.Proxy
	if via == nil {
		via = http.ProxyFromEnvironment
	}
	if proxy, err := via(&http.Request{URL: at}); err == nil && proxy != nil {
		p.note("proxy", "requests go through %s; names and certificates are looked at by the request alone", proxy.Host)
		return true
	}
	host, port := at.Hostname(), cmp.Or(at.Port(), map[string]string{"https": "443"}[at.Scheme], "80")
	if net.ParseIP(host) == nil {
		began := time.Now()
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			p.Verdict = Unreachable
			p.problem("dns", "check the spelling of the host, and the name servers of this machine", "%s has no address: %s", host, withoutServer(err))
			return false
		}
		p.ok("dns", "%s, %v", strings.Join(found[:min(len(found), 4)], ", "), humanize.Duration(time.Since(began)))
	}
	began := time.Now()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		p.Verdict = Unreachable
		p.problem("tcp", adviceForDial(err), "port %s of %s: %s", port, host, dialReason(err))
		return false
	}
	defer nc.Close()
	p.ok("tcp", "%s, %v", nc.RemoteAddr(), humanize.Duration(time.Since(began)))
	if at.Scheme != "https" {
		if !h.Local() {
			p.problem("tls", "serve it by https; tokens must not be sent without", "the connection is not encrypted: others on the way can read and change what is sent")
		}
		return true
	}
	return p.handshake(ctx, nc, host)
}

// withoutServer says why a name has no address, without the name server.
func withoutServer(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Err
	}
	return err.Error()
}

func dialReason(err error) string {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return strings.TrimPrefix(err.Error(), "connect: ")
}

func adviceForDial(err error) string {
	if strings.Contains(err.Error(), "refused") {
		return "nothing listens there: start the server, or correct the port"
	}
	return "check the address, and firewalls on the way"
}

// handshake looks at TLS.
func (p *prober) handshake(ctx context.Context, nc net.Conn, host string) bool {
	conf := p.Spec.TLS.Clone()
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	conf.ServerName = cmp.Or(conf.ServerName, host)
	conf.NextProtos = []string{"h2", "http/1.1"}
	conn := tls.Client(nc, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		p.Verdict = Unreachable
		p.problem("tls", adviceForTLS(err), "%s", strings.TrimPrefix(tlsReason(err), "tls: "))
		return false
	}
	state := conn.ConnectionState()
	leaf := state.PeerCertificates[0]
	left := time.Until(leaf.NotAfter)
	text := fmt.Sprintf("%s, %s, certificate for %s by %s, good until %s", tls.VersionName(state.Version), cmp.Or(state.NegotiatedProtocol, "http/1.1"), strings.Join(namesIn(leaf), ", "),
		cmp.Or(leaf.Issuer.CommonName, strings.Join(leaf.Issuer.Organization, " ")), leaf.NotAfter.Format(time.DateOnly))
	if life := leaf.NotAfter.Sub(leaf.NotBefore); left < soon && left < life/4 {
		p.problem("tls", "renew the certificate", "%s, which is soon", text)
	} else {
		p.ok("tls", "%s", text)
	}
	return true
}

// namesIn returns the first names that a certificate is for.
func namesIn(c *x509.Certificate) []string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) > 4 {
		names = append(names[:4:4], "…")
	}
	return names
}

// tlsReason says what is wrong with a certificate, and whose it is.
func tlsReason(err error) string {
	e, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok || len(e.UnverifiedCertificates) == 0 {
		return err.Error()
	}
	c := e.UnverifiedCertificates[0]
	return fmt.Sprintf("the certificate (for %s, by %s, until %s) is not good: %v", strings.Join(namesIn(c), ", "), cmp.Or(c.Issuer.CommonName, "an unnamed authority"), c.NotAfter.Format(time.DateOnly), e.Err)
}

func adviceForTLS(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &authority):
		return "if you trust its authority, name the authority's certificate with --ca-file; or the server leaves out certificates between"
	case errors.As(err, &name):
		return "use a name that the certificate is for"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the certificate, or set the clock of this machine"
	case errors.As(err, &record):
		return "the port does not speak TLS: use http://, or another port"
	}
	return "look at the server's log of TLS; it may want a client certificate (--cert-file, --key-file)"
}
