package checklist

import (
	"encoding/json"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
)

// The schemas of the document, written down independently of package protocol.
const (
	toolRequestSchema = `{"type":"object","required":["jsonrpc","id","method","params"],"properties":{
		"jsonrpc":{"const":"2.0"},"id":{"type":["string","integer"]},"method":{"const":"tools/call"},
		"params":{"type":"object","required":["name"],"properties":{
			"name":{"type":"string","minLength":1},"arguments":{"type":"object"}}}}}`

	toolResponseSchema = `{"type":"object","required":["jsonrpc","id","result"],"not":{"required":["error"]},"properties":{
		"jsonrpc":{"const":"2.0"},"id":{"type":["string","integer"]},
		"result":{"type":"object","required":["content"],"properties":{
			"content":{"type":"array","minItems":1,"items":{"type":"object","required":["type"],"properties":{"type":{"type":"string"}}}},
			"isError":{"type":"boolean"},"_meta":{"type":"object"}}}}}`

	toolErrorSchema = `{"type":"object","required":["jsonrpc","id","error"],"not":{"required":["result"]},"properties":{
		"jsonrpc":{"const":"2.0"},"id":{"type":["string","integer","null"]},
		"error":{"type":"object","required":["code","message"],"properties":{
			"code":{"type":"integer"},"message":{"type":"string","pattern":"\\S"}}}}}`
)

// schemas keeps what has been compiled.
var schemas jsonschema.Checker

// fits reports whether a text is JSON that fits a schema.
func fits(of, text string) bool {
	return json.Valid([]byte(text)) && schemas.Check([]byte(of), []byte(text)) == nil
}

func wantFit(t *testing.T, of, text string) {
	t.Helper()
	if !fits(of, text) {
		t.Fatalf("does not fit its schema: %.500s", text)
	}
}

// A sample is a payload, and whether it is a good one.
type sample struct {
	text string
	good bool
}

// agree fails the test unless schema and check find the samples as good as they
// are.
func agree(t *testing.T, of string, check func(*dragoman.Message) error, samples []sample) {
	t.Helper()
	for _, s := range samples {
		m, err := dragoman.Parse([]byte(s.text))
		if err == nil {
			err = check(m)
		}
		if fits(of, s.text) != s.good || (err == nil) != s.good {
			t.Errorf("%s: the schema says %v and the check %v, want %v", s.text, fits(of, s.text), err, s.good)
		}
	}
}
