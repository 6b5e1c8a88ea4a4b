package state

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// KeySize is how many bytes a key has.
const KeySize = 32

// NewKey returns a key for as long as the process lives.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// LoadKey returns the key in a file, which is made if it is not there. Processes that begin at
// once get the same.
func LoadKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil || errors.Is(err, fs.ErrExist) { // another process was faster
			text, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("%s is no key; remove it: a new one is made, and what was given out with the old one is good no more", path)
	}
	return key, nil
}

// makeKey makes the file as a whole, or not at all.
func makeKey(path string) error {
	temp := path + "." + rand.Text()
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(NewKey()) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(temp, path) // which fails if it is there
	}
	_ = os.Remove(temp) // what is left does no harm
	return err
}
