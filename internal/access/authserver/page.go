package authserver

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:3em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.4em}dt{font-weight:bold}dd{margin:0 0 .6em;overflow-wrap:anywhere}
button{font:inherit;padding:.5em 1.4em;margin-right:.6em;border:1px solid #888;border-radius:.3em;background:#f4f4f4;color:#222;cursor:pointer}
button[value=allow]{background:#1a5fb4;border-color:#1a5fb4;color:#fff}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#1c1c1c}button{background:#333;color:#ddd}}`

// security is what pages of ours may do: show text and send a form to us.
var security = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

const head = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">
<title>{{.Title}}</title><style>` + style + `</style></head><body><h1>{{.Title}}</h1>
`

var consentPage = template.Must(template.New("consent").Parse(head + `<p>An application wants to use {{.Us}} in your name.</p>
<dl>
<dt>It calls itself</dt><dd>{{or .Name "nothing"}}{{if not .Host}} (nobody has checked this){{end}}</dd>
{{with .Host}}<dt>It is published by</dt><dd>{{.}}</dd>
{{end}}<dt>It gets the access at</dt><dd>{{.Redirect}}</dd>
{{with .Scopes}}<dt>It asks for</dt><dd>{{range $i, $s := .}}{{if $i}}, {{end}}{{$s}}{{end}}</dd>
{{end}}</dl>
<p>Allow this only if you have just begun to sign in from that application. You sign in at {{.Provider}} next.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="ticket" value="{{.Ticket}}">
<button id="agree" name="answer" value="allow">Allow</button><button id="refuse" name="answer" value="deny">Cancel</button></form>
</body></html>
`))

var serverSignInPage = template.Must(template.New("server sign-in").Parse(head + `<p>{{.Us}} signs in to a server for you, and uses it in your name from then on.</p>
<dl>
<dt>The server</dt><dd>{{.Name}}</dd>
<dt>You sign in at</dt><dd>{{.Provider}}</dd>
<dt>It is used for requests of</dt><dd>{{.User}}</dd>
</dl>
<p>Continue only if that is you, and you have just used this server from an application of yours. If you got this page as a link from another person, cancel.</p>
<form method="post" action="{{.Action}}"><input type="hidden" name="ticket" value="{{.Ticket}}">
<button id="agree" name="answer" value="allow">Continue</button><button id="refuse" name="answer" value="deny">Cancel</button></form>
</body></html>
`))

var donePage = template.Must(template.New("done").Parse(head + `<p>{{.Us}} can use {{.Name}} for you. You can close this page and go back to your application.</p>
</body></html>
`))

var failurePage = template.Must(template.New("failure").Parse(head + `<p>{{.Text}}</p>
<p>Go back to your application and sign in again. If this page comes back, show it to whoever runs {{.Us}}.</p>
</body></html>
`))

var leavingPage = template.Must(template.New("leaving").Parse(head + `<p><a href="{{.Link}}">Continue</a> if nothing happens. You can close this window afterwards.</p>
</body></html>
`))

// A page is what templates show.
type page struct {
	Title, Us, Name, Host, User, Redirect, Provider, Action, Ticket, Text string
	Scopes                                                                []string
	Link                                                                  template.URL // it has been checked
}

func (s *Server) show(w http.ResponseWriter, status int, t *template.Template, p *page) {
	p.Us = strings.TrimPrefix(s.issuer, "https://")
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", security)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with none at all the form would have no origin
	h.Set("Cache-Control", "no-store")
	var b strings.Builder
	if err := t.Execute(&b, p); err != nil {
		s.log.Error("a page cannot be made", "error", err)
		status = http.StatusInternalServerError
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // some know none
	w.WriteHeader(status)
	_, _ = w.Write([]byte(b.String())) // who asked may have left
}

func (s *Server) showConsent(w http.ResponseWriter, c *client, q *request, ticket string) {
	provider := s.opts.Provider.Issuer
	if u, err := url.Parse(provider); err == nil {
		provider = u.Host
	}
	s.show(w, http.StatusOK, consentPage, &page{
		Title: "Allow access?", Name: c.name, Host: c.host, Redirect: redirectName(q.Redirect), Scopes: q.Scopes,
		Provider: provider, Action: authorizePath, Ticket: ticket,
	})
}

// fail shows a page that says what is wrong, to the user.
func (s *Server) fail(w http.ResponseWriter, status int, text string) {
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	s.show(w, status, failurePage, &page{Title: "You are not signed in", Text: text})
}

// leave sends the browser elsewhere: to the provider, or back to a client, whose redirect URI has been
// checked. A form is answered by a page that leads there, because a browser holds the whole way that a
// form takes against what the page with the form may do.
func (s *Server) leave(w http.ResponseWriter, r *http.Request, to string) {
	if r.Method == http.MethodPost {
		w.Header().Set("Refresh", "0; url="+to)
		s.show(w, http.StatusOK, leavingPage, &page{Title: "Continuing", Link: template.URL(to)})
		return
	}
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusFound)
}
