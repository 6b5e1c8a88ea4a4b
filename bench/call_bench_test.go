package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

// BenchmarkCallPost compares tool calls over plain HTTP with a handler that does
// nothing but read and write the same bytes, both behind net/http, in turns: calls
// of the built-in echo, whose arguments are checked, and calls that a peer answers
// without looking, which is what the transport alone costs.
func BenchmarkCallPost(b *testing.B) {
	for name, server := range map[string]*toolhttp.Server{
		"echo":      {Requests: builtin.New(nil).Requests(), Check: new(jsonschema.Checker).Check},
		"transport": {Requests: answers(128)},
	} {
		ours := httptest.NewServer(server)
		defer ours.Close()
		c := &caller{
			url:    ours.URL,
			header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
			body:   []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the quick brown fox"}}}`),
		}
		answer := c.answer(b)
		bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
		}))
		defer bare.Close()
		plain := *c
		plain.url = bare.URL
		for _, conns := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/connections=%d", name, conns), func(b *testing.B) {
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
				defer client.CloseIdleConnections()
				besideBare(b,
					func(n int) time.Duration { return c.rounds(b, client, n, conns) },
					func(n int) time.Duration { return plain.rounds(b, client, n, conns) })
			})
		}
	}
}

// answers is a peer that lists the tool echo and gives every other request the
// same answer, of about so many bytes.
func answers(size int) dragoman.Peer {
	parse := func(result string) *dragoman.Message {
		m, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`))
		if err != nil {
			panic(err)
		}
		return m
	}
	tools := parse(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	answer := parse(`{"resultType":"complete","content":[{"type":"text","text":"` + strings.Repeat("x", max(0, size-112)) + `"}]}`)
	return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodListTools {
			return tools.WithID(req.ID()), nil
		}
		return answer.WithID(req.ID()), nil
	}}
}

// answer returns the body of the response.
func (c *caller) answer(b *testing.B) []byte {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header = c.header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	return body
}

// besideBare lets two sides make calls by turns. It reports the median turn of
// each, and the median of how they compare in each pair of turns.
func besideBare(b *testing.B, ours, bare func(n int) time.Duration) {
	b.Helper()
	const turn = 160 // short, so that both have the same share of noise
	ours(2 * turn)
	bare(2 * turn)
	var oursRate, bareRate, ratio []float64
	for b.Loop() {
		for range 5 {
			o, p := ours(turn).Seconds(), bare(turn).Seconds()
			oursRate, bareRate, ratio = append(oursRate, turn/o), append(bareRate, turn/p), append(ratio, p/o)
		}
	}
	for unit, values := range map[string][]float64{"calls/s": oursRate, "bare/s": bareRate, "x-bare": ratio} {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], unit)
	}
}
