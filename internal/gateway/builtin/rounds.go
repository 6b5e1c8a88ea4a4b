package builtin

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// stateLife is how long a client may take to come back with its answers.
const stateLife = 10 * time.Minute

// rounds is what a call of the modern era knows about its earlier rounds. The
// server keeps nothing between them: it all comes with the request.
type rounds struct {
	current answers  // answers of this round
	earlier answers  // answers of earlier rounds, out of the state
	asked   []string // keys of what was asked, by the state

	// sealed says that answers count only if the state shows that their
	// questions were asked. Set by the handler's table.
	sealed bool
}

// used reports whether answers of the client have gone into the result.
func (r *rounds) used() bool { return len(r.current)+len(r.earlier) > 0 }

// take returns the answers to questions. If some are missing, the error is a
// *needInput that asks for them.
func (r *rounds) take(questions []question) (answers, error) {
	got := make(answers)
	var missing []question
	for _, q := range questions {
		answer, ok := r.earlier[q.key]
		if !ok && (!r.sealed || slices.Contains(r.asked, q.key)) {
			answer, ok = r.current[q.key]
		}
		// An answer that does not fit is asked for again, as a missing one is.
		if !ok || q.check(answer) != nil {
			missing = append(missing, q)
			continue
		}
		got[q.key] = answer
	}
	if missing == nil {
		if r.earlier == nil {
			r.earlier = make(answers)
		}
		maps.Copy(r.earlier, got)
		return got, nil
	}
	keep := maps.Clone(got)
	maps.Copy(keep, r.earlier)
	return nil, &needInput{questions: missing, keep: keep}
}

// needInput ends a round of a call: the client is to answer questions and call
// again.
type needInput struct {
	questions []question
	keep      answers // what need not be asked again
}

func (*needInput) Error() string { return "builtin: input required" }

// result returns the result that asks the questions.
func (n *needInput) result(c *call) (any, error) {
	requests := object{}
	var asked []string
	for _, q := range n.questions {
		requests[q.key] = object{"method": q.method, "params": q.paramsFor(c.rev, 0)}
		asked = append(asked, q.key)
	}
	result := object{"resultType": protocol.ResultInputRequired, "inputRequests": requests}
	if c.rounds.sealed || len(n.keep) > 0 {
		state, err := c.seal(state{Expires: time.Now().Add(stateLife).Unix(), Asked: asked, Earlier: n.keep})
		if err != nil {
			return nil, err
		}
		result["requestState"] = state
	}
	return result, nil
}

// readRounds reads inputResponses and requestState of a request.
func (c *call) readRounds() *dragoman.Error {
	if given := c.req.Get("inputResponses"); given != nil {
		if !isObject(given) || json.Unmarshal(given, &c.rounds.current) != nil {
			return invalid("params.inputResponses must be an object with an answer for each key of inputRequests")
		}
		for _, key := range slices.Sorted(maps.Keys(c.rounds.current)) {
			if !isObject(c.rounds.current[key]) {
				return invalid("params.inputResponses: the answer for %q must be a result object", key)
			}
		}
	}
	sealed := c.req.Get("requestState")
	if sealed == nil {
		return nil
	}
	st, err := c.open(sealed)
	if err != nil {
		return err
	}
	if time.Now().Unix() > st.Expires {
		return invalid("params.requestState has expired; call again without it and without inputResponses")
	}
	c.rounds.asked, c.rounds.earlier = st.Asked, st.Earlier
	return nil
}

// A state is what a requestState holds. It is encrypted, for the client could
// not be able to read it, and must not be able to change it.
type state struct {
	Expires int64    `json:"exp"`
	Asked   []string `json:"asked,omitempty"`
	Earlier answers  `json:"earlier,omitempty"`
}

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

// seal returns a state as a string that only this server can open, and only
// for a call with the same method and params.
func (c *call) seal(st state) (string, error) {
	plain, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	same, err := c.digest()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(c.server.sealer.Seal(nil, nil, plain, same)), nil // #nosec G407 -- the cipher makes its nonce: NewGCMWithRandomNonce
}

// open is the reverse of seal; text is a JSON string.
func (c *call) open(text json.RawMessage) (state, *dragoman.Error) {
	var st state
	wrong := invalid("params.requestState is not one that this server gave for this call; " +
		"send it back as it came, with the same params, or call without it and without inputResponses")
	var sealed string
	if json.Unmarshal(text, &sealed) != nil {
		return st, wrong
	}
	// Strict, so that no second spelling of the same bytes passes.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return st, wrong
	}
	same, err := c.digest()
	if err != nil {
		return st, wrong
	}
	plain, err := c.server.sealer.Open(nil, nil, b, same)
	if err != nil || json.Unmarshal(plain, &st) != nil {
		return st, wrong
	}
	return st, nil
}

// digest returns what two rounds of one call have in common: the method and the
// params without those that change. A client may write them anew, in another
// order.
func (c *call) digest() ([]byte, error) {
	params := object{}
	d := json.NewDecoder(bytes.NewReader(c.req.Params()))
	d.UseNumber()
	if err := d.Decode(&params); err != nil {
		return nil, err
	}
	for _, name := range []string{"_meta", "inputResponses", "requestState"} {
		delete(params, name)
	}
	text, err := json.Marshal([]any{c.req.Method(), params})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}
