package bench

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The parse benchmarks compare [dragoman.Parse] with encoding/json.
// x-json is how many times faster it is than one decode into raw members;
// x-json-2 is the same against the usual two decodes, which also look for the
// tool's name. What is parsed is what a bridge sees: calls with nested
// arguments, lists of tools with their schemas, and one image.

func BenchmarkParse200B(b *testing.B) {
	b.Run("call", func(b *testing.B) { parseBoth(b, toolCall(200)) })
	b.Run("result", func(b *testing.B) { parseBoth(b, textResult(200)) })
}

func BenchmarkParse4KB(b *testing.B) {
	b.Run("call", func(b *testing.B) { parseBoth(b, toolCall(4<<10)) })
	b.Run("list", func(b *testing.B) { parseBoth(b, toolList(4<<10)) })
}

func BenchmarkParse1MB(b *testing.B) {
	b.Run("call", func(b *testing.B) { parseBoth(b, toolCall(1<<20)) })
	b.Run("list", func(b *testing.B) { parseBoth(b, toolList(1<<20)) })
	b.Run("image", func(b *testing.B) { parseBoth(b, imageResult(1<<20)) })
}

// The splice benchmarks give a message another id and another progress token,
// as a bridge does, and write it. The other side decodes it to its raw members
// and encodes them again.

func BenchmarkSplice200B(b *testing.B) { spliceBoth(b, toolCall(200)) }
func BenchmarkSplice4KB(b *testing.B)  { spliceBoth(b, toolCall(4<<10)) }
func BenchmarkSplice1MB(b *testing.B)  { spliceBoth(b, toolCall(1<<20)) }

// The relay benchmarks are the splice that every message meets: another id.

func BenchmarkRelay200B(b *testing.B) { relayBoth(b, toolCall(200)) }
func BenchmarkRelay4KB(b *testing.B)  { relayBoth(b, toolCall(4<<10)) }
func BenchmarkRelay1MB(b *testing.B)  { relayBoth(b, toolCall(1<<20)) }

// BenchmarkMeta finds out whether a request is of the modern era, which is asked of
// each several times on its way.
func BenchmarkMeta(b *testing.B) {
	req, err := dragoman.Parse(toolCall(200))
	if err != nil {
		b.Fatal(err)
	}
	modern, err := protocol.Envelope{Version: protocol.Latest.String(), Client: []byte(`{"name":"bench","version":"1"}`)}.Put(req)
	if err != nil {
		b.Fatal(err)
	}
	for name, m := range map[string]*dragoman.Message{"legacy": req, "modern": modern} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if protocol.IsModern(m) != (m == modern) {
					b.Fatal("it is of the wrong era")
				}
			}
		})
	}
}

func parseBoth(b *testing.B, data []byte) {
	byTurns(b, len(data), []contender{
		{"", func() error { _, err := dragoman.Parse(data); return err }},
		{"x-json", func() error { _, err := decodeOnce(data); return err }},
		{"x-json-2", func() error { return decodeTwice(data) }},
	})
}

func relayBoth(b *testing.B, data []byte) {
	var out []byte
	id := dragoman.IntID(987654)
	byTurns(b, len(data), []contender{
		{"", func() error {
			m, err := dragoman.Parse(data)
			if err == nil {
				out = m.AppendWithID(out[:0], id)
			}
			return err
		}},
		{"x-json", func() error {
			e, err := decodeOnce(data)
			if err != nil {
				return err
			}
			e.ID = json.RawMessage("987654")
			out, err = json.Marshal(e)
			return err
		}},
	})
}

func spliceBoth(b *testing.B, data []byte) {
	id, token := dragoman.IntID(987654), []byte("987654")
	byTurns(b, len(data), []contender{
		{"", func() error {
			m, err := dragoman.Parse(data)
			if err != nil {
				return err
			}
			_, err = m.WithID(id).Edit().SetMeta("progressToken", token).Message()
			return err
		}},
		{"x-json", func() error { return recode(data, token) }},
	})
}

// envelope is what programs decode a message into that do not want to decode
// all of it.
type envelope struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

func decodeOnce(data []byte) (e envelope, err error) {
	err = json.Unmarshal(data, &e)
	return e, err
}

func decodeTwice(data []byte) error {
	e, err := decodeOnce(data)
	if err != nil {
		return err
	}
	body := e.Params
	if body == nil {
		body = e.Result
	}
	var p struct {
		Name string          `json:"name"`
		Meta json.RawMessage `json:"_meta"`
	}
	return json.Unmarshal(body, &p)
}

func recode(data, token []byte) error {
	e, err := decodeOnce(data)
	if err != nil {
		return err
	}
	var params, meta map[string]json.RawMessage
	if err := json.Unmarshal(e.Params, &params); err != nil {
		return err
	}
	if err := json.Unmarshal(params["_meta"], &meta); err != nil {
		return err
	}
	meta["progressToken"] = token
	if params["_meta"], err = json.Marshal(meta); err != nil {
		return err
	}
	if e.Params, err = json.Marshal(params); err != nil {
		return err
	}
	e.ID = token
	_, err = json.Marshal(e)
	return err
}

// A contender is one side of a comparison. The first of a list is ours and has
// no metric; those of the others say how many times longer they take.
type contender struct {
	metric string
	run    func() error
}

// byTurns lets each contender work for a moment in each turn, and reports the
// median of the turns' ratios: what disturbs one turn does not count.
func byTurns(b *testing.B, size int, sides []contender) {
	for _, s := range sides {
		if err := s.run(); err != nil {
			b.Fatal(err)
		}
	}
	often := max(1, 64<<10/size)
	times := make([][]float64, len(sides))
	for b.Loop() {
		for i, s := range sides {
			start := time.Now()
			for range often {
				if err := s.run(); err != nil {
					b.Fatal(err)
				}
			}
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/float64(often))
		}
	}
	for i, s := range sides[1:] {
		ratios := make([]float64, len(times[0]))
		for turn, ours := range times[0] {
			ratios[turn] = times[i+1][turn] / ours
		}
		b.ReportMetric(median(ratios), s.metric)
	}
	ours := median(times[0])
	b.ReportMetric(ours, "ns/msg")
	b.ReportMetric(float64(size)*1e3/ours, "MB/s")
	b.ReportMetric(0, "ns/op") // of a turn, which says nothing
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// toolCall returns a tools/call of about size bytes, with nested arguments.
func toolCall(size int) []byte {
	const head = `{"jsonrpc":"2.0","id":4711,"method":"tools/call","params":{"name":"create_issue","arguments":{"repo":"octo/hello"`
	const tail = `},"_meta":{"progressToken":"c1f0-17"}}}`
	return fill(head+`,"issues":[`, "]"+tail, size, func(i int) string {
		return fmt.Sprintf(`{"number":%d,"title":"Crash on \"save\" – résumé %d","open":%t,"labels":["bug","p%d"],"score":%d.25,"author":{"login":"user%d","id":%d},"closed_at":null}`,
			i, i, i%3 == 0, i%4, i%100, i%50, 1000000+i)
	}, head+`,"title":"Crash on save","labels":["bug"]`+tail)
}

// toolList returns the answer to a tools/list, of about size bytes.
func toolList(size int) []byte {
	return fill(`{"jsonrpc":"2.0","id":"list-1","result":{"tools":[`, `],"nextCursor":"eyJwIjoyfQ=="}}`, size, func(i int) string {
		return fmt.Sprintf(`{"name":"tool_%d","title":"Tool %d","description":"Searches the index for documents that match the query.\nReturns at most %d of them.",`+
			`"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What to look for"},"limit":{"type":"integer","minimum":1,"maximum":%d,"default":10},`+
			`"filters":{"type":"array","items":{"type":"string","enum":["open","closed","all"]}}},"required":["query"],"additionalProperties":false},"annotations":{"readOnlyHint":true}}`,
			i, i, i%100, 50+i%50)
	}, "")
}

// textResult returns a tool's answer of about size bytes.
func textResult(size int) []byte {
	return fill(`{"jsonrpc":"2.0","id":4711,"result":{"content":[`, `],"structuredContent":{"temperature":22.5,"humidity":65},"isError":false}}`, size, func(i int) string {
		return fmt.Sprintf(`{"type":"text","text":"Sunny, %d degrees"}`, 20+i%10)
	}, "")
}

// imageResult returns a tool's answer of about size bytes that is one image.
func imageResult(size int) []byte {
	pixels := []byte(strings.Repeat("\x89PNG\r\n\x1a\n\x00\x01\x02\x03\xfe\xff", size/16))
	return []byte(`{"jsonrpc":"2.0","id":4711,"result":{"content":[{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString(pixels) + `"}]}}`)
}

// fill puts as many items between head and tail as fit into size; if none
// does, the message is short, or else head and tail.
func fill(head, tail string, size int, item func(i int) string, short string) []byte {
	var s strings.Builder
	s.WriteString(head)
	for i := 0; ; i++ {
		next := item(i)
		if s.Len()+len(next)+len(tail) > size {
			if i == 0 && short != "" {
				return []byte(short)
			}
			break
		}
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(next)
	}
	s.WriteString(tail)
	return []byte(s.String())
}
