package dragoman_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

func TestQuick(t *testing.T) {
	m, err := dragoman.Parse([]byte(` {"jsonrpc":"2.0", "id": "a1","method":"tools/call","params":{"name":"echo","arguments":{"text":"h\u00e9"},"_meta":{"progressToken":7,"x":{}}}} `))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(m.Kind(), m.ID(), m.Method(), m.Name(), string(m.Meta("progressToken")), string(m.Meta("x")), string(m.Get("arguments")))
	e, err := m.WithID(dragoman.IntID(9)).Edit().SetMeta("progressToken", []byte("99")).Drop("name", "arguments").Set("uri", []byte(`"u"`)).SetMeta("k", []byte(`1`)).DropMeta("x").Message()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(e)
	n, _ := dragoman.NewRequest(dragoman.IntID(1), "ping", nil)
	e, err = n.Edit().SetMeta("a", []byte("1")).SetMeta("b", []byte("2")).Message()
	t.Log(e, err)
}
