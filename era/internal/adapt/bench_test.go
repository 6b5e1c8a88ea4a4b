package adapt_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The hot path: a call and its result, small and large, across eras and between
// legacy revisions. "parse" is what a copy costs in any case.
func BenchmarkResponse(b *testing.B) {
	small := `{"content":[{"type":"text","text":"hello"}],"isError":false}`
	large := `{"content":[{"type":"text","text":"` + strings.Repeat("lorem ipsum ", 10000) + `"}],"isError":false}`
	tagged := func(s string) string { return strings.Replace(s, `{`, `{"resultType":"complete",`, 1) }
	info := []byte(`{"name":"server","version":"1.0.0"}`)
	for _, c := range []struct {
		name           string
		client, server protocol.Revision
		body           string
	}{
		{"down/small", v5, v4, small}, {"down/large", v5, v4, large},
		{"up/small", v4, v5, tagged(small)}, {"up/large", v4, v5, tagged(large)},
		{"up-oldest/small", v1, v5, tagged(small)}, {"up-oldest/audio", v1, v5, `{"content":[` + hello + `,` + audio + `],"resultType":"complete"}`},
		{"legacy/small", v1, v4, small}, {"legacy/large", v1, v4, large},
		{"same/small", v4, v4, small},
	} {
		resp := result(b, c.body)
		r := route(c.client, c.server)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(resp.Len()))
			for b.Loop() {
				if _, err := r.Response(call, resp, info); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for name, body := range map[string]string{"parse/small": small, "parse/large": large} {
		text := result(b, body).Bytes()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := dragoman.Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	env := &protocol.Envelope{Version: v5.String(), Capabilities: []byte(`{"elicitation":{}}`), Client: []byte(`{"name":"c","version":"1"}`)}
	legacy := request(b, call, `{"name":"echo","arguments":{"text":"hello"},"_meta":{"progressToken":1}}`)
	modern, err := route(v4, v5).Request(legacy, env)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		client, server protocol.Revision
		req            *dragoman.Message
	}{{"up", v4, v5, legacy}, {"down", v5, v4, modern}, {"legacy", v3, v4, legacy}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := route(c.client, c.server).Request(c.req, env); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkToolList(b *testing.B) {
	plain := `{"name":"tool","description":"does it","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a"]}}`
	output := strings.Replace(plain, `"inputSchema"`, `"outputSchema":{"type":"array"},"inputSchema"`, 1)
	list := func(tool string) string {
		return `{"resultType":"complete","tools":[` + strings.Repeat(tool+",", 99) + tool + `]}`
	}
	for name, body := range map[string]string{"plain": list(plain), "output": list(output)} {
		resp := result(b, body)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(resp.Len()))
			for b.Loop() {
				if _, err := route(v4, v5).Response(protocol.MethodListTools, resp, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
