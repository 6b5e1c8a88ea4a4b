package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxProofs is how many tokens are remembered as verified. Beyond that some are forgotten,
// and verified again when they come.
const maxProofs = 16384

// A digest stands for a token.
type digest [sha256.Size]byte

// digestOf returns what stands for a token. One that fits the buffer, as most do, is not copied
// to memory that has to be collected.
func digestOf(token string) digest {
	var buf [512]byte
	return sha256.Sum256(append(buf[:0], token...))
}

// proofs are the tokens that have been verified, so that a signature is checked once and
// an issuer asked now and then.
type proofs struct {
	mu   sync.RWMutex
	list map[digest]*proof
}

// get returns what is known of a token, or nil.
func (c *proofs) get(d digest) *proof {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.list[d]
}

// put remembers a token. If somebody was faster, it returns what that has put there.
func (c *proofs) put(d digest, p *proof) *proof {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.list[d]; now != nil {
		return now
	}
	if c.list == nil {
		c.list = make(map[digest]*proof)
	}
	if len(c.list) >= maxProofs {
		c.shrink()
	}
	c.list[d] = p
	return p
}

// shrink makes room: by what is not good any more, or else by what comes first. Whoever
// watches a proof continues to. c.mu is locked.
func (c *proofs) shrink() {
	now := time.Now()
	for d, p := range c.list {
		if !p.good(now) {
			delete(c.list, d)
		}
	}
	for d := range c.list {
		if len(c.list) < maxProofs*7/8 {
			return
		}
		delete(c.list, d)
	}
}

// drop forgets a token, and ends what was known of it.
func (c *proofs) drop(d digest, p *proof) {
	c.mu.Lock()
	if c.list[d] == p {
		delete(c.list, d)
	}
	c.mu.Unlock()
	p.end()
}

// doubt has all of them looked at again, now if somebody watches them.
func (c *proofs) doubt() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, p := range c.list {
		p.doubt()
	}
}

// doubtOne has a token looked at again, now if somebody watches it.
func (c *proofs) doubtOne(d digest) {
	if p := c.get(d); p != nil {
		p.doubt()
	}
}
