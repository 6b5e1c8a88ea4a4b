package adapt

import (
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// What a schema accepts.
type acceptance uint8

const (
	mixed acceptance = iota // or unknown
	onlyObjects
	noObjects
)

// maxParts is how many parts of a schema are looked at to find out what it
// accepts: a few references to one another can make any number. Behind that it
// is taken for mixed, which is always right.
const maxParts = 64

// A schemaChecker finds out what a schema accepts.
type schemaChecker struct {
	root []byte // the document
	left int    // parts that may still be looked at
}

// accepts tells what a part of the document accepts, as far as its type, its
// values and the schemas that it is made of tell.
func (j *schemaChecker) accepts(schema []byte) acceptance {
	if j.left--; j.left < 0 || !dragoman.IsObject(schema) {
		return mixed
	}
	// All parts must accept a value, so one that is sure decides.
	for name, value := range dragoman.Members(schema) {
		sure := mixed
		switch name {
		case "type":
			sure = ofTypes(value)
		case "const":
			sure = ofValue(value)
		case "enum":
			sure = all(value, ofValue)
		case "$ref":
			if part, ok := resolve(j.root, value); ok {
				sure = j.accepts(part)
			}
		case "allOf":
			for _, v := range dragoman.Items(value) {
				if sure = j.accepts(v); sure != mixed {
					break
				}
			}
		case "anyOf", "oneOf":
			sure = all(value, j.accepts)
		}
		if sure != mixed {
			return sure
		}
	}
	return mixed
}

// all returns what all elements of a list have in common.
func all(list []byte, of func([]byte) acceptance) acceptance {
	var common acceptance
	n := 0
	for _, v := range dragoman.Items(list) {
		a := of(v)
		if n++; a == mixed || n > 1 && a != common {
			return mixed
		}
		common = a
	}
	return common
}

// ofTypes returns what a type, or a list of types, accepts.
func ofTypes(value []byte) acceptance {
	if value[0] == '[' {
		return all(value, ofTypes)
	}
	switch kind, ok := dragoman.Text(value); {
	case !ok:
		return mixed
	case kind == "object":
		return onlyObjects
	}
	return noObjects
}

// ofValue returns what a schema accepts that names this value.
func ofValue(value []byte) acceptance {
	if dragoman.IsObject(value) {
		return onlyObjects
	}
	return noObjects
}

// resolve returns the part of a document that a local reference points to.
func resolve(root, ref []byte) ([]byte, bool) {
	s, ok := dragoman.Text(ref)
	if !ok || !strings.HasPrefix(s, "#/") {
		return nil, false
	}
	part := root
	for step := range strings.SplitSeq(s[2:], "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if part = dragoman.Member(part, step); part == nil {
			return nil, false
		}
	}
	return part, true
}
