package eventlog

// bySize is a heap of streams with the largest on top. Each knows its index.
type bySize[E any] []*stream[E]

func (h bySize[E]) Len() int           { return len(h) }
func (h bySize[E]) Less(i, j int) bool { return h[i].bytes > h[j].bytes }

func (h bySize[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *bySize[E]) Push(x any) {
	s := x.(*stream[E])
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *bySize[E]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
