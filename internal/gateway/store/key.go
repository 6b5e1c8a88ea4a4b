package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
)

// maxKeyFile is how much of a key file is read, in bytes.
const maxKeyFile = 1024

// LoadKey returns the key in a file of a directory; both are made if they do not exist. Other users must not be
// able to write to the directory, nor to read the file. Processes that begin at once get the same key.
func LoadKey(dir, name string) ([]byte, error) {
	root, err := fileutil.OpenPrivateDir(dir, fileutil.NoWrite, true)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	text, err := fileutil.ReadPrivateFile(root, name, maxKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(root, name); err == nil || errors.Is(err, fs.ErrExist) { // another process was faster
			text, err = fileutil.ReadPrivateFile(root, name, maxKeyFile)
		}
	}
	var key []byte
	if err == nil {
		if key, err = hex.DecodeString(strings.TrimSpace(string(text))); err != nil || len(key) != token.KeySize {
			err = errors.New("it is not a key")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w; delete it: a new one is made, and what was issued with the old one is no longer valid", filepath.Join(dir, name), err)
	}
	return key, nil
}

// makeKey makes the file as a whole, or not at all.
func makeKey(root *os.Root, name string) error {
	temp := name + "." + rand.Text()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(token.NewKey()) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = root.Link(temp, name) // which fails if it is there
	}
	_ = root.Remove(temp) // what is left does no harm
	return err
}
