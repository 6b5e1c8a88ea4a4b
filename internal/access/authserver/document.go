package authserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

const (
	maxDocument   = 64 << 10         // bytes of a client's metadata document
	documentFor   = 10 * time.Minute // it is used
	documentPause = 30 * time.Second // after one that could not be had
	maxDocuments  = 1024             // that are remembered
	maxFetches    = 8                // at once
	maxDocumentID = 512              // bytes of its URL
)

// errBusy says that too many documents are fetched at once.
var errBusy = errors.New("too many sign-ins begin at once; try again in a few seconds")

// documents are the metadata documents of clients whose id is the URL of one. A stranger
// chooses the URL, so only public addresses are used, and redirects are not followed.
type documents struct {
	client  *oidc.Client
	schemes []string
	slots   chan struct{} // one for each that is fetched

	mu    sync.Mutex
	known map[string]*fetched // guarded by mu
}

type fetched struct {
	client *client
	err    error
	at     time.Time
	until  time.Time
}

func newDocuments(network oidc.Network, schemes []string) *documents {
	return &documents{
		client:  oidc.New(&oidc.Options{Network: network, MaxBody: maxDocument}),
		schemes: schemes, slots: make(chan struct{}, maxFetches), known: make(map[string]*fetched),
	}
}

// isDocument reports whether a client's id is meant to be the URL of its document.
func isDocument(id string) bool { return strings.HasPrefix(id, "https://") }

// checkDocumentID returns an error unless an id can be the URL of a document.
func checkDocumentID(id string) (*url.URL, error) {
	if len(id) > maxDocumentID {
		return nil, fmt.Errorf("the client's id has more than %d bytes", maxDocumentID)
	}
	u, err := oidc.ParseURL(id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the client's id %w", err)
	case u.Path == "" || u.Path == "/" || u.RawQuery != "" || u.ForceQuery || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/"):
		return nil, errors.New("the client's id must be an https URL with a plain path and no query")
	}
	return u, nil
}

// find returns the client whose document is at a URL. If newer is true, what was fetched just now
// counts alone: the client may have other keys.
func (d *documents) find(ctx context.Context, id string, newer bool) (*client, error) {
	u, err := checkDocumentID(id)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	f := d.known[id]
	d.mu.Unlock()
	if f != nil && time.Now().Before(f.until) && (!newer || time.Since(f.at) < documentPause) {
		return f.client, f.err
	}
	select {
	case d.slots <- struct{}{}:
	default:
		return nil, errBusy
	}
	c, err := d.fetch(ctx, u, id)
	<-d.slots
	if ctx.Err() != nil {
		return nil, errBusy // it says nothing about the document
	}
	now := time.Now()
	f = &fetched{c, err, now, now.Add(documentFor)}
	if err != nil {
		f.until = now.Add(documentPause)
	}
	d.keep(id, f)
	return c, err
}

// keep remembers a document, in the place of another if there are too many.
func (d *documents) keep(id string, f *fetched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxDocuments {
		now := time.Now()
		for other, f := range d.known {
			if !now.Before(f.until) {
				delete(d.known, other)
			}
		}
		for other := range d.known {
			if len(d.known) < maxDocuments {
				break
			}
			delete(d.known, other)
		}
	}
	d.known[id] = f
}

// get fetches a JSON object.
func (d *documents) get(ctx context.Context, from string, v any) error {
	status, text, err := d.client.Ask(ctx, http.MethodGet, from, nil, nil)
	switch {
	case errors.Is(err, oidc.ErrAddress):
		return errors.New("its address is not public")
	case err != nil: // an error would show clients what the network is like
		return errors.New("it cannot be fetched")
	case status != http.StatusOK:
		return fmt.Errorf("it cannot be fetched: status %d", status)
	}
	return readJSON(bytes.NewReader(text), maxDocument, v)
}

func (d *documents) fetch(ctx context.Context, u *url.URL, id string) (*client, error) {
	var g registration
	if err := d.get(ctx, id, &g); err != nil {
		return nil, fmt.Errorf("the client's document: %w", err)
	}
	c, err := d.read(&g, u, id)
	if err != nil || g.Method != oidc.MethodKey {
		return c, err
	}
	if g.KeysURL != "" {
		if !isDocument(g.KeysURL) {
			return nil, errors.New("the client's document: its keys must be at an https URL (jwks_uri)")
		}
		if err := d.get(ctx, g.KeysURL, &g.Keys); err != nil {
			return nil, fmt.Errorf("the client's keys (jwks_uri): %w", err)
		}
	}
	if c.keys, err = oidc.ParseKeys(g.Keys); err != nil {
		return nil, fmt.Errorf("the client's keys: %w", err)
	}
	return c, nil
}

func (d *documents) read(g *registration, u *url.URL, id string) (*client, error) {
	if g.ID != id {
		return nil, errors.New("the client's document is about another client (client_id)")
	}
	if !slices.Contains([]string{"", oidc.MethodNone, oidc.MethodKey}, g.Method) {
		return nil, errors.New("the client's document wants to prove who it is in a way that is not known here (token_endpoint_auth_method): none and private_key_jwt are")
	}
	if e := g.check(d.schemes); e != nil {
		return nil, fmt.Errorf("the client's document: %s", e.text)
	}
	c := &client{id: id, name: cleanName(g.Name), host: u.Host}
	for _, uri := range g.Redirects {
		c.redirects = append(c.redirects, redirectMark(uri))
	}
	return c, nil
}
