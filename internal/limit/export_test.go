package limit

// Keys returns how many keys are remembered.
func (b *Bytes) Keys() int { return len(b.of) }
