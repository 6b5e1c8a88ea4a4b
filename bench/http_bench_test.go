package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A caller posts one request again and again.
type caller struct {
	url    string
	header http.Header
	body   []byte
}

// rounds makes n requests on so many connections and returns how long it took.
func (c *caller) rounds(b *testing.B, client *http.Client, n, conns int) time.Duration {
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range conns {
		wg.Go(func() {
			// In a session an id may be in progress once.
			body := bytes.Replace(c.body, []byte(`"id":1`), fmt.Appendf(nil, `"id":%d`, i), 1)
			for range n / conns {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, c.url, bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header = c.header
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Errorf("status %d, %v", resp.StatusCode, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// bareResults are what echo answers, in each era.
var bareResults = map[protocol.Era]string{
	protocol.Legacy: `{"content":[{"text":"the quick brown fox","type":"text"}]}`,
	protocol.Modern: `{"resultType":"complete","_meta":{"` + protocol.MetaServerInfo +
		`":{"description":"Every feature of MCP, in every revision","name":"dragoman-everything","title":"Everything","version":"1.0.0"}},` +
		`"content":[{"text":"the quick brown fox","type":"text"}]}`,
}

// BenchmarkHTTP compares a call of the built-in echo over Streamable HTTP with a
// handler that does nothing but read and write the same bytes, both behind
// net/http, in turns. What is reported is the median turn.
func BenchmarkHTTP(b *testing.B) {
	e := builtin.New(nil)
	ours := httptest.NewServer(&streamable.Server{Sessions: e, Requests: e.Requests()})
	defer ours.Close()
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		bare := httptest.NewServer(bareMemory(bareResults[era]))
		defer bare.Close()
		for _, conns := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/connections=%d", era, conns), func(b *testing.B) {
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
				defer client.CloseIdleConnections()
				c := echoCaller(b, ours.URL, era)
				plain := *c
				plain.url = bare.URL
				c.rounds(b, client, 200, conns)
				plain.rounds(b, client, 200, conns)
				var oursTime, bareTime []time.Duration
				const turn = 160
				for b.Loop() {
					for range 5 { // short turns, so that both have the same share of noise
						oursTime = append(oursTime, c.rounds(b, client, turn, conns))
						bareTime = append(bareTime, plain.rounds(b, client, turn, conns))
					}
				}
				slices.Sort(oursTime)
				slices.Sort(bareTime)
				median := len(oursTime) / 2
				b.ReportMetric(turn/oursTime[median].Seconds(), "calls/s")
				b.ReportMetric(turn/bareTime[median].Seconds(), "bare/s")
				b.ReportMetric(bareTime[median].Seconds()/oursTime[median].Seconds(), "x-bare")
			})
		}
	}
}

// echoCaller returns what calls echo in an era.
func echoCaller(b *testing.B, url string, era protocol.Era) *caller {
	b.Helper()
	return echoCallerAs(b, url, era, "")
}

// echoCallerAs is echoCaller with a token, if that is not empty.
func echoCallerAs(b *testing.B, url string, era protocol.Era, token string) *caller {
	b.Helper()
	c := &caller{url: url, header: http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	}}
	if token != "" {
		c.header.Set("Authorization", "Bearer "+token)
	}
	meta := ""
	if era == protocol.Modern {
		c.header.Set(protocol.HeaderVersion, protocol.Latest.String())
		c.header.Set(protocol.HeaderMethod, protocol.MethodCallTool)
		c.header.Set(protocol.HeaderName, "echo")
		meta = `,"_meta":{"` + protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `","` + protocol.MetaClientCapabilities + `":{}}`
	} else {
		init := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
		req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(init))
		req.Header = c.header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
		c.header = c.header.Clone()
		c.header.Set(protocol.HeaderSession, resp.Header.Get(protocol.HeaderSession))
		c.header.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
	}
	c.body = []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the quick brown fox"}` + meta + `}}`)
	return c
}
