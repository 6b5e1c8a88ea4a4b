package authserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
)

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
