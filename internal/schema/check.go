package schema

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// MaxSchemas is how many schemas a Checker keeps compiled. Those that were
	// used longest ago go first.
	MaxSchemas = 256

	// MaxSchema is the largest schema that is compiled, in bytes. To compile one takes
	// longer than to read it, by far.
	MaxSchema = 256 << 10
)

// A Checker checks values and keeps the schemas that it has compiled. The zero
// value is ready to use, by any number of goroutines.
type Checker struct {
	mu      sync.Mutex // guards what follows, not the compiling
	entries map[[sha256.Size]byte]*list.Element
	recent  list.List // of *entry, the last used first
}

// An entry is a schema, compiled by whoever needs it first.
type entry struct {
	key      [sha256.Size]byte
	once     sync.Once
	compiled *jsonschema.Schema // nil if it cannot be compiled
}

// Check returns nil if value fits the schema, or an *[Error] that says what does
// not. A nil value stands for {}. What cannot be checked fits: a schema that
// cannot be compiled, a value that is not JSON, or both if it would take more than
// [MaxSteps].
func (c *Checker) Check(schema, value json.RawMessage) error {
	if len(schema) > MaxSchema {
		return nil
	}
	e := c.entry(sha256.Sum256(schema))
	e.once.Do(func() { e.compiled, _ = compile(schema) }) // what cannot be compiled is nil
	if e.compiled == nil {
		return nil
	}
	if value == nil {
		value = json.RawMessage("{}")
	}
	v, err := decode(value)
	if err != nil {
		return nil //nolint:nilerr // whoever takes the message has checked that it is JSON
	}
	if at, bad := unbounded(v, nil); bad {
		return &Error{Violations: []Violation{{Path: pathOf(v, at), Reason: "is a number with more digits than can be checked"}}}
	}
	if !affordable(e.compiled, v) {
		return nil
	}
	return validate(e.compiled, v)
}

// entry returns the schema with that hash, which may have to be compiled yet.
func (c *Checker) entry(key [sha256.Size]byte) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[key]; at != nil {
		c.recent.MoveToFront(at)
		return at.Value.(*entry)
	}
	if c.entries == nil {
		c.entries = make(map[[sha256.Size]byte]*list.Element)
	}
	if len(c.entries) >= MaxSchemas {
		oldest := c.recent.Back()
		c.recent.Remove(oldest)
		delete(c.entries, oldest.Value.(*entry).key)
	}
	e := &entry{key: key}
	c.entries[key] = c.recent.PushFront(e)
	return e
}

// nowhere is where schemas are loaded from.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("schema: nothing is loaded") }

// location is what the schema at hand is called. It is never loaded.
const location = "schema:///arguments"

// compile returns an error for what cannot be compiled.
func compile(text json.RawMessage) (s *jsonschema.Schema, err error) {
	// Schemas come from servers, and a fault of the compiler must not be ours.
	defer func() {
		if recover() != nil {
			s, err = nil, errors.New("it cannot be compiled")
		}
	}()
	doc, err := decode(text)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	return c.Compile(location)
}

// Valid returns nil if a schema can be compiled, or what is wrong with it.
func Valid(schema json.RawMessage) error {
	_, err := compile(schema)
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		var why *jsonschema.ValidationError
		if errors.As(invalid.Err, &why) {
			for len(why.Causes) > 0 {
				why = why.Causes[0]
			}
			return fmt.Errorf("/%s: %s", strings.Join(why.InstanceLocation, "/"), why.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
		}
	}
	return err
}

// decode reads JSON text. Numbers keep their digits.
func decode(text json.RawMessage) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// validate returns what is wrong with v.
func validate(s *jsonschema.Schema, v any) (err error) {
	defer func() {
		if recover() != nil {
			err = nil // a fault of the validator says nothing about the value
		}
	}()
	var found *jsonschema.ValidationError
	if !errors.As(s.Validate(v), &found) {
		return nil
	}
	return describe(found, v)
}
