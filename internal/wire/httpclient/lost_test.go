package httpclient_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Without a connection that is trusted nothing is sent. What an error says in its
// text does not count.
func TestLostRequestWasNotSentIfThereWasNoConnection(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"no dial", &net.OpError{Op: "dial", Err: io.EOF}, protocol.OutcomeNotSent},
		{"certificate", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, protocol.OutcomeNotSent},
		{"unknown authority", x509.UnknownAuthorityError{}, protocol.OutcomeNotSent},
		{"another host", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}, protocol.OutcomeNotSent},
		{"expired", x509.CertificateInvalidError{Reason: x509.Expired}, protocol.OutcomeNotSent},
		{"not TLS", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, protocol.OutcomeNotSent},
		{"wrapped", fmt.Errorf("it failed: %w", x509.UnknownAuthorityError{}), protocol.OutcomeNotSent},
		{"alert", &net.OpError{Op: "remote error", Err: tls.AlertError(40)}, protocol.OutcomeNotSent},
		{"read", &net.OpError{Op: "read", Err: io.EOF}, protocol.OutcomeUnknown},
		{"text of a server", errors.New("tls: x509: dial"), protocol.OutcomeUnknown},
	} {
		fault, ok := errors.AsType[protocol.Fault](httpclient.NoResponse(test.err))
		if !ok || fault.Outcome() != test.want {
			t.Errorf("%s: %v, want the outcome %s", test.name, fault, test.want)
		}
	}
}

func TestZeroIsTheDefaultAndNegativeIsNone(t *testing.T) {
	if httpframe.Duration(0, 5) != 5 || httpframe.Duration(3, 5) != 3 || httpframe.Duration(-1, 5) != httpframe.Forever {
		t.Error("Duration")
	}
	if httpframe.Limit(0, 5) != 5 || httpframe.Limit(3, 5) != 3 || httpframe.Limit(-1, 5) < 1<<30 {
		t.Error("Limit")
	}
}
