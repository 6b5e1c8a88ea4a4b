package oauth

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// A Status is what can be said of a sign-in. It has no secrets.
type Status struct {
	// Server is the URL of the server, and Subject whose sign-in it is, if not the user's
	// own.
	Server  string `json:"server"`
	Subject string `json:"subject,omitempty"`

	// SignedIn reports whether there is a token, and Renewable whether there will be
	// another one without a sign-in when it ends.
	SignedIn  bool `json:"signedIn"`
	Renewable bool `json:"renewable"`

	// User is signed in, as the authorization server says; often it does not.
	User string `json:"who,omitempty"`

	// Issuer is the authorization server, Scope what the token is for.
	Issuer string `json:"issuer,omitempty"`
	Scope  string `json:"scope,omitempty"`

	// Expires is when the token ends; zero if nobody knows.
	Expires time.Time `json:"expires,omitzero"`
}

// Status returns what is kept of the sign-in.
func (s *Source) Status() (Status, error) {
	r, err := s.load()
	if err != nil {
		return Status{}, err
	}
	return r.status(), nil
}

// Statuses returns those of all sign-ins that are kept and can be read. The error names the
// files that cannot, a line for each.
func (s *Store) Statuses() ([]Status, error) {
	records, err := s.records()
	list := make([]Status, 0, len(records))
	for _, r := range records {
		list = append(list, r.status())
	}
	return list, err
}

func (r *record) status() Status {
	st := Status{
		Server: r.Server, Subject: r.Subject, SignedIn: r.valid(time.Now()) || r.Refresh != "", Renewable: r.Refresh != "",
		User: r.User, Scope: r.Scope, Expires: r.Expires,
	}
	if r.AS != nil {
		st.Issuer = r.AS.Issuer
	}
	return st
}

// nameOf returns who an ID token is about, for people. Nothing depends on it, so its
// signature does not matter.
func nameOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Email string `json:"email"`
		Login string `json:"preferred_username"`
		Name  string `json:"name"`
		Sub   string `json:"sub"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return ""
	}
	for _, name := range []string{claims.Email, claims.Login, claims.Name, claims.Sub} {
		if name != "" {
			return clean(name, "")
		}
	}
	return ""
}
