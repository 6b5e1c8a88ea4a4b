package protocol_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestClientCanBeAskedWhatItHasDeclared(t *testing.T) {
	questions := []struct {
		name, method string
		url, tools   bool
	}{
		{"form", protocol.MethodElicit, false, false}, {"url", protocol.MethodElicit, true, false},
		{"sampling", protocol.MethodCreateMessage, false, false}, {"tools", protocol.MethodCreateMessage, false, true},
		{"roots", protocol.MethodListRoots, false, false}, {"other", protocol.MethodPing, false, false},
	}
	for caps, want := range map[string]string{
		`{}`:                                   "",
		`{"elicitation":{}}`:                   " form",
		`{"elicitation":{"form":{},"url":{}}}`: " form url",
		`{"elicitation":{"url":{}}}`:           " url",
		`{"sampling":{}}`:                      " sampling",
		`{"sampling":{"tools":{}},"roots":{"listChanged":true}}`:      " sampling tools roots",
		`{"sampling":{"tools":true},"roots":null,"elicitation":null}`: " sampling",
	} {
		can, err := protocol.AbilitiesOf([]byte(caps))
		if err != nil || can.Any() != (want != "") {
			t.Errorf("%s: any %t, error %v", caps, can.Any(), err)
		}
		got := ""
		for _, q := range questions {
			if can.Answers(q.method, q.url, q.tools) {
				got += " " + q.name
			}
		}
		if got != want {
			t.Errorf("%s can be asked:%s, want:%s", caps, got, want)
		}
	}
	if can, err := protocol.AbilitiesOf([]byte(`{"sampling":1,"roots":{}}`)); err == nil || !can.Roots {
		t.Errorf("got %+v, error %v", can, err)
	}
}
