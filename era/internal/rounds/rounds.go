// Package rounds has what input rounds of the modern era need where they are made here: the
// states that clients carry from one round to the next, and their answers.
package rounds

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Sealer makes texts that clients carry for us and can neither read nor change. Its key is
// its own. The name of the instance stands in front, in clear, so that others can tell whose
// they are.
type Sealer struct {
	aead     cipher.AEAD
	instance [8]byte
}

// NewSealer returns a sealer with another key.
func NewSealer() *Sealer {
	s := new(Sealer)
	key := make([]byte, 32)
	rand.Read(key) // never fails
	rand.Read(s.instance[:])
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right size
	}
	if s.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		panic(err) // the block has the right size
	}
	return s
}

// Seal returns value as such a text. What was sealed for one use cannot be opened for
// another.
func (s *Sealer) Seal(use string, value any) string {
	plain, err := json.Marshal(value)
	if err != nil {
		panic(err) // values are of our own types, which encode
	}
	sealed := s.aead.Seal(s.instance[:8:8], nil, plain, s.bound(use)) // #nosec G407 -- the cipher makes its nonce: NewGCMWithRandomNonce
	return base64.RawURLEncoding.EncodeToString(sealed)
}

func (s *Sealer) bound(use string) []byte { return append([]byte(use), s.instance[:]...) }

// Why a text cannot be opened.
var (
	ErrAltered = errors.New("has been altered, or was never given out here")
	ErrForeign = errors.New("was given out by another instance of the gateway, or has been altered")
)

// Open reads such a text, which is a JSON string, into value.
func (s *Sealer) Open(text json.RawMessage, use string, value any) error {
	var sealed string
	if json.Unmarshal(text, &sealed) != nil {
		return ErrAltered
	}
	// Strict, so that no second spelling of the same bytes passes.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(b) < len(s.instance) {
		return ErrAltered
	}
	if [8]byte(b[:8]) != s.instance {
		return ErrForeign
	}
	plain, err := s.aead.Open(nil, nil, b[8:], s.bound(use))
	if err != nil || json.Unmarshal(plain, value) != nil {
		return ErrAltered
	}
	return nil
}

// Digest returns what all requests of one call have in common: the method and the params
// without those that change from round to round. A client may write them in another order.
func Digest(req *dragoman.Message) ([]byte, error) {
	var params map[string]json.RawMessage
	if err := req.Decode(&params); err != nil {
		return nil, err
	}
	for _, name := range [...]string{"_meta", "inputResponses", "requestState"} {
		delete(params, name)
	}
	rest, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if rest, err = Canonical(rest); err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write([]byte(req.Method() + "\n"))
	h.Write(rest)
	return h.Sum(nil), nil
}

// Answers returns the inputResponses of a request, by key. The error is the answer to a
// request that has others.
func Answers(req *dragoman.Message) (map[string]json.RawMessage, *dragoman.Error) {
	given := req.Get("inputResponses")
	if given == nil {
		return nil, nil
	}
	var answers map[string]json.RawMessage
	if !dragoman.IsObject(given) || json.Unmarshal(given, &answers) != nil {
		return nil, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "params.inputResponses must be an object with an answer for each key of inputRequests"}
	}
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		if !dragoman.IsObject(answers[key]) {
			return nil, &dragoman.Error{Code: protocol.CodeInvalidParams, Message: fmt.Sprintf("params.inputResponses: the answer for %q must be a result object", key)}
		}
	}
	return answers, nil
}

// Canonical returns JSON text in the form in which equal values are equal texts:
// members are sorted, and numbers stay as they are spelled.
func Canonical(text json.RawMessage) ([]byte, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
