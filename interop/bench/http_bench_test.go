package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

const (
	said  = "the quick brown fox"
	turns = 400 // requests that one side makes before the next has its turn
)

// BenchmarkHTTP calls a tool that repeats a text, over Streamable HTTP, on our
// built-in server, on the servers of others, and on a handler that does nothing
// but read and write bytes. A metric x-NAME is how many of our calls fit into the
// time of one of theirs.
func BenchmarkHTTP(b *testing.B) {
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		for _, conns := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/connections=%d", era, conns), func(b *testing.B) { compare(b, era, conns) })
		}
	}
}

func compare(b *testing.B, era protocol.Era, conns int) {
	names := []string{"ours", "gosdk", "mcpgo", "bare"}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
	defer client.CloseIdleConnections()
	callers := make([]*caller, len(names))
	for i, h := range []http.Handler{ourServer(), goSDKServer(era), mcpGoServer(), http.HandlerFunc(bareHandler)} {
		server := httptest.NewServer(h)
		defer server.Close()
		callers[i] = newCaller(b, client, server.URL, era)
		callers[i].rounds(b, turns, conns)
	}
	if b.Failed() {
		return
	}
	took := make([]time.Duration, len(callers))
	total := 0
	for b.Loop() {
		for i, c := range callers {
			took[i] += c.rounds(b, turns, conns)
		}
		total += turns
	}
	b.ReportMetric(0, "ns/op") // of all sides together, which says nothing
	b.ReportMetric(float64(total)/took[0].Seconds(), "calls/s")
	for i, name := range names[1:] {
		b.ReportMetric(took[i+1].Seconds()/took[0].Seconds(), "x-"+name)
	}
}

func ourServer() http.Handler {
	e := builtin.New(nil)
	return &streamable.Server{Sessions: e, Requests: e.Requests()}
}

// goSDKServer answers in JSON, which is the faster of its ways, and in the modern
// era keeps no sessions.
func goSDKServer(era protocol.Era) http.Handler {
	type arguments struct {
		Text string `json:"text"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Sends its text back."},
		func(_ context.Context, _ *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: args.Text}}}, nil, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: era == protocol.Modern})
}

func mcpGoServer() http.Handler {
	s := mcpgoserver.NewMCPServer("mcp-go", "1", mcpgoserver.WithToolCapabilities(true))
	s.AddTool(mcpgo.NewTool("echo", mcpgo.WithDescription("Sends its text back."), mcpgo.WithString("text", mcpgo.Required())),
		func(_ context.Context, req mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(req.GetString("text", "")), nil
		})
	return mcpgoserver.NewStreamableHTTPServer(s)
}

// bareHandler reads the body and answers with few bytes.
func bareHandler(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"`+said+`","type":"text"}]}}`)
}

// A caller posts one request again and again.
type caller struct {
	client *http.Client
	url    string
	header http.Header
	body   []byte
}

// newCaller returns what calls echo in an era.
func newCaller(b *testing.B, client *http.Client, url string, era protocol.Era) *caller {
	b.Helper()
	c := &caller{client: client, url: url, header: http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json, text/event-stream"},
	}}
	meta := ""
	if era == protocol.Modern {
		c.header.Set(protocol.HeaderVersion, protocol.Latest.String())
		c.header.Set(protocol.HeaderMethod, protocol.MethodCallTool)
		c.header.Set(protocol.HeaderName, "echo")
		meta = `,"_meta":{"` + protocol.MetaProtocolVersion + `":"` + protocol.Latest.String() + `",` +
			`"` + protocol.MetaClientInfo + `":{"name":"bench","version":"1"},"` + protocol.MetaClientCapabilities + `":{}}`
	} else {
		c.shakeHands(b)
	}
	c.body = []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + said + `"}` + meta + `}}`)
	return c
}

// shakeHands begins a session of the legacy era.
func (c *caller) shakeHands(b *testing.B) {
	b.Helper()
	hello, _, err := c.post(b.Context(), []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+
		protocol.LatestLegacy.String()+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
	if err != nil {
		b.Fatal(err)
	}
	if id := hello.Get(protocol.HeaderSession); id != "" {
		c.header.Set(protocol.HeaderSession, id)
	}
	c.header.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
	if _, _, err := c.post(b.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		b.Fatal(err)
	}
}

// post makes one request and returns the headers and the body of its answer.
func (c *caller) post(ctx context.Context, body []byte) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = c.header
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode > http.StatusAccepted {
		err = fmt.Errorf("status %s: %s", resp.Status, text)
	}
	return resp.Header, text, err
}

// rounds makes n requests on so many connections and returns how long it took.
func (c *caller) rounds(b *testing.B, n, conns int) time.Duration {
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range conns {
		wg.Go(func() {
			// In a session an id may be in progress once.
			body := bytes.Replace(c.body, []byte(`"id":1`), fmt.Appendf(nil, `"id":%d`, i+1), 1)
			for range n / conns {
				_, text, err := c.post(b.Context(), body)
				if err == nil && !strings.Contains(string(text), said) {
					err = fmt.Errorf("unexpected answer: %s", text)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}
