package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// DirVariable names the environment variable that says where sign-ins are kept.
const DirVariable = "DRAGOMAN_AUTH_DIR"

// maxFile is the largest file that a store reads, in bytes.
const maxFile = 1 << 20

// A Store keeps sign-ins: in a directory, for all processes of a user, or in memory.
type Store struct {
	files files
	dir   string // empty in memory

	mu    sync.Mutex
	locks map[string]chan struct{} // by file: holds a value while a goroutine of ours has the lock
}

// NewMemory returns a store that ends with the process.
func NewMemory() *Store {
	return &Store{files: &memory{text: make(map[string][]byte)}, locks: make(map[string]chan struct{})}
}

// DefaultDir returns the directory in which the sign-ins of this user are kept:
// $DRAGOMAN_AUTH_DIR, or else one in the user's configuration.
func DefaultDir() (string, error) {
	if dir := os.Getenv(DirVariable); dir != "" {
		return dir, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("oauth: there is no directory for sign-ins (%w); set %s", err, DirVariable)
	}
	return filepath.Join(dir, "dragoman", "auth"), nil
}

// OpenStore opens the store in a directory, which is made if it is not there.
func OpenStore(dir string) (*Store, error) {
	root, err := openRoot(dir, true)
	if err != nil {
		return nil, err
	}
	return &Store{files: newDirectory(root, dir), dir: dir, locks: make(map[string]chan struct{})}, nil
}

// Close ends the use of the directory. What is kept stays.
func (s *Store) Close() error { return s.files.close() }

// Endings of file names: a sign-in, one that is in progress, and the locks of both.
const (
	recordFile  = ".json"
	pendingFile = ".pending"
	recordLock  = ".lock"
	signInLock  = ".signin"
)

// A record is a sign-in at a server, as it is kept.
type record struct {
	Server  string `json:"server"`
	Subject string `json:"subject,omitempty"` // whose it is; empty for the user's own

	Resource string             `json:"resource,omitempty"` // as the server publishes it
	Scopes   []string           `json:"scopesSupported,omitempty"`
	Guessed  bool               `json:"guessed,omitempty"` // the server says nothing of its authorization server
	AS       *oidc.Metadata     `json:"authorizationServer,omitempty"`
	Clients  map[string]*client `json:"clients,omitempty"` // who we are, by issuer

	Client   string    `json:"client,omitempty"` // whose the tokens are
	Access   string    `json:"accessToken,omitempty"`
	Refresh  string    `json:"refreshToken,omitempty"`
	Obtained time.Time `json:"obtained,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // zero: nobody knows
	Scope    string    `json:"scope,omitempty"`  // what the tokens are for
	Asked    string    `json:"asked,omitempty"`  // what was asked for
	User     string    `json:"who,omitempty"`    // for people
}

// A client is who we are at an authorization server: because we registered there, or because
// somebody signed in with a client that was configured.
type client struct {
	Registered bool      `json:"ours,omitempty"` // we registered it
	ID         string    `json:"id"`
	Secret     string    `json:"secret,omitempty"`
	Method     string    `json:"method,omitempty"`
	Redirect   string    `json:"redirect,omitempty"` // that it is registered with
	Expires    time.Time `json:"expires,omitzero"`   // of the secret; zero: never
}

// A pending sign-in waits for its user. It is kept so that another process can continue
// with it if the one that waits ends.
type pending struct {
	Issuer    string    `json:"issuer"`
	ClientID  string    `json:"clientId"`
	Scope     string    `json:"scope,omitempty"`
	Redirect  string    `json:"redirect,omitempty"`
	Elsewhere bool      `json:"elsewhere,omitempty"` // Redirect is that of a Callback
	State     string    `json:"state,omitempty"`
	Verifier  string    `json:"verifier,omitempty"`
	Prompt    Prompt    `json:"prompt"`
	Shown     bool      `json:"shown,omitempty"`
	Failed    string    `json:"failed,omitempty"` // why it is over
	FailedAt  time.Time `json:"failedAt,omitzero"`
}

// keyOf returns the name of a sign-in's files.
func keyOf(server, subject string) string {
	sum := sha256.Sum256([]byte(server + "\n" + subject))
	return hex.EncodeToString(sum[:16])
}

// read reads a file into v and reports whether it is there. A damaged file counts as
// absent: it can be written again by signing in.
func (s *Store) read(name string, v any) (bool, error) {
	text, err := s.files.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, s.unreadable(name, err)
	}
	return json.Unmarshal(text, v) == nil, nil
}

// unreadable says of a file that it cannot be read, and what to do.
func (s *Store) unreadable(name string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the path follows, as a whole
	}
	advice := "delete that file and sign in again"
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fileutil.ErrExposed) {
		advice = "chmod 600 that file, or delete it and sign in again"
	}
	return fmt.Errorf("oauth: a sign-in cannot be read: %s: %w; %s", filepath.Join(s.dir, name), err, advice)
}

// write puts a file in the place of the one that is there.
func (s *Store) write(name string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = s.files.write(name, text)
	}
	if err != nil {
		return fmt.Errorf("oauth: a sign-in cannot be kept: %w", err)
	}
	return nil
}

// remove deletes a file, if it is there.
func (s *Store) remove(name string) error {
	if err := s.files.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("oauth: a sign-in cannot be deleted: %w", err)
	}
	return nil
}

// lock locks a file against other goroutines and other processes.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	held := s.lockOf(name)
	select {
	case held <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return s.lockFile(name, held, func(f *os.File) error { return fileutil.Lock(ctx, f) })
}

// tryLock is lock that does not wait: it returns [filelock.ErrLocked] instead.
func (s *Store) tryLock(name string) (unlock func(), err error) {
	held := s.lockOf(name)
	select {
	case held <- struct{}{}:
	default:
		return nil, fileutil.ErrLocked
	}
	return s.lockFile(name, held, fileutil.TryLock)
}

// lockOf returns what keeps goroutines apart that want the same lock.
func (s *Store) lockOf(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.locks[name]
	if held == nil {
		held = make(chan struct{}, 1)
		s.locks[name] = held
	}
	return held
}

func (s *Store) lockFile(name string, held chan struct{}, lock func(*os.File) error) (unlock func(), err error) {
	f, err := s.files.open(name)
	if f == nil && err == nil {
		return func() { <-held }, nil
	}
	if err == nil {
		if err = lock(f); err == nil {
			return func() { _ = f.Close(); <-held }, nil // nothing was written that could be lost
		}
		_ = f.Close()
	}
	<-held
	return nil, fmt.Errorf("oauth: a sign-in cannot be locked: %w", err)
}

// records returns all sign-ins that are kept, in the order of their servers. Files that
// cannot be read are left out; each is an error.
func (s *Store) records() ([]*record, error) {
	names, err := s.files.names()
	if err != nil {
		return nil, fmt.Errorf("oauth: the sign-ins cannot be listed: %w", err)
	}
	var (
		list []*record
		bad  []error
	)
	for _, name := range names {
		if !strings.HasSuffix(name, recordFile) {
			continue
		}
		text, err := s.files.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has been deleted meanwhile
		}
		var r record
		if err == nil && (json.Unmarshal(text, &r) != nil || r.Server == "") {
			err = errors.New("it is damaged")
		}
		if err != nil {
			bad = append(bad, s.unreadable(name, err))
			continue
		}
		list = append(list, &r)
	}
	slices.SortFunc(list, func(a, b *record) int {
		return strings.Compare(a.Server+"\n"+a.Subject, b.Server+"\n"+b.Subject)
	})
	return list, errors.Join(bad...)
}
