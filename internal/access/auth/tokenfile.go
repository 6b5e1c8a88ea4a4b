package auth

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// maxTokenFile bounds a file of tokens.
const maxTokenFile = 4 << 20

// storedTokens is how tokens are written to a file.
type storedTokens struct {
	Tokens []storedToken `json:"tokens"`
}

type storedToken struct {
	Name    string     `json:"name"`
	SHA256  string     `json:"sha256"`
	Scopes  []string   `json:"scopes,omitempty"`
	Groups  []string   `json:"groups,omitempty"`
	Created *time.Time `json:"created,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

// ReadTokens reads a file of tokens: one that [AddToken] writes, or one with a token in
// each line, as other programs keep their secrets.
func ReadTokens(path string) ([]Token, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxTokenFile:
		return nil, fmt.Errorf("%s is larger than 4 MiB", path)
	}
	list, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

func parseTokens(text []byte) (list []Token, err error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, errors.New("there is no token in it; make one with dragoman token new")
	}
	if text[0] != '{' {
		return parseSecrets(string(text))
	}
	var stored storedTokens
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&stored); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	for _, s := range stored.Tokens {
		t, err := s.token()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(o Token) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("it has two tokens of the name %q", t.Name)
		}
		list = append(list, t)
	}
	return list, nil
}

// parseSecrets reads a token from each line. They have no names but their places.
func parseSecrets(text string) (list []Token, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		t, err := Named(fmt.Sprint(len(list)+1), line)
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", len(list)+1, err)
		}
		list = append(list, t)
	}
	return list, nil
}

func (s *storedToken) token() (Token, error) {
	t := Token{Name: s.Name, Scopes: s.Scopes, Groups: s.Groups}
	if err := CheckName(s.Name); err != nil {
		return t, err
	}
	if n, err := hex.Decode(t.Hash[:], []byte(s.SHA256)); err != nil || n != len(t.Hash) || len(s.SHA256) != 2*n {
		return t, fmt.Errorf("sha256 of token %q is no digest", s.Name)
	}
	if s.Created != nil {
		t.Created = *s.Created
	}
	if s.Expires != nil {
		t.Expires = *s.Expires
	}
	return t, nil
}

func stored(t *Token) storedToken {
	s := storedToken{Name: t.Name, SHA256: hex.EncodeToString(t.Hash[:]), Scopes: t.Scopes, Groups: t.Groups}
	if !t.Created.IsZero() {
		s.Created = &t.Created
	}
	if !t.Expires.IsZero() {
		s.Expires = &t.Expires
	}
	return s
}

// AddToken adds a token to a file, which is made if it is not there.
func AddToken(ctx context.Context, path string, t *Token) error {
	if err := CheckName(t.Name); err != nil {
		return err
	}
	return changeTokens(ctx, path, func(list []Token) ([]Token, error) {
		if slices.ContainsFunc(list, func(o Token) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("there is a token of the name %q in %s; choose another, or dragoman token revoke %s", t.Name, path, t.Name)
		}
		return append(list, *t), nil
	})
}

// RemoveToken removes a token from a file.
func RemoveToken(ctx context.Context, path, name string) error {
	return changeTokens(ctx, path, func(list []Token) ([]Token, error) {
		left := slices.DeleteFunc(slices.Clone(list), func(t Token) bool { return t.Name == name })
		if len(left) == len(list) {
			return nil, fmt.Errorf("there is no token of the name %q in %s; dragoman token list shows them", name, path)
		}
		return left, nil
	})
}

// changeTokens replaces a file of tokens as a whole, one process after another.
func changeTokens(ctx context.Context, path string, change func([]Token) ([]Token, error)) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := fileutil.Lock(ctx, lock); err != nil {
		return err
	}
	list, err := readStored(path)
	if err != nil {
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	out := storedTokens{Tokens: []storedToken{}}
	for i := range list {
		out.Tokens = append(out.Tokens, stored(&list[i]))
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(text, '\n'))
}

// readStored reads a file that we write, or nothing if it is not there.
func readStored(path string) ([]Token, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '{' {
		return nil, fmt.Errorf("%s has tokens as they are, and is not ours to change; name another file", path)
	}
	if len(text) == 0 {
		return nil, nil
	}
	list, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// replaceFile writes a file that only its owner can read, as a whole or not at all.
func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it may be gone
	}
	return err
}
