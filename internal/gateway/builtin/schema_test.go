package builtin

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

func TestFlatMembersAreThoseOfTheObject(t *testing.T) {
	for text, flat := range map[string]bool{
		`{"text":"the quick brown fox"}`:              true,
		`{"a": 1, "b": -2.5e3, "c": null, "d": true}`: true,
		`{"a":"","":"b"}`:                             true,
		`{"a":1,"a":2}`:                               true,
		`{"b":1,"a":2,"b":3,"a":4,"c":5}`:             true,
		`{ "a":"x, y: {z}" }`:                         false, // white space at the end
		`{"a":"b,}[{"}`:                               true,
		`{}`:                                          false,
		`{ }`:                                         false,
		`null`:                                        false,
		`{"a":[1,2]}`:                                 false,
		`{"a":{"b":1}}`:                               false,
		`{"a":"\""}`:                                  false,
		`{"\u0061":1}`:                                false,
		`{"a":"ü"}`:                                   false,
		`{"a" :1}`:                                    false,
		"{\n\"a\":1}":                                 false,
		`{"a":1 ,"b":2}`:                              false,
	} {
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		list, ok := flatMembers(json.RawMessage(text))
		got := make(map[string]json.RawMessage)
		for _, v := range list {
			got[string(v.name)] = v.value
		}
		if ok != flat || ok && (!reflect.DeepEqual(got, want) || len(list) != len(want)) {
			t.Errorf("%s: %s, %t", text, got, ok)
		}
		if !slices.IsSortedFunc(list, func(a, b member) int { return bytes.Compare(a.name, b.name) }) {
			t.Errorf("%s: %v is not sorted", text, list)
		}
	}
}
