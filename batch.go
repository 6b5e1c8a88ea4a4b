package dragoman

// Elements returns the elements of a JSON array, such as a batch of messages.
// They share its memory. The error is a [ParseError].
func Elements(array []byte) ([][]byte, error) {
	s := scanner{data: array}
	i := s.space(0)
	if i >= len(array) || array[i] != '[' {
		return nil, &ParseError{Code: codeInvalidRequest, Offset: i, Reason: "not an array"}
	}
	var parts [][]byte
	i = s.space(i + 1)
	if i < len(array) && array[i] == ']' {
		i++
	} else {
		for more := true; more && i >= 0; {
			start := s.space(i)
			if i = s.value(start, 1); i < 0 {
				break
			}
			parts = append(parts, array[start:i:i])
			switch i = s.space(i); {
			case i >= len(array):
				i = s.eof()
			case array[i] == ',':
				i++
			case array[i] == ']':
				i++
				more = false
			default:
				i = s.fail(i, "expected ',' or ']'")
			}
		}
	}
	if i >= 0 {
		if i = s.space(i); i < len(array) {
			s.fail(i, "more text behind the array")
		}
	}
	if s.reason != "" {
		return nil, &ParseError{Code: s.code, Offset: s.at, Reason: s.reason}
	}
	return parts, nil
}
