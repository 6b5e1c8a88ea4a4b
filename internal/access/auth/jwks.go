package auth

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

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
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

// A keyStore has the keys of an issuer. They are fetched when somebody needs them, by one for
// all: first of all, when they have become old, and when a token names one that is not there.
type keyStore struct {
	issuer string
	load   func(context.Context) (claimSet, error)
	client *oidc.Client // nil if they are in a file
	limit  time.Duration
	log    *slog.Logger

	attempt syncs.Flight[struct{}]
	group   syncs.Group        // of the one attempt under way
	ctx     context.Context    // of attempts; ends with close
	cancel  context.CancelFunc // ends them

	mu      sync.Mutex
	keys    []*publicKey // as fetched last; not changed
	fetched time.Time    // when that was
	tried   time.Time    // when the last attempt began
	err     error        // how it ended
}

func newKeyStore(o *JWTOptions) (*keyStore, error) {
	s := &keyStore{issuer: o.Issuer, limit: o.KeysFor, log: httpserver.Logger(o.Logger)}
	if s.limit <= 0 {
		s.limit = keysFor
	}
	s.limit = max(s.limit, keysPause)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	switch {
	case o.KeysURL != "" && o.KeysFile != "":
		return nil, errors.New("auth: keys come from a URL or from a file, not both")
	case o.KeysFile != "":
		s.load = func(context.Context) (claimSet, error) { return readKeys(o.KeysFile) }
		if err := s.fetch(); err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		return s, nil
	}
	issuer, err := oidc.ParseURL(o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("auth: the URL of the issuer %w", err)
	}
	opts := &oidc.Options{Network: o.Network, Server: issuer, OpenID: true}
	if o.KeysURL != "" {
		at, err := oidc.ParseURL(o.KeysURL)
		if err != nil {
			return nil, fmt.Errorf("auth: the URL of the keys %w", err)
		}
		opts.Trusted = []string{at.Host}
	}
	s.client = oidc.New(opts)
	s.load = func(ctx context.Context) (claimSet, error) { return s.download(ctx, o.KeysURL) }
	return s, nil
}

// download fetches the keys at a URL. If it is empty, the issuer's metadata has it; that is read
// each time, since it may change.
func (s *keyStore) download(ctx context.Context, at string) (claimSet, error) {
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
	doc, err := decodeObject(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return doc, nil
}

func (s *keyStore) close() {
	s.cancel()
	s.group.Wait()
	if s.client != nil {
		s.client.Close()
	}
}

func readKeys(path string) (claimSet, error) {
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
	doc, err := decodeObject(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// find returns the keys that a token may be signed with, at least one. The error says
// whether there are none, or that cannot be told.
func (s *keyStore) find(ctx context.Context, alg, kid string) ([]*publicKey, error) {
	keys, age, _ := s.current()
	if age >= s.limit {
		err := s.refresh(ctx)
		if keys, age, _ = s.current(); age >= s.limit {
			return nil, &unavailableError{fmt.Errorf("there are no keys of %s: %w", s.issuer, err)}
		}
	}
	if found := matching(keys, alg, kid, false); len(found) > 0 {
		if age >= keysFresh {
			_ = s.refresh(ended) // begins, and is not waited for
		}
		return found, nil
	}
	if err := s.refresh(ctx); ctx.Err() != nil {
		return nil, &unavailableError{err}
	}
	keys, _, err := s.current()
	if found := matching(keys, alg, kid, true); len(found) > 0 {
		return found, nil
	}
	if err != nil {
		return nil, &unavailableError{fmt.Errorf("it may be signed with a new key of %s: %w", s.issuer, err)}
	}
	return nil, invalid("the token is signed with a key that its issuer does not have")
}

// ended is the context of somebody who does not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// current returns the keys, how long ago they were fetched, and the error of the last attempt.
func (s *keyStore) current() (keys []*publicKey, age time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetched.IsZero() {
		return nil, s.limit, s.err
	}
	return s.keys, time.Since(s.fetched), s.err
}

// paused reports whether the last attempt was only just made, and how it ended.
func (s *keyStore) paused() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.tried.IsZero() && time.Since(s.tried) < keysPause, s.err
}

// refresh fetches the keys, or waits for who does, until ctx ends. Strangers can have that
// done by naming keys that do not exist, so there is a pause after each time.
func (s *keyStore) refresh(ctx context.Context) error {
	start := s.group.Start
	if paused, _ := s.paused(); paused {
		start = syncs.OnCaller // which does nothing, unless it joins an attempt under way
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
func (s *keyStore) fetch() error {
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
		s.log.Warn("the keys of an issuer cannot be fetched; those that are known are used for a while", "issuer", s.issuer, "error", err)
	case err == nil && before != nil:
		s.log.Info("the keys of an issuer are there again", "issuer", s.issuer)
	case left != nil && len(keys) == 0:
		s.log.Warn("an issuer has no keys that can be used", "issuer", s.issuer, "reason", left)
	}
	return err
}

// matching returns those of the keys that a token may be signed with. If it names a key, one
// without a name counts only if there is no other and unnamed says so.
func matching(keys []*publicKey, alg, kid string, unnamed bool) []*publicKey {
	var named, others []*publicKey
	for _, k := range keys {
		switch {
		case !algorithms[alg].fits(k.public) || k.alg != "" && k.alg != alg:
		case kid == "" || k.kid == kid:
			named = append(named, k)
		case k.kid == "":
			others = append(others, k)
		}
	}
	if len(named) == 0 && unnamed {
		return others
	}
	return named
}
