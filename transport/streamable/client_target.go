package streamable

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// clientUnixPath is the endpoint on a Unix socket if the URL names none.
const clientUnixPath = "/mcp"

// target reads the URL and makes the HTTP client that reaches it.
func (c *Client) target() error {
	o := &c.opts
	var socket string
	o.url = c.URL
	if rest, ok := strings.CutPrefix(c.URL, "unix://"); ok {
		path := clientUnixPath
		socket = rest
		if i := strings.LastIndex(rest, ":/"); i >= 0 {
			socket, path = rest[:i], rest[i+1:]
		}
		if !strings.HasPrefix(socket, "/") {
			return fmt.Errorf("streamable: %q has no absolute path of a socket", c.URL)
		}
		o.url = "http://localhost" + path
	}
	u, err := url.Parse(o.url)
	switch {
	case err != nil:
		return errors.New("streamable: the URL cannot be read") // it may hold a password
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("streamable: the URL's scheme is %q; it must be http, https or unix", u.Scheme)
	case u.Host == "":
		return errors.New("streamable: the URL names no host")
	}
	o.url = u.String()
	o.own = c.HTTP == nil
	switch {
	case c.HTTP == nil:
		o.http = &http.Client{Transport: c.transport(socket)}
	case socket != "":
		return errors.New("streamable: a Unix socket needs the client's own HTTP client")
	default:
		own := *c.HTTP
		o.http = &own
	}
	if o.http.CheckRedirect == nil {
		o.http.CheckRedirect = clientRedirect
	}
	return nil
}

// transport returns what reaches the server over TCP, or over a Unix socket.
func (c *Client) transport(socket string) *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           d.DialContext,
		TLSClientConfig:       c.TLS.Clone(),
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	if socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		}
	}
	return t
}

// clientRedirect follows a redirect that stays on its origin and keeps the
// method. All others are answers, and no good ones.
func clientRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) >= 10 || req.Method != first.Method ||
		req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}
