package redact

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendEscaped appends JSON text in which every character that cannot be seen is
// written as an escape: besides what JSON escapes itself, DEL, C1, the marks that
// change the direction of text, and line ends of Unicode. Bytes that are not UTF-8 become
// U+FFFD. The text means the same, since such characters stand in strings alone; tabs and
// line ends between values stay.
func AppendEscaped(dst, text []byte) []byte {
	for len(text) > 0 {
		n := 0
		for n < len(text) && (text[n] >= ' ' && text[n] < 0x7f || text[n] == '\n' || text[n] == '\t') {
			n++
		}
		dst, text = append(dst, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			dst = appendEscape(dst, r)
		} else {
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}

func appendEscape(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return appendEscape(appendEscape(dst, high), low)
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// A JSONWriter writes JSON text by [AppendEscaped]. Each Write is whole lines.
type JSONWriter struct{ io.Writer }

// Write implements io.Writer.
func (w JSONWriter) Write(text []byte) (int, error) {
	if _, err := w.Writer.Write(AppendEscaped(make([]byte, 0, len(text)+64), text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// longestName is how many characters of a name Clip keeps.
const longestName = 128

// Clip returns the beginning of a name that somebody else has chosen, for a log or an error.
// No character is cut in two.
func Clip(name string) string {
	if len(name) <= longestName { // bytes, of which there are no fewer
		return name
	}
	n := 0
	for i := range name {
		if n == longestName {
			return name[:i] + "…"
		}
		n++
	}
	return name
}

// Cut returns the beginning of a text that has more than so many bytes. No character is cut in two, and of a
// URL that is cut before its host no password is left.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return hideCut(strings.ToValidUTF8(text[:most], "")) + "…"
}

// Printable returns text for a terminal: characters that cannot be seen, except tabs and
// those of keep, become U+FFFD. What they would have done is not done.
func Printable(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' || strings.ContainsRune(keep, r) {
			return r
		}
		return utf8.RuneError
	}, s)
}
