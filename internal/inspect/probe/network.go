package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
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
			reason, advice, _ := h.Explain(err)
			p.problem("dns", advice, "%s", reason)
			return false
		}
		p.ok("dns", "%s, %v", strings.Join(found[:min(len(found), 4)], ", "), humanize.Duration(time.Since(began)))
	}
	began := time.Now()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		p.Verdict = Unreachable
		reason, advice, _ := h.Explain(err)
		p.problem("tcp", advice, "%s", reason)
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
	return p.handshake(ctx, nc, h)
}

// handshake looks at TLS.
func (p *prober) handshake(ctx context.Context, nc net.Conn, h *rawclient.HTTP) bool {
	conf := p.Spec.TLS.Clone()
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	conf.ServerName = cmp.Or(conf.ServerName, h.At.Hostname())
	conf.NextProtos = []string{"h2", "http/1.1"}
	conn := tls.Client(nc, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		p.Verdict = Unreachable
		reason, advice, known := h.Explain(err)
		if !known || errors.Is(err, context.DeadlineExceeded) {
			reason, advice = strings.TrimPrefix(reason, "tls: "), "check the server's log"
		}
		p.problem("tls", advice, "%s", reason)
		return false
	}
	state := conn.ConnectionState()
	leaf := state.PeerCertificates[0]
	left := time.Until(leaf.NotAfter)
	text := fmt.Sprintf("%s, %s, certificate %s", tls.VersionName(state.Version), cmp.Or(state.NegotiatedProtocol, "http/1.1"), httpclient.DescribeCertificate(leaf))
	if life := leaf.NotAfter.Sub(leaf.NotBefore); left < soon && left < life/4 {
		p.problem("tls", "renew the certificate", "%s, which is soon", text)
	} else {
		p.ok("tls", "%s", text)
	}
	return true
}
