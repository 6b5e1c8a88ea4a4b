// Package token seals and tags what clients carry for us: states of calls, cursors, ids of tasks,
// registrations, cookies. A sealed text can neither be read nor changed; a tagged one can be read. Both are
// bound to a purpose and a principal, so that one that was given to another principal, or for something else, is not
// accepted. What a text holds beside that, such as when it expires, is up to its owner.
package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
)

// KeySize is how many bytes a key has.
const KeySize = 32

// NewKey returns a key for as long as the process lives.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// Derive returns the key for one purpose.
func Derive(key []byte, purpose string) []byte {
	out, err := hkdf.Key(sha256.New, key, nil, "dragoman "+purpose, KeySize)
	if err != nil {
		panic(err) // the length is one that there is
	}
	return out
}

// Why a text cannot be opened.
var (
	ErrAltered = errors.New("has been altered, or was never given out here")
	ErrForeign = errors.New("was given out by another instance of the gateway, or has been altered")
)

// A Sealer seals values. It is safe for concurrent use.
type Sealer struct {
	aead     cipher.AEAD
	instance string
}

// NewSealer returns a sealer with a key of KeySize bytes. instance stands in front of each text, so that
// those of other sealers are known; it may be empty.
func NewSealer(key []byte, instance string) *Sealer {
	block, err := aes.NewCipher(key)
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return &Sealer{aead, instance}
		}
	}
	panic(err) // the key has the right size
}

// Seal returns a value as a text of letters, digits, - and _ for a principal.
func (s *Sealer) Seal(purpose, principal string, value any) string {
	plain, err := json.Marshal(value)
	if err != nil {
		panic(err) // values are structs that always encode
	}
	sealed := s.aead.Seal([]byte(s.instance), nil, plain, s.bound(purpose, principal)) // #nosec G407 -- the cipher makes its nonce: NewGCMWithRandomNonce
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// Open reads a text that was sealed for this purpose and principal into value. The error is ErrAltered or
// ErrForeign.
func (s *Sealer) Open(text, purpose, principal string, value any) error {
	// Strict, so that no second spelling of the same bytes passes.
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	n := len(s.instance)
	switch {
	case err != nil || len(b) < n:
		return ErrAltered
	case string(b[:n]) != s.instance:
		return ErrForeign
	}
	plain, err := s.aead.Open(nil, nil, b[n:], s.bound(purpose, principal))
	if err != nil || json.Unmarshal(plain, value) != nil {
		return ErrAltered
	}
	return nil
}

func (s *Sealer) bound(purpose, principal string) []byte {
	return join(nil, s.instance, purpose, principal)
}

// join appends texts so that different lists differ.
func join(to []byte, parts ...string) []byte {
	for _, part := range parts {
		to = strconv.AppendInt(to, int64(len(part)), 10)
		to = append(append(append(to, ' '), part...), ' ')
	}
	return to
}

// A Tag proves to the holder of the key that a text was given to a principal for a purpose.
type Tag [16]byte

// TagOf returns the tag of a text.
func TagOf(key []byte, purpose, principal, text string) Tag {
	var buf [128]byte
	mac := hmac.New(sha256.New, key)
	mac.Write(join(buf[:0], purpose, principal, text))
	return Tag(mac.Sum(nil)[:len(Tag{})])
}

// String returns the tag as letters, digits, - and _.
func (t Tag) String() string { return base64.RawURLEncoding.EncodeToString(t[:]) }

// Is reports whether text is the tag's, in a time that does not depend on where they differ.
func (t Tag) Is(text string) bool { return hmac.Equal([]byte(t.String()), []byte(text)) }
