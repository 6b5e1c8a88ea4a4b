package authserver

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// The paths of sign-ins at a server. Each server has its own to come back to, so that an
// answer of one authorization server cannot be taken for that of another.
const (
	serverPath   = "/oauth/servers/"
	signInPage   = "/sign-in"
	serverReturn = "/callback"
)

// MaxServerSignIns is how many sign-ins at servers wait for browsers at once.
const MaxServerSignIns = 1024

// A ServerSignIn is a sign-in at a server behind us that waits for the browser of one of our users. What
// that user gets there is used for all requests of the principal, so nobody else may complete it: not
// somebody who was sent the page, nor somebody who was sent to the authorization server.
type ServerSignIn struct {
	// Server is the name that the server has here, and Principal whose browser it must be.
	Server, Principal string

	// URL is where the user signs in, and State what the browser brings back from there.
	URL, State string

	// Expires is when it is not waited for any more.
	Expires time.Time

	// Take is given what the browser has brought, or nil if the user does not want to sign in.
	// The error is for the user.
	Take func(url.Values) error
}

// page stands for the sign-in in the address of its page. The state cannot be told from it, and one
// that continues in another process has the same.
func (v *ServerSignIn) page() string { return mac([]byte(v.State), "page of a visit") }

// ServerSignIns are all that are waited for. They outlive the Server that shows their pages, and
// nothing else knows them. The zero value has none. Any number of goroutines may use it.
type ServerSignIns struct {
	mu   sync.Mutex
	list map[string]*ServerSignIn // by page; guarded by mu
}

// Begin has a sign-in waited for until end, or until it expires.
func (l *ServerSignIns) Begin(v *ServerSignIn) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.list) >= MaxServerSignIns {
		maps.DeleteFunc(l.list, func(_ string, v *ServerSignIn) bool { return !now.Before(v.Expires) })
	}
	if len(l.list) >= MaxServerSignIns {
		return nil, errors.New("too many users are signing in; try again in a few minutes")
	}
	if l.list == nil {
		l.list = make(map[string]*ServerSignIn)
	}
	l.list[v.page()] = v
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.list[v.page()] == v {
			delete(l.list, v.page())
		}
	}, nil
}

// find returns the sign-in at a server that a page is of, or nil.
func (l *ServerSignIns) find(page, server string) *ServerSignIn {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.list[page]
	if v == nil || v.Server != server || !time.Now().Before(v.Expires) {
		return nil
	}
	return v
}

// Knows reports whether it can be told in a browser that its user is a principal.
func (s *Server) Knows(principal string) bool { return s.provider.reader.Names(principal) }

// Callback returns where the browser comes back to from a sign-in at a server.
func (s *Server) Callback(server string) string { return s.issuer + serverPath + server + serverReturn }

// Page returns the address of the page that the user of a sign-in is shown.
func (s *Server) Page(v *ServerSignIn) string {
	return s.issuer + serverPath + v.Server + signInPage + "?" + url.Values{"id": {v.page()}}.Encode()
}

// atServer returns who answers at a path of a server, or nil.
func (s *Server) atServer(path string) http.HandlerFunc {
	rest, ok := strings.CutPrefix(path, serverPath)
	server, rest, cut := strings.Cut(rest, "/")
	if !ok || !cut || server == "" || s.opts.ServerSignIns == nil {
		return nil
	}
	switch "/" + rest {
	case signInPage:
		return func(w http.ResponseWriter, r *http.Request) { s.serverSignIn(w, r, server) }
	case serverReturn:
		return func(w http.ResponseWriter, r *http.Request) { s.serverSignInDone(w, r, server) }
	}
	return nil
}

func (s *Server) serverSignInEvent(kind, who string, v *ServerSignIn) {
	if s.opts.OnEvent != nil {
		s.opts.OnEvent(kind, who, v.Server)
	}
}

const notWaited = "Nobody waits for this sign-in: it was completed or given up, or took longer than five minutes."

// serverSignIn finds out who is in the browser, and after that takes the answer to the page that asks.
func (s *Server) serverSignIn(w http.ResponseWriter, r *http.Request, server string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		s.agreed(w, r, server)
		return
	default:
		httpserver.NotAllowed(r, "GET, POST").Write(w)
		return
	}
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		s.fail(w, http.StatusBadRequest, "The address of this page is damaged.")
		return
	}
	v := s.opts.ServerSignIns.find(query.Get("id"), server)
	if v == nil {
		s.fail(w, http.StatusNotFound, notWaited)
		return
	}
	s.toProvider(w, r, &transaction{ServerSignIn: v.page(), Server: server})
}

// A pass is what the user of a browser is asked about a sign-in at a server.
type pass struct {
	ServerSignIn string `json:"v"`
	Principal    string `json:"p"`
	Browser      digest `json:"b"`
	Until        int64  `json:"u"`
}

// askServerSignIn asks the user who has come back from the provider, if it is the right one.
func (s *Server) askServerSignIn(w http.ResponseWriter, r *http.Request, t *transaction, query url.Values) {
	v := s.opts.ServerSignIns.find(t.ServerSignIn, t.Server)
	if v == nil {
		s.fail(w, http.StatusNotFound, notWaited)
		return
	}
	who, e := s.identified(r, t, query)
	if e != nil {
		s.fail(w, http.StatusForbidden, e.text)
		return
	}
	if who.Principal != v.Principal {
		s.log.Warn("somebody else has opened the page of a user's sign-in", "server", v.Server, "user", v.Principal, "opened by", who.Principal)
		s.serverSignInEvent("stranger", who.Principal, v)
		s.fail(w, http.StatusForbidden, "This page is for another user than the one who is signed in in this browser. If somebody has sent it to you, tell whoever runs this server.")
		return
	}
	to, err := url.Parse(v.URL)
	if err != nil {
		s.fail(w, http.StatusInternalServerError, "The page of the server cannot be read.")
		return
	}
	p := pass{v.page(), who.Principal, s.browser(w, r), v.Expires.Unix()}
	s.show(w, http.StatusOK, serverSignInPage, &page{
		Title: "Sign in to " + v.Server + "?", Name: v.Server, User: strings.TrimPrefix(who.Principal, "user:"), Provider: to.Host,
		Action: serverPath + v.Server + signInPage, Ticket: s.sealer.Seal("pass", "", p),
	})
}

// agreed sends the browser on to where the user signs in. From then on the sign-in can be completed in
// this browser alone.
func (s *Server) agreed(w http.ResponseWriter, r *http.Request, server string) {
	form, err := readForm(w, r)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var p pass
	valid := s.sealer.Open(form.Get("ticket"), "pass", "", &p) == nil && time.Now().Unix() < p.Until
	if !valid || !s.fromPage(r, p.Browser) {
		s.fail(w, http.StatusBadRequest, "This page is too old, or was opened in another browser.")
		return
	}
	v := s.opts.ServerSignIns.find(p.ServerSignIn, server)
	switch {
	case v == nil || v.Principal != p.Principal:
		s.fail(w, http.StatusNotFound, notWaited)
		return
	case form.Get("answer") != "allow":
		_ = v.Take(nil) // it says what the user knows
		s.fail(w, http.StatusOK, "You have not agreed.")
		return
	}
	t := &transaction{ServerSignIn: p.ServerSignIn, Server: server, Principal: p.Principal, State: v.State, Until: p.Until}
	if !s.keepTransaction(w, r, t) {
		s.fail(w, http.StatusInternalServerError, "The name of the server or of the user is too long.")
		return
	}
	s.leave(w, r, v.URL)
}

// serverSignInDone is where the server's authorization server sends the browser back to.
func (s *Server) serverSignInDone(w http.ResponseWriter, r *http.Request, server string) {
	if r.Method != http.MethodGet {
		httpserver.NotAllowed(r, "GET").Write(w)
		return
	}
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		s.fail(w, http.StatusBadRequest, "The answer of the server's authorization server cannot be read.")
		return
	}
	// First, so that the browser keeps what it has if the sign-in is waited for again, and can come again.
	v := s.opts.ServerSignIns.find((&ServerSignIn{State: query.Get("state")}).page(), server)
	if v == nil {
		s.fail(w, http.StatusNotFound, notWaited+" If your application asks for it again, reload this page after that.")
		return
	}
	t := s.takeTransaction(w, r, v.State)
	if t == nil || t.Principal != v.Principal || t.ServerSignIn != v.page() {
		s.log.Warn("a sign-in has come back in another browser than it was begun in, or for the second time", "server", v.Server, "user", v.Principal)
		s.serverSignInEvent("stranger", "", v)
		s.fail(w, http.StatusForbidden, "This sign-in was begun in another browser, or has been completed already.")
		return
	}
	if err := v.Take(query); err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s.serverSignInEvent("connect", v.Principal, v)
	s.show(w, http.StatusOK, donePage, &page{Title: "You are signed in", Name: v.Server})
}
