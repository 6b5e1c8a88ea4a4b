package limit

// KeyBytes returns the length of all keys that are remembered.
func (r *Rates) KeyBytes() (n int) {
	for i := range r.shards {
		for _, k := range r.shards[i].keys {
			n += len(k.key)
		}
	}
	return n
}

// Keys returns how many keys are remembered.
func (b *Bytes) Keys() int { return len(b.of) }
