package dragoman

import "slices"

// A nameSet tells names that come twice. The first few it holds itself, so that
// it need not allocate; then a map holds all.
type nameSet struct {
	n   int
	few [16]string
	all map[string]struct{}
}

// add tells whether name is new.
func (s *nameSet) add(name string) bool {
	if s.all != nil {
		n := len(s.all)
		s.all[name] = struct{}{}
		return len(s.all) > n
	}
	if slices.Contains(s.few[:s.n], name) {
		return false
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	s.all = make(map[string]struct{}, 4*len(s.few))
	for _, old := range s.few {
		s.all[old] = struct{}{}
	}
	s.all[name] = struct{}{}
	return true
}
