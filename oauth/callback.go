package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// maxCallback is how long the head of a callback may be; a code is part of it.
const maxCallback = 64 << 10

// redirect returns where a new sign-in comes back to.
func (s *Source) redirect() string {
	host, path := s.conf.CallbackHost, s.conf.CallbackPath
	if host == "" {
		host = "127.0.0.1"
	}
	if path == "" {
		path = "/callback"
	}
	return "http://" + net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(s.conf.CallbackPort)) + path
}

// redirectFits reports whether an address is one that a new sign-in could come back to.
func (s *Source) redirectFits(redirect string, at *Callback) bool {
	if at != nil {
		return redirect == at.URI
	}
	want, err := url.Parse(s.redirect())
	got, failed := url.Parse(redirect)
	return err == nil && failed == nil && got.Scheme == want.Scheme && got.Hostname() == want.Hostname() && got.Path == want.Path &&
		(want.Port() == "0" || got.Port() == want.Port())
}

// callback returns where a new sign-in comes back to, or nil if that is this machine.
func (s *Source) callback() *Callback {
	c := &s.conf
	if c.Callback == nil || c.CallbackHost != "" || c.CallbackPort != 0 || c.CallbackPath != "" {
		return nil
	}
	return c.Callback()
}

// A codeWaiter waits for the browser of one sign-in, which comes back from the authorization
// server with a code.
type codeWaiter struct {
	redirect, state string
	as              *oidc.Metadata
	outcome         chan outcome // gets the first
	close           func()       // ends the waiting

	mu    sync.Mutex
	first *outcome
}

type outcome struct {
	code string
	err  error
}

func newCodeWaiter(redirect, state string, as *oidc.Metadata) *codeWaiter {
	return &codeWaiter{redirect: redirect, state: state, as: as, outcome: make(chan outcome, 1), close: func() {}}
}

// wait returns the code that the browser brings.
func (w *codeWaiter) wait(ctx context.Context) (string, error) {
	select {
	case o := <-w.outcome:
		return o.code, o.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// open has a callback wait for the browser of a sign-in whose user is sent to a URL, and returns
// the page that the user is told.
func (w *codeWaiter) open(at *Callback, to string, expires time.Time) (page string, err error) {
	page, end, err := at.Open(&SignIn{URL: to, State: w.state, Expires: expires, Take: func(answer url.Values) error { return w.take(answer).err }})
	if err == nil {
		w.close = end
	}
	return page, err
}

// A listener waits for a browser on this machine.
type listener struct {
	*codeWaiter
	host, path string // of redirect
}

// listenAt listens at a redirect address; port 0 becomes a free one.
func listenAt(redirect, state string, as *oidc.Metadata) (*codeWaiter, error) {
	u, err := url.Parse(redirect)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	u.Host = net.JoinHostPort(u.Hostname(), port)
	b := &listener{codeWaiter: newCodeWaiter(u.String(), state, as), host: strings.TrimSuffix(u.Host, ":80"), path: u.Path}
	server := &http.Server{Handler: http.HandlerFunc(b.serve), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: maxCallback}
	go func() { _ = server.Serve(l) }() // ends with close
	b.close = func() {
		// It stops listening once the page has been shown.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // whoever is slow has seen enough
		}
	}
	return b.codeWaiter, nil
}

// serve takes what the browser brings. Somebody else's, with another state, changes
// nothing, and neither does what comes under another name: a page of the web that has bound
// its own name to this machine.
func (b *listener) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch state := q["state"]; {
	case !strings.EqualFold(strings.TrimSuffix(r.Host, ":80"), b.host):
		show(w, http.StatusMisdirectedRequest, "Nothing is here under this name", "Close this page.")
		return
	case strings.TrimSuffix(r.URL.Path, "/") != strings.TrimSuffix(b.path, "/"):
		show(w, http.StatusNotFound, "Nothing is here", "Close this page.")
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		show(w, http.StatusMethodNotAllowed, "Nothing can be sent here", "Close this page.")
		return
	case len(state) != 1 || subtle.ConstantTimeCompare([]byte(state[0]), []byte(b.state)) != 1:
		show(w, http.StatusBadRequest, "This is not the sign-in that is waited for", "Close this page and use the newest one.")
		return
	}
	if o := b.take(q); o.err != nil {
		show(w, http.StatusBadRequest, "Sign-in failed", o.err.Error())
		return
	}
	show(w, http.StatusOK, "You are signed in", "You can close this page and go back to where you came from.")
}

// take returns the first answer, whichever this is: who reloads the page sees it again.
func (w *codeWaiter) take(q url.Values) outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		o := w.read(q)
		w.first = &o
		w.outcome <- o
	}
	return *w.first
}

// read checks that an answer is from the authorization server that was asked (RFC 9207).
func (w *codeWaiter) read(q url.Values) outcome {
	iss, said := q["iss"]
	switch {
	case q == nil:
		return outcome{err: errors.New("the user did not agree to sign in")}
	case said && (len(iss) != 1 || iss[0] != w.as.Issuer):
		return outcome{err: errors.New("the answer is from another authorization server than the one that was asked")}
	case !said && w.as.IssParameter:
		return outcome{err: errors.New("the answer does not say which authorization server it is from, as it should")}
	case q.Get("error") != "":
		return outcome{err: fmt.Errorf("the authorization server says %s", clean(q.Get("error"), q.Get("error_description")))}
	case q.Get("code") == "":
		return outcome{err: errors.New("the authorization server sent no code")}
	case len(q["code"]) > 1:
		return outcome{err: errors.New("the authorization server sent more than one code")}
	}
	return outcome{code: q.Get("code")}
}

// clean returns what a stranger says, in a line.
func clean(code, description string) string {
	text := code
	if description != "" {
		text += ": " + description
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // nor what turns a line around, or ends it
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return redact.Cut(text, 200)
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>body{font:1.1rem system-ui,sans-serif;max-width:34rem;margin:20vh auto;padding:0 1rem;color-scheme:light dark}</style>
<h1>{{.Title}}</h1><p>{{.Text}}</p>
`))

// show shows a page that loads nothing and goes nowhere.
func show(w http.ResponseWriter, status int, title, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	w.WriteHeader(status)
	_ = page.Execute(w, struct{ Title, Text string }{title, text}) // a browser that is gone needs none
}
