package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

const (
	keysFor   = time.Hour        // keys are used so long after they were fetched
	keysFresh = 10 * time.Minute // older ones are used, and fetched again in the background
	keysPause = 10 * time.Second // between two times that they are fetched
	keysTime  = 10 * time.Second // that it may take, metadata included

	maxKeysFile = 1 << 20 // bytes
)

// KeySetOptions configures a KeySet.
type KeySetOptions struct {
	// Issuer is the issuer whose keys they are.
	Issuer string

	// URL is where the keys are (RFC 7517), or File a file that has them. If both are empty,
	// they are where the issuer's metadata says.
	URL, File string

	// MaxAge is how long keys are used after they were fetched last, if they cannot be fetched
	// again: an hour if it is zero, and ten seconds at least. After that no token can be
	// verified.
	MaxAge time.Duration

	// Network is how the issuer is reached.
	Network Network

	// Logger receives failures to fetch keys. It may be nil.
	Logger *slog.Logger
}

// A KeySet has the keys of an issuer. They are fetched once for all that wait: for the first
// token, when they have become old, and when a token names a key that is not in the set. Any
// number of goroutines may use it.
type KeySet struct {
	issuer string
	load   func(context.Context) (Claims, error)
	client *Client // nil if they are in a file
	limit  time.Duration
	log    *slog.Logger

	attempt syncs.Flight[struct{}]
	group   syncs.Group        // of the attempt in flight
	ctx     context.Context    // of attempts; ends with Close
	cancel  context.CancelFunc // ends them

	mu      sync.Mutex
	keys    []*publicKey // as fetched last; not changed
	fetched time.Time    // when that was
	tried   time.Time    // when the last attempt began
	err     error        // how it ended
}

// NewKeySet returns the keys of an issuer, which the caller closes. Keys in a file are read
// immediately, too.
func NewKeySet(o *KeySetOptions) (*KeySet, error) {
	s := &KeySet{issuer: o.Issuer, limit: o.MaxAge, log: httpserver.Logger(o.Logger)}
	if s.limit <= 0 {
		s.limit = keysFor
	}
	s.limit = max(s.limit, keysPause)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	switch {
	case o.URL != "" && o.File != "":
		return nil, errors.New("keys come from a URL or from a file, not both")
	case o.File != "":
		s.load = func(context.Context) (Claims, error) { return readKeys(o.File) }
		if err := s.fetch(); err != nil {
			return nil, err
		}
		return s, nil
	}
	issuer, err := ParseURL(o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("the URL of the issuer %w", err)
	}
	opts := &Options{Network: o.Network, Server: issuer, OpenID: true}
	if o.URL != "" {
		at, err := ParseURL(o.URL)
		if err != nil {
			return nil, fmt.Errorf("the URL of the keys %w", err)
		}
		opts.Trusted = []string{at.Host}
	}
	s.client = New(opts)
	s.load = func(ctx context.Context) (Claims, error) { return s.download(ctx, o.URL) }
	return s, nil
}

// download fetches the keys at a URL. If it is empty, the issuer's metadata has it; that is read
// each time, since it may change.
func (s *KeySet) download(ctx context.Context, at string) (Claims, error) {
	var err error
	if at == "" {
		if at, err = s.client.KeysURL(ctx, s.issuer); err != nil {
			return nil, err
		}
	}
	status, text, err := s.client.Ask(ctx, http.MethodGet, at, nil, nil)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s answered %d", at, status)
	}
	doc, err := ParseClaims(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return doc, nil
}

// Close ends the fetching of keys. The set is not used after that.
func (s *KeySet) Close() {
	s.cancel()
	s.group.Wait()
	if s.client != nil {
		s.client.Close()
	}
}

func readKeys(path string) (Claims, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeysFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxKeysFile:
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxKeysFile)
	}
	doc, err := ParseClaims(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// Verify returns an error unless a token is signed with a key of the issuer: an *InvalidError, or
// an *UnavailableError if that cannot be found out now.
func (s *KeySet) Verify(ctx context.Context, t *JWS) error {
	keys, err := s.find(ctx, t)
	switch {
	case err != nil:
		return err
	case len(keys) > maxTries:
		return Invalid("the token does not say with which key it is signed (kid), and the issuer has more than %d", maxTries)
	case !t.signedBy(keys):
		return Invalid("the signature of the token is wrong")
	}
	return nil
}

// find returns the keys that a token may be signed with, at least one.
func (s *KeySet) find(ctx context.Context, t *JWS) ([]*publicKey, error) {
	keys, age, _ := s.current()
	if age >= s.limit {
		err := s.refresh(ctx)
		if keys, age, _ = s.current(); age >= s.limit {
			return nil, &UnavailableError{fmt.Errorf("the keys of %s are not available: %w", s.issuer, err)}
		}
	}
	if found := t.matching(keys, false); len(found) > 0 {
		if age >= keysFresh {
			_ = s.refresh(ended) // starts it, without waiting
		}
		return found, nil
	}
	if err := s.refresh(ctx); ctx.Err() != nil {
		return nil, &UnavailableError{err}
	}
	keys, _, err := s.current()
	if found := t.matching(keys, true); len(found) > 0 {
		return found, nil
	}
	if err != nil {
		return nil, &UnavailableError{fmt.Errorf("the token may be signed with a new key of %s: %w", s.issuer, err)}
	}
	return nil, Invalid("the token is signed with a key that its issuer does not have")
}

// ended is the context of a caller that does not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// current returns the keys, how long ago they were fetched, and the error of the last attempt.
func (s *KeySet) current() (keys []*publicKey, age time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetched.IsZero() {
		return nil, s.limit, s.err
	}
	return s.keys, time.Since(s.fetched), s.err
}

// paused reports whether the last attempt was only just made, and how it ended.
func (s *KeySet) paused() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.tried.IsZero() && time.Since(s.tried) < keysPause, s.err
}

// refresh fetches the keys, or waits for an attempt in flight, until ctx ends. Tokens with unknown
// keys, which anyone can send, cause that too, so there is a pause after each attempt.
func (s *KeySet) refresh(ctx context.Context) error {
	start := s.group.Start
	if paused, _ := s.paused(); paused {
		start = syncs.OnCaller // which does nothing, unless it joins an attempt in flight
	}
	s.attempt.Forget(nil)
	_, err := s.attempt.Get(ctx, start, func() (struct{}, error) {
		if paused, err := s.paused(); paused {
			return struct{}{}, err
		}
		return struct{}{}, s.fetch()
	})
	return err
}

// fetch fetches the keys.
func (s *KeySet) fetch() error {
	s.mu.Lock()
	s.tried = time.Now()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, keysTime)
	defer cancel()
	doc, err := s.load(ctx)
	var keys []*publicKey
	var left error
	if err == nil {
		keys, left, err = parseKeys(doc)
	}
	s.mu.Lock()
	before := s.err
	if s.err = err; err == nil {
		s.keys, s.fetched = keys, time.Now()
	}
	s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
	case err != nil && before == nil:
		s.log.Warn("fetching the keys of an issuer failed; known keys are used for a while", "issuer", s.issuer, "error", err)
	case err == nil && before != nil:
		s.log.Info("the keys of an issuer are available again", "issuer", s.issuer)
	case left != nil && len(keys) == 0:
		s.log.Warn("an issuer has no usable keys", "issuer", s.issuer, "reason", left)
	}
	return err
}
