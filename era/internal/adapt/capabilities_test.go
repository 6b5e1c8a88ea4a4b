package adapt_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestCapabilities(t *testing.T) {
	t.Parallel()
	const all = `{"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{"n":1.0}},"tasks":{"list":{}},"extensions":{"e":{}}}`
	const ui = `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`
	const modernOnly = `"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/events":{"listChanged":true}`
	const server = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":false},"prompts":{},"completions":{},"logging":{},"tasks":{"list":{}},"extensions":{"e":{}},"experimental":{"x":{}}}`
	for _, c := range []struct {
		name           string
		client, server protocol.Revision
		in, want       string // "" if it is in
	}{
		{"client, up from 2025-11-25", v4, v5, all, `{"roots":{},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":{"n":1.0}},"extensions":{"e":{}}}`},
		{"client, up from 2025-06-18", v3, v5, all, `{"roots":{},"sampling":{},"elicitation":{},"experimental":{"x":{"n":1.0}},"extensions":{"e":{}}}`},
		{"client, up from 2025-03-26", v2, v5, all, `{"roots":{},"sampling":{},"experimental":{"x":{"n":1.0}},"extensions":{"e":{}}}`},
		{"client, up from 2024-11-05", v1, v5, `{"elicitation":{}}`, `{}`},
		{"client, forms only", v3, v5, `{"elicitation":{}}`, ``},
		{"client, down to 2025-11-25", v5, v4, `{"roots":{},"sampling":{"tools":{}},"elicitation":{"url":{}},"extensions":{"e":{}}}`, ``},
		{"client, down to 2025-06-18", v5, v3, `{"extensions":{"e":{}},"roots":{},"sampling":{"tools":{},"x":1},"elicitation":{"form":{},"url":{}}}`, `{"extensions":{"e":{}},"roots":{},"sampling":{"x":1},"elicitation":{}}`},
		{"client, extensions, down", v5, v4, `{"extensions":{` + ui + `,` + modernOnly + `,"com.example/x":{"n":1.0}}}`, `{"extensions":{` + ui + `,"com.example/x":{"n":1.0}}}`},
		{"client, extensions of the modern era only, down", v5, v4, `{"roots":{},"extensions":{` + modernOnly + `}}`, `{"roots":{}}`},
		{"client, extensions that are no object, down", v5, v4, `{"roots":{},"extensions":["e"]}`, `{"roots":{}}`},
		{"client, extensions, up", v1, v5, `{"extensions":{` + modernOnly + `,` + ui + `}}`, `{"extensions":{` + ui + `}}`},
		{"client, extensions, from legacy to legacy", v3, v4, `{"extensions":{` + modernOnly + `,` + ui + `}}`, ``},
		{"client, URLs only, down to 2025-06-18", v5, v3, `{"elicitation":{"url":{}}, "x":1}`, `{"x":1}`},
		{"client, down to 2025-03-26", v5, v2, `{"roots":{},"elicitation":{}}`, `{"roots":{}}`},
		{"client, newer than a legacy server", v4, v3, all, `{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"experimental":{"x":{"n":1.0}},"extensions":{"e":{}}}`},
		{"client, older than a legacy server", v3, v4, `{"roots":{"listChanged":true},"elicitation":{}}`, ``},
		{"client, same", v4, v4, all, ``},
		{"client, none", v4, v5, `null`, `{}`},
		{"client, broken", v4, v5, `{"roots":`, `{}`},
		{"server, for 2025-11-25", v4, v5, server, `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":false},"prompts":{},"completions":{},"logging":{},"extensions":{"e":{}},"experimental":{"x":{}}}`},
		{"server, for 2024-11-05", v1, v5, server, `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":false},"prompts":{},"logging":{},"extensions":{"e":{}},"experimental":{"x":{}}}`},
		{"server, for a modern client", v5, v4, server, `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":false},"prompts":{},"completions":{},"logging":{},"extensions":{"e":{}},"experimental":{"x":{}}}`},
		{"server, extensions, up", v4, v5, `{"extensions":{` + ui + `,` + modernOnly + `,"io.modelcontextprotocol/skills":{"directoryRead":true}}}`, `{"extensions":{` + ui + `,"io.modelcontextprotocol/skills":{"directoryRead":true}}}`},
		{"server, extensions, down", v5, v4, `{"extensions":{` + modernOnly + `}}`, `{}`},
		{"server, for an older legacy client", v3, v4, server, `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":false},"prompts":{},"completions":{},"logging":{},"extensions":{"e":{}},"experimental":{"x":{}}}`},
		{"server, same", v5, v5, server, ``},
		{"server, none", v1, v5, ` `, `{}`},
	} {
		adapt := route(c.client, c.server).ClientCapabilities
		if c.name[0] == 's' {
			adapt = route(c.client, c.server).ServerCapabilities
		}
		if c.want == "" {
			c.want = c.in
		}
		got := adapt([]byte(c.in))
		if string(got) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if again := adapt(got); string(again) != string(got) {
			t.Errorf("%s: twice is %s", c.name, again)
		}
	}
}
