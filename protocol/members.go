package protocol

import (
	"bytes"
	"encoding/json"
	"iter"
)

// members walks over an object of valid JSON text, with names as they are
// written, without their quotes.
func members(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		rest := trim(object[1:])
		for len(rest) > 0 && rest[0] == '"' {
			n := stringLen(rest)
			name := rest[1 : n-1]
			rest = trim(trim(rest[n:])[1:]) // behind the colon
			n = valueLen(rest)
			if !yield(name, json.RawMessage(rest[:n:n])) {
				return
			}
			if rest = trim(rest[n:]); rest[0] != ',' {
				return
			}
			rest = trim(rest[1:])
		}
	}
}

// get returns the last member of that name of an object of valid JSON text, or
// nil.
func get(object []byte, name string) (value json.RawMessage) {
	for raw, v := range members(object) {
		if string(raw) == name || bytes.IndexByte(raw, '\\') >= 0 && unescaped(raw) == name {
			value = v
		}
	}
	return value
}

func unescaped(raw []byte) (s string) {
	_ = json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s) // it is part of valid text
	return s
}

// elements walks over an array of valid JSON text.
func elements(array []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		rest := trim(array[1:])
		for len(rest) > 0 && rest[0] != ']' {
			n := valueLen(rest)
			if !yield(json.RawMessage(rest[:n:n])) {
				return
			}
			if rest = trim(rest[n:]); rest[0] != ',' {
				return
			}
			rest = trim(rest[1:])
		}
	}
}

// trim returns text without the white space before it.
func trim(text []byte) []byte {
	for len(text) > 0 && text[0] <= ' ' {
		text = text[1:]
	}
	return text
}

// stringLen returns the length of the string that valid JSON text begins with.
func stringLen(text []byte) int {
	for i := 1; ; i++ {
		i += bytes.IndexByte(text[i:], '"')
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// valueLen returns the length of the value that valid JSON text begins with.
func valueLen(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			if i += stringLen(text[i:]) - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a number or a name
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}
