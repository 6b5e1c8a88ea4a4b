package authserver

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
)

// derive returns the key for one purpose.
func derive(key []byte, purpose string) []byte {
	out, err := hkdf.Key(sha256.New, key, nil, "dragoman "+purpose, store.KeySize)
	if err != nil {
		panic(err) // the length is one that there is
	}
	return out
}

// A box seals values that others keep for us: they can neither read nor change them, nor use
// them for another purpose.
type box struct{ aead cipher.AEAD }

func newBox(key []byte, purpose string) box {
	block, err := aes.NewCipher(derive(key, purpose))
	if err == nil {
		var aead cipher.AEAD
		if aead, err = cipher.NewGCMWithRandomNonce(block); err == nil {
			return box{aead}
		}
	}
	panic(err) // the key has the right length
}

// seal returns a value as a text of letters, digits, - and _.
func (b box) seal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts, numbers and lists of those always encode
	}
	return base64.RawURLEncoding.EncodeToString(b.aead.Seal(nil, nil, text, nil))
}

// open reads a value that was sealed here, and reports whether it was.
func (b box) open(text string, v any) bool {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := b.aead.Open(nil, nil, sealed, nil)
	return err == nil && json.Unmarshal(plain, v) == nil
}

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// mac returns a secret that only who has the key can make of a text.
func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return letters.EncodeToString(h.Sum(nil)[:secretBytes])
}

// newSecret returns a secret that nobody can guess, as long as those of mac.
func newSecret() string {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return letters.EncodeToString(b[:])
}

const (
	secretBytes = 20 // 160 bits
	secretChars = 32 // as text
)

// A digest stands for a secret.
type digest [sha256.Size]byte

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// is compares in a time that tells nothing.
func (d digest) is(other digest) bool { return hmac.Equal(d[:], other[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d digest) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(d[:])), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *digest) UnmarshalText(text []byte) error {
	n, err := hex.Decode(d[:], text[:min(len(text), 2*len(d))])
	if err != nil || n != len(d) || len(text) != 2*n {
		return errors.New("authserver: no digest")
	}
	return nil
}
