package authtest

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A Browser goes where pages lead it, keeps cookies, and has a user who answers forms.
type Browser struct {
	// Answer is the button that the user presses. If empty, "allow"; "-" presses none.
	Answer string

	// Stop, if not nil, reports whether the browser stays where it would go next.
	Stop func(*url.URL) bool

	// Seen are the pages that were shown, the last one last. It is looked at when no visit is
	// in progress.
	Seen []*Page

	mu     sync.Mutex // guards Seen while there are several visits
	client http.Client
}

// A Page is what a browser shows, or where it stayed.
type Page struct {
	URL    *url.URL
	Status int
	Header http.Header
	Body   string
}

// NewBrowser returns one without any cookies, on a network. If that is nil, it is the
// machine's.
func NewBrowser(network http.RoundTripper) *Browser {
	jar, _ := cookiejar.New(nil) // never fails
	return &Browser{client: http.Client{
		Transport: network, Jar: jar, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Cookies returns those that it would send.
func (b *Browser) Cookies(at string) []*http.Cookie {
	u, err := url.Parse(at)
	if err != nil {
		return nil
	}
	return b.client.Jar.Cookies(u)
}

// SetCookies has it keep some.
func (b *Browser) SetCookies(at string, list []*http.Cookie) {
	if u, err := url.Parse(at); err == nil {
		b.client.Jar.SetCookies(u, list)
	}
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]*)"`)
	formInput  = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

// Visit goes to a URL, and on from there as long as there is a way. It returns the last page.
func (b *Browser) Visit(at string) (*Page, error) {
	next, err := http.NewRequest(http.MethodGet, at, http.NoBody)
	for range 20 {
		if err != nil {
			return nil, err
		}
		if b.Stop != nil && b.Stop(next.URL) || next.URL.Scheme != "http" && next.URL.Scheme != "https" {
			return &Page{URL: next.URL}, nil
		}
		p, err := b.load(next)
		if err != nil {
			return nil, err
		}
		if next, err = b.follow(p); next == nil {
			return p, err
		}
	}
	return nil, errors.New("the browser is led in circles")
}

func (b *Browser) load(req *http.Request) (*Page, error) {
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	p := &Page{URL: req.URL, Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
	b.mu.Lock()
	b.Seen = append(b.Seen, p)
	b.mu.Unlock()
	return p, err
}

// follow returns the request that a page leads to, or nil.
func (b *Browser) follow(p *Page) (*http.Request, error) {
	to := p.Header.Get("Location")
	if _, refresh, ok := strings.Cut(p.Header.Get("Refresh"), "url="); ok {
		to = refresh
	}
	if to != "" {
		u, err := p.URL.Parse(to)
		if err != nil {
			return nil, err
		}
		return &http.Request{Method: http.MethodGet, URL: u, Header: make(http.Header)}, nil
	}
	form := formAction.FindStringSubmatch(p.Body)
	if form == nil || b.Answer == "-" {
		return nil, nil
	}
	return b.Submit(p, b.Answer)
}

// Submit returns the request that the form of a page makes, with a button.
func (b *Browser) Submit(p *Page, button string) (*http.Request, error) {
	form := formAction.FindStringSubmatch(p.Body)
	if form == nil {
		return nil, fmt.Errorf("there is no form on the page at %s", p.URL)
	}
	if button == "" {
		button = "allow"
	}
	values := url.Values{"answer": {button}}
	for _, m := range formInput.FindAllStringSubmatch(p.Body, -1) {
		values.Set(m[1], html.UnescapeString(m[2]))
	}
	to, err := p.URL.Parse(html.UnescapeString(form[1]))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, to.String(), strings.NewReader(values.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", p.URL.Scheme+"://"+p.URL.Host)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return req, nil
}

// Send makes a request with the browser's cookies, and goes nowhere from there.
func (b *Browser) Send(req *http.Request) (*Page, error) { return b.load(req) }
