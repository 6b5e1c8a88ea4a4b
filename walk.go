package dragoman

import "iter"

// A member is where one member of an object lies: its name from the opening
// quote, and its value.
type member struct{ key, start, end uint32 }

func (v member) absent() bool { return v.end == 0 }

// open looks into the object at i: it returns the offset of its first member
// with true, or behind '}' with false if there is none.
func (s *scanner) open(i int) (int, bool) {
	if i = s.space(i + 1); i >= len(s.data) {
		return s.eof(), false
	}
	if s.data[i] == '}' {
		return i + 1, false
	}
	return i, true
}

// next reads the name of the member at i, which open or more returned, up to
// its value. It returns the raw name without quotes, where its opening quote
// is, and where the value is, or -1.
func (s *scanner) next(i int) (name []byte, key, value int) {
	key = s.space(i)
	if value = s.key(key); value < 0 {
		return nil, key, -1
	}
	end := value - 1
	for s.data[end] != '"' {
		end--
	}
	return s.data[key+1 : end], key, s.space(value)
}

// more looks behind a member at i: it returns the offset behind ',' with true,
// or behind '}' with false.
func (s *scanner) more(i int) (int, bool) {
	if i = s.space(i); i >= len(s.data) {
		return s.eof(), false
	}
	switch s.data[i] {
	case ',':
		return i + 1, true
	case '}':
		return i + 1, false
	}
	return s.fail(i, "expected ',' or '}'"), false
}

// lookup returns the first member of that name of the valid object at i.
func lookup(data []byte, i int, name string) member {
	for raw, v := range members(data, i) {
		if unescape(raw) == name {
			return v
		}
	}
	return member{}
}

// members walks over the valid object at i, with raw names.
func members(data []byte, i int) iter.Seq2[[]byte, member] {
	return func(yield func([]byte, member) bool) {
		s := scanner{data: data}
		i, more := s.open(i)
		for more {
			raw, key, start := s.next(i)
			end := s.value(start, 1)
			if end < 0 || !yield(raw, member{uint32(key), uint32(start), uint32(end)}) {
				return
			}
			i, more = s.more(end)
		}
	}
}
