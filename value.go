package dragoman

import "unicode/utf8"

// Span returns the length of the JSON array or object that data begins with,
// white space before it included: 0 if it is not complete, -1 if data begins
// with something else or the text is not valid.
func Span(data []byte) int {
	s := scanner{data: data}
	i := s.space(0)
	if i == len(data) {
		return 0
	}
	if data[i] != '{' && data[i] != '[' {
		return -1
	}
	end := s.value(i, 0)
	if end < 0 && !utf8.FullRune(data[s.at:]) { // also when nothing is left
		return 0
	}
	return end
}
