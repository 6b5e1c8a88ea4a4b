package schema

import (
	"crypto/sha256"
	"encoding/json"
)

// Len returns how many schemas are kept.
func (c *Checker) Len() int { return len(c.entries) }

// Has reports whether a schema is kept.
func (c *Checker) Has(text json.RawMessage) bool { return c.entries[sha256.Sum256(text)] != nil }
