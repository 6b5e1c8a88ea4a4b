package era

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// stateLife is how long a client may take over the answers of a round.
const stateLife = 10 * time.Minute

// A callState is what the requestState of a call of [FromMethods] holds. The server keeps
// nothing between rounds. The state is encrypted: the client has no use for it.
type callState struct {
	Expires int64    `json:"exp"`
	Asked   []string `json:"asked,omitempty"`
	Earlier answers  `json:"earlier,omitempty"`
}

// newSealer returns a cipher with a key of its own.
func newSealer() cipher.AEAD {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right size
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has the right size
	}
	return sealer
}

// seal returns a requestState that only this server can read, and only for a call with the
// same method, params and principal.
func (c *Call) seal(asked []string, earlier answers) (string, error) {
	plain, err := json.Marshal(callState{time.Now().Add(stateLife).Unix(), asked, earlier})
	if err != nil {
		return "", err
	}
	same, err := c.digest()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(c.server.sealer.Seal(nil, nil, plain, same)), nil // #nosec G407 -- the cipher makes its nonce: NewGCMWithRandomNonce
}

// unseal reads a requestState, which is JSON text.
func (c *Call) unseal(text json.RawMessage) *dragoman.Error {
	var st callState
	if !c.read(text, &st) {
		return invalid("params.requestState is not one that this server gave for this call; " +
			"send it back as it came, with the same params, or call without it and without inputResponses")
	}
	if time.Now().Unix() > st.Expires {
		return invalid("params.requestState has expired; call again without it and without inputResponses")
	}
	c.asked, c.earlier = st.Asked, st.Earlier
	return nil
}

func (c *Call) read(text json.RawMessage, st *callState) bool {
	var sealed string
	if json.Unmarshal(text, &sealed) != nil {
		return false
	}
	// Strict, so that no second spelling of the same bytes passes.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return false
	}
	same, err := c.digest()
	if err != nil {
		return false
	}
	plain, err := c.server.sealer.Open(nil, nil, b, same)
	return err == nil && json.Unmarshal(plain, st) == nil
}

// digest returns what all rounds of a call have in common: the principal, the method, and
// the params without those that change. A client may write them in another order.
func (c *Call) digest() ([]byte, error) {
	params := make(map[string]any)
	d := json.NewDecoder(bytes.NewReader(c.req.Params()))
	d.UseNumber()
	if err := d.Decode(&params); err != nil {
		return nil, err
	}
	for _, name := range []string{"_meta", "inputResponses", "requestState"} {
		delete(params, name)
	}
	text, err := json.Marshal([]any{c.principal, c.req.Method(), params})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}
