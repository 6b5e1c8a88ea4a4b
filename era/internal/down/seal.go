package down

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/dragoman-mcp/dragoman"
)

// A sealer makes texts that clients carry for us and can neither read nor change.
// Its key is this instance's alone. The name of the instance stands in front, in
// clear, so that others can tell whose they are.
type sealer struct {
	aead     cipher.AEAD
	instance [8]byte
}

func newSealer() sealer {
	var s sealer
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

// seal returns value as such a text. What was sealed for one use cannot be opened
// for another.
func (s *sealer) seal(use string, value any) string {
	plain, err := json.Marshal(value)
	if err != nil {
		panic(err) // values are of our own types, which encode
	}
	sealed := s.aead.Seal(s.instance[:8:8], nil, plain, s.bound(use))
	return base64.RawURLEncoding.EncodeToString(sealed)
}

func (s *sealer) bound(use string) []byte { return append([]byte(use), s.instance[:]...) }

var (
	errAltered = errors.New("has been altered, or was never given out here")
	errForeign = errors.New("was given out by another instance of the gateway, or has been altered")
)

// open reads such a text, which is a JSON string, into value.
func (s *sealer) open(text json.RawMessage, use string, value any) error {
	var sealed string
	if json.Unmarshal(text, &sealed) != nil {
		return errAltered
	}
	// Strict, so that no second spelling of the same bytes passes.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(b) < len(s.instance) {
		return errAltered
	}
	if [8]byte(b[:8]) != s.instance {
		return errForeign
	}
	plain, err := s.aead.Open(nil, nil, b[8:], s.bound(use))
	if err != nil || json.Unmarshal(plain, value) != nil {
		return errAltered
	}
	return nil
}

// opens is open for those who do not want to know what is wrong.
func (s *sealer) opens(text json.RawMessage, use string, value any) bool {
	return s.open(text, use, value) == nil
}

// digest returns what all requests of one call have in common: the method and the
// params without those that change from round to round. A client may write them
// anew, in another order.
func digest(req *dragoman.Message) ([]byte, error) {
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
	if rest, err = canonical(rest); err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write([]byte(req.Method() + "\n"))
	h.Write(rest)
	return h.Sum(nil), nil
}
