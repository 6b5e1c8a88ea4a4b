package httpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// connectTimeout is how long a connection may take, and then the handshake of TLS.
const connectTimeout = 10 * time.Second

// A ConnError is why a server gave no answer, in words for the user. It is a
// [protocol.Fault].
type ConnError struct {
	Reason string // what is the matter, with what the server has shown of itself
	Advice string // what to do about it; it may be empty
	Err    error

	lost bool // the server may have seen the request
}

// Error implements error.
func (e *ConnError) Error() string { return e.Reason }

// Unwrap returns the error of the connection.
func (e *ConnError) Unwrap() error { return e.Err }

// Outcome implements protocol.Fault.
func (e *ConnError) Outcome() string {
	if e.lost {
		return protocol.OutcomeUnknown
	}
	return protocol.OutcomeNotSent
}

// Explained returns the error of a request to a URL as a *ConnError, if the reason is known, or
// as it is, but without the URL, which may hold secrets.
func (c *Client) Explained(err error, at *url.URL) error {
	err = WithoutURL(err)
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, fault := errors.AsType[protocol.Fault](err); fault {
		return err // whoever makes it knows more
	}
	if e := explain(err, at, c.certified); e != nil {
		e.Err = err
		return e
	}
	return err
}

const (
	checkNetwork = "check the network, and whether a firewall or a VPN is in the way"
	checkProxy   = "check the proxy: --proxy, proxy in a configuration, or the variables HTTPS_PROXY and NO_PROXY"
)

func explain(err error, at *url.URL, certified bool) *ConnError {
	op, _ := errors.AsType[*net.OpError](err)
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return explainName(dns, op)
	}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok && len(certificate.UnverifiedCertificates) > 0 {
		return explainCertificate(certificate, at)
	}
	timeout := false
	if t, ok := errors.AsType[net.Error](err); ok {
		timeout = t.Timeout()
	}
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return &ConnError{Reason: at.Host + " speaks plain HTTP, but the URL says " + at.Scheme + "://", Advice: "begin the URL with " + otherScheme(at) + ":// if that is meant, or name the port that speaks TLS"}
	case noTLS:
		return &ConnError{Reason: at.Host + " does not speak TLS", Advice: "check the port of the URL, or begin it with " + otherScheme(at) + ":// if that is meant"}
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`): // an alert of TLS; the error has no type
		return speaksTLS(at)
	case timeout && strings.Contains(err.Error(), "TLS handshake timeout"): // nor has this one
		return &ConnError{Reason: fmt.Sprintf("%s accepts connections, but makes no TLS handshake within %v", at.Host, connectTimeout), Advice: "check the port of the URL, and the server"}
	case op != nil && op.Op == "proxyconnect":
		return &ConnError{Reason: "the proxy cannot be reached: " + op.Err.Error(), Advice: checkProxy}
	case op != nil && op.Op == "dial":
		return explainDial(op, timeout)
	case op != nil && op.Op == "remote error":
		return explainAlert(op, certified)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		e := &ConnError{Reason: at.Host + " closed the connection without an answer (" + err.Error() + ")", Advice: "check its log, and that of a proxy before it", lost: true}
		if at.Scheme == "http" || at.Scheme == "ws" {
			e.Advice += "; if it speaks TLS, begin the URL with " + otherScheme(at) + "://"
		}
		return e
	}
	return nil
}

// speaksTLS is why a plain request was not understood.
func speaksTLS(at *url.URL) *ConnError {
	return &ConnError{Reason: at.Host + " speaks TLS, but the URL says " + at.Scheme + "://", Advice: "begin the URL with " + otherScheme(at) + "://"}
}

// otherScheme returns the scheme of a URL with TLS if it has none, and without it if it has.
func otherScheme(at *url.URL) string {
	if plain, ok := strings.CutSuffix(at.Scheme, "s"); ok && at.Scheme != "ws" {
		return plain
	}
	return at.Scheme + "s"
}

// explainName says why a name has no address.
func explainName(dns *net.DNSError, op *net.OpError) *ConnError {
	e := &ConnError{
		Reason: fmt.Sprintf("unknown host %s (%s)", dns.Name, dns.Err),
		Advice: "check its spelling, and whether the DNS of this machine knows it: it may take a VPN, or a proxy (--proxy)",
	}
	if !dns.IsNotFound {
		e.Reason = fmt.Sprintf("cannot resolve the host %s (%s)", dns.Name, dns.Err)
		e.Advice = "check the network and the DNS of this machine"
	}
	if op != nil && op.Op == "proxyconnect" {
		e.Reason, e.Advice = "the proxy cannot be reached: "+e.Reason, checkProxy
	}
	return e
}

// explainDial says why there is no connection.
func explainDial(op *net.OpError, timeout bool) *ConnError {
	to := "it"
	if op.Addr != nil {
		to = op.Addr.String()
	}
	reason := op.Err.Error()
	if call, ok := errors.AsType[syscall.Errno](op.Err); ok {
		reason = call.Error() // without the name of the system call
	}
	e := &ConnError{Reason: fmt.Sprintf("no connection to %s (%s)", to, reason), Advice: checkNetwork}
	switch {
	case errors.Is(op.Err, syscall.ECONNREFUSED):
		e.Reason = fmt.Sprintf("nothing listens at %s (%s)", to, reason)
		e.Advice = "check that the server is running, and the host and the port"
	case timeout:
		e.Reason = fmt.Sprintf("no connection to %s within %v", to, connectTimeout)
		e.Advice = "check the address, and whether a firewall or a VPN is in the way"
	}
	return e
}

// explainCertificate says what is wrong with the certificate of a server.
func explainCertificate(err *tls.CertificateVerificationError, at *url.URL) *ConnError {
	leaf := err.UnverifiedCertificates[0]
	shown := "; it shows one " + DescribeCertificate(leaf)
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return &ConnError{
			Reason: "its certificate is not for " + at.Hostname() + shown,
			Advice: "use a name of the certificate in the URL, or have the server show one for " + at.Hostname(),
		}
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		e := &ConnError{
			Reason: "its certificate has expired, on " + day(invalid.Cert.NotAfter) + shown,
			Advice: "have the server renew it; if it is good, correct the clock of this machine",
		}
		if time.Now().Before(invalid.Cert.NotBefore) {
			e.Reason = "its certificate is not valid before " + day(invalid.Cert.NotBefore) + shown
			e.Advice = "correct the clock of this machine, or have the server show one that is valid"
		}
		return e
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return &ConnError{
			Reason: "its certificate is signed by an unknown authority" + shown,
			Advice: "if it is the right one, trust its authority: by --ca-file FILE, tls.ca in a configuration, or the variable SSL_CERT_FILE",
		}
	}
	return &ConnError{Reason: "its certificate cannot be trusted (" + oneLine(err.Err.Error()) + ")" + shown, Advice: "have the server show another one"}
}

// Alerts of TLS that are about a client certificate (RFC 8446, section 6.2). Who has none gets
// the third one, and in TLS 1.2 the first or the second, which has other reasons, too.
const (
	badCertificate      tls.AlertError = 42
	handshakeFailure    tls.AlertError = 40
	certificateRequired tls.AlertError = 116
)

// aboutOurs are the alerts of a server that has seen our certificate: beside these that it is
// of another kind, revoked, expired, unknown, of an unknown authority, or not allowed in.
var aboutOurs = []tls.AlertError{badCertificate, 43, 44, 45, 46, 48, 49, certificateRequired}

// explainAlert says what is wrong with our certificate, if a server wants one or, if it was shown one,
// another. It returns nil for an alert about something else.
func explainAlert(op *net.OpError, certified bool) *ConnError {
	// An alert over TCP has no exported type, and the text of one that has.
	is := func(a tls.AlertError) bool { return op.Err.Error() == a.Error() }
	what := ""
	switch {
	case certified && slices.ContainsFunc(aboutOurs, is):
		what = "does not accept our client certificate"
	case !certified && is(certificateRequired):
		what = "requires a client certificate"
	case !certified && (is(badCertificate) || is(handshakeFailure)):
		what = "refuses the connection: it may require a client certificate"
	default:
		return nil
	}
	return &ConnError{Reason: fmt.Sprintf("the server %s (%v)", what, op.Err), Advice: "name one that it accepts by --cert-file, or tls.cert in its configuration"}
}

// maxNames is how many names of a certificate are told.
const maxNames = 5

// DescribeCertificate returns whose a certificate is. All of it is the server's own words.
func DescribeCertificate(c *x509.Certificate) string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	more := ""
	if len(names) > maxNames {
		more = fmt.Sprintf(" and %d more", len(names)-maxNames)
		names = names[:maxNames]
	}
	issuer := "by itself"
	if c.Issuer.String() != c.Subject.String() {
		issuer = "by " + c.Issuer.String()
	}
	list := strings.Join(names, ", ") + more
	if list == "" {
		list = "no host"
	}
	return oneLine(fmt.Sprintf("of %s, signed %s, for %s, valid until %s", c.Subject.String(), issuer, list, day(c.NotAfter)))
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
