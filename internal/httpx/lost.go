package httpx

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A lost request is one that got no answer of any kind.
type lost struct {
	error
	outcome string
}

// Lost returns the error of a request that got no answer of any kind, as a
// [protocol.Fault]. The server cannot have seen it if there was no connection, or
// none that could be trusted.
func Lost(err error) error {
	outcome := protocol.OutcomeUnknown
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" || isTLS(err) {
		outcome = protocol.OutcomeNotSent
	}
	return &lost{err, outcome}
}

// isTLS reports whether the handshake of TLS failed.
func isTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		invalid     x509.CertificateInvalidError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || errors.As(err, &record) || errors.As(err, &alert)
}

// LostOnTheWay is Lost for a request that the server may have seen in any case.
func LostOnTheWay(err error) error { return &lost{err, protocol.OutcomeUnknown} }

// Outcome implements protocol.Fault.
func (e *lost) Outcome() string { return e.outcome }

// Unwrap returns the reason.
func (e *lost) Unwrap() error { return e.error }

// RetryAfter returns how long an answer asks to wait, a day at most. Zero means that
// it does not.
func RetryAfter(h http.Header) time.Duration {
	after := h.Get("Retry-After")
	if n, err := strconv.Atoi(after); err == nil {
		return time.Duration(max(0, min(n, 24*60*60))) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return min(max(0, time.Until(at)), 24*time.Hour)
	}
	return 0
}
