package authserver

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	maxTransactions = 4                   // of one browser; the oldest is given up
	maxTransaction  = 2 << 10             // bytes of one, sealed
	transactionFor  = 10 * time.Minute    // a user may take so long at the provider
	maxConsents     = 16                  // that a browser remembers; the oldest is asked again
	consentFor      = 30 * 24 * time.Hour // it is remembered

	stateMark = 8 // characters of the state that are in a cookie's name
)

// cookie sets a cookie of ours. By https no other host and nobody on the way can set one of
// its name (__Host-); by http, on this machine, browsers do not offer that.
func (s *Server) cookie(w http.ResponseWriter, name, value string, lasts time.Duration) {
	age := int(lasts.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: age,
		Secure: s.secure, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // it comes along when the provider leads back here
	})
}

func (s *Server) cookieName(name string) string {
	if s.secure {
		return "__Host-dragoman-" + name
	}
	return "dragoman-" + name
}

// cookieOf returns the value of a cookie of ours. One that is there twice was not set by us
// alone, and does not count.
func (s *Server) cookieOf(r *http.Request, name string) string {
	list := r.CookiesNamed(s.cookieName(name))
	if len(list) != 1 {
		return ""
	}
	return list[0].Value
}

// browser returns what tells a browser from all others, and gives it that if need be.
func (s *Server) browser(w http.ResponseWriter, r *http.Request) digest {
	id := s.cookieOf(r, "browser")
	if len(id) != len(rand.Text()) {
		id = rand.Text()
		s.cookie(w, "browser", id, 24*time.Hour)
	}
	return digestOf(id)
}

// A transaction is a sign-in in progress. It is in a cookie of the browser that it continues in, so
// no other browser can end it.
type transaction struct {
	Request *request `json:"r,omitempty"` // of the client that it is for, or nil

	// If it is for a sign-in at a server: which, and who the user has proven to be. As long as that is empty, the
	// browser is at the provider, after that at the server's authorization server.
	ServerSignIn string `json:"i,omitempty"`
	Server       string `json:"h,omitempty"`
	Principal    string `json:"p,omitempty"`

	State    string `json:"s"` // what comes back
	Nonce    string `json:"n,omitempty"`
	Verifier string `json:"v,omitempty"`
	Until    int64  `json:"u"`
}

func (t *transaction) name() string { return "t-" + strings.ToLower(t.State[:stateMark]) }

// keepTransaction has the browser keep a transaction, and reports whether it fits.
func (s *Server) keepTransaction(w http.ResponseWriter, r *http.Request, t *transaction) bool {
	text := s.sealer.Seal("transaction", "", t)
	if len(text) > maxTransaction {
		return false
	}
	s.forgetTransactions(w, r)
	s.cookie(w, t.name(), text, transactionFor)
	return true
}

// forgetTransactions has the browser forget what it has begun and not ended, except for the
// newest: all of them come with every request.
func (s *Server) forgetTransactions(w http.ResponseWriter, r *http.Request) {
	type held struct {
		name  string
		until int64
	}
	var list []held
	prefix := s.cookieName("t-")
	for _, c := range r.Cookies() {
		mark, ok := strings.CutPrefix(c.Name, prefix)
		if !ok || strings.ContainsFunc(mark, func(c rune) bool { return c < '2' || c > 'z' }) {
			continue
		}
		var t transaction
		_ = s.sealer.Open(c.Value, "transaction", "", &t) // otherwise it is the oldest
		list = append(list, held{"t-" + mark, t.Until})
	}
	slices.SortFunc(list, func(a, b held) int { return int(b.until - a.until) })
	for i, h := range list {
		if i >= maxTransactions-1 {
			s.cookie(w, h.name, "", 0)
		}
	}
}

// takeTransaction returns the transaction that a state belongs to, once, or nil. The browser
// forgets it.
func (s *Server) takeTransaction(w http.ResponseWriter, r *http.Request, state string) *transaction {
	if len(state) != len(rand.Text()) || strings.Trim(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return nil
	}
	t := &transaction{State: state}
	text := s.cookieOf(r, t.name())
	if text == "" || s.sealer.Open(text, "transaction", "", t) != nil || !digestOf(t.State).is(digestOf(state)) {
		return nil
	}
	s.cookie(w, t.name(), "", 0)
	if time.Now().Unix() >= t.Until || !s.used.add(state, transactionFor) {
		return nil
	}
	return t
}

// A consent is what a user has agreed to in a browser.
type consent struct {
	Mark  string   `json:"m"` // of client and redirect URI
	Scope []string `json:"s,omitempty"`
	Until int64    `json:"u"`
}

// consents returns what a browser remembers.
func (s *Server) consents(r *http.Request) (list []consent) {
	_ = s.sealer.Open(s.cookieOf(r, "consent"), "consent", "", &list) // an invalid cookie counts as absent
	now := time.Now().Unix()
	return slices.DeleteFunc(list, func(c consent) bool { return c.Until <= now })
}

// remembers reports whether the user of a browser has agreed to a request before. Only who
// gets codes by https is remembered: on one machine any program can be at a port, and say
// that it is another.
func (s *Server) remembers(r *http.Request, q *request) bool {
	return strings.HasPrefix(q.Redirect, "https://") && slices.ContainsFunc(s.consents(r), func(c consent) bool {
		return c.Mark == q.mark() && !slices.ContainsFunc(q.Scopes, func(scope string) bool { return !slices.Contains(c.Scope, scope) })
	})
}

// remember has a browser remember that its user has agreed.
func (s *Server) remember(w http.ResponseWriter, r *http.Request, q *request) {
	if !strings.HasPrefix(q.Redirect, "https://") {
		return
	}
	list := slices.DeleteFunc(s.consents(r), func(c consent) bool { return c.Mark == q.mark() })
	list = append([]consent{{q.mark(), q.Scopes, time.Now().Add(consentFor).Unix()}}, list...)
	for range maxConsents {
		list = list[:min(len(list), maxConsents)]
		text := s.sealer.Seal("consent", "", list)
		if len(text) <= maxTransaction || len(list) == 1 {
			s.cookie(w, "consent", text, consentFor)
			return
		}
		list = list[:len(list)-1]
	}
}
