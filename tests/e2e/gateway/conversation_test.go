//go:build unix

package gateway

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A party is one caller at a gateway, who speaks by the letter and keeps all that it is sent.
type party struct {
	*testing.T
	ctx   context.Context
	g     *gatewaytest.Gateway
	web   *http.Client
	proof string // its token
	lines string // the Unix socket by which it comes; "" for HTTP
	whole bool   // what it is sent is kept as it came, and not taken apart

	mu   sync.Mutex
	seen []sight // guarded by mu
}

// A sight is a value that a party was sent, and where it stood: in a header, in the id of an
// event, or in a member of a message.
type sight struct {
	where string
	value any // a string or a json.Number
}

func (p *party) see(where string, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, sight{where, value})
}

// keep keeps the values of JSON text; of other text the whole.
func (p *party) keep(where, text string) {
	if p.whole {
		p.see(where, text)
		return
	}
	var value any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil {
		p.see(where, text)
		return
	}
	p.walk(where, value)
}

func (p *party) walk(where string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			p.walk(name, member)
		}
	case []any:
		for _, item := range v {
			p.walk(where, item)
		}
	case string:
		p.see(where, v)
		if strings.HasPrefix(v, "{") {
			p.keep(where, v)
		}
	case json.Number:
		p.see(where, v)
	}
}

// words returns what the party was sent, and what stands in the parts of URLs.
func (p *party) words() (all []sight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		all = append(all, s)
		if text, ok := s.value.(string); ok && strings.Contains(text, "=") && !strings.Contains(text, " ") {
			for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("?&=/", r) }) {
				all = append(all, sight{s.where + " part", part})
			}
		}
	}
	return all
}

// eventIDs returns the ids of the events that the party was sent.
func (p *party) eventIDs() (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if s.where == "event id" {
			ids = append(ids, fmt.Sprint(s.value))
		}
	}
	return ids
}

// all returns everything that the party was sent, as text.
func (p *party) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, s := range p.seen {
		fmt.Fprintln(&b, s.where, s.value)
	}
	return b.String()
}

// request makes a request of this party.
func (p *party) request(ctx context.Context, method, url string, header http.Header, body string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+p.proof)
	return req
}

// fetch sends a request, and hands over each event or the body as it comes, until take says that it is
// enough. The status comes first.
func (p *party) fetch(req *http.Request, begin func(*http.Response), take func(e event) (more bool)) error {
	resp, err := p.web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		p.see(name, strings.Join(values, ","))
	}
	begin(resp)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		p.keep("body", string(body))
		take(event{data: string(body)})
		return err
	}
	for events := newEvents(resp.Body); ; {
		e, err := events.next()
		if err != nil {
			return nil //nolint:nilerr // a stream has no other end
		}
		if e.id != "" {
			p.see("event id", e.id)
		}
		p.keep("event", e.data)
		if !take(e) {
			return nil
		}
	}
}

// A conversation is one of a party, through one endpoint and in one era.
type conversation struct {
	*party
	endpoint *endpoint
	server   string
	prefix   string // of the names of tools
	send     func(text string)
	header   http.Header // of its requests over HTTP

	mu   sync.Mutex
	got  []string      // messages; guarded by mu
	more chan struct{} // closed and made again with each; guarded by mu
	next int           // id of the last request
}

// An endpoint is one way into a gateway.
type endpoint struct {
	name string
	era  protocol.Era
	path string
	open func(v *conversation)

	mute  bool // what belongs to no call is not told there, and nobody is asked
	tools bool // it knows calls of tools alone
}

// endpoints are all ways into a gateway that carry messages.
var endpoints = []*endpoint{
	{name: "Streamable HTTP", era: protocol.Legacy, path: "mcp", open: (*conversation).overHTTP},
	{name: "Streamable HTTP", era: protocol.Modern, path: "mcp", open: (*conversation).overHTTP},
	{name: "HTTP+SSE", era: protocol.Legacy, path: "sse", open: (*conversation).overSSE},
	{name: "POSTs of HTTP+SSE", era: protocol.Legacy, path: "messages", open: (*conversation).overHTTP, mute: true},
	{name: "WebSocket", era: protocol.Legacy, path: "ws", open: (*conversation).overSocket},
	{name: "WebSocket", era: protocol.Modern, path: "ws", open: (*conversation).overSocket},
	{name: "frames", era: protocol.Modern, path: "ws", open: (*conversation).overSocket, mute: true, tools: true},
	{name: "call", era: protocol.Modern, path: "call", open: (*conversation).overHTTP, mute: true, tools: true},
}

// byLines is the way by which users of this machine come.
var byLines = []*endpoint{
	{name: "lines", era: protocol.Legacy, open: (*conversation).overLines},
	{name: "lines", era: protocol.Modern, open: (*conversation).overLines},
}

func (d *endpoint) String() string { return d.name + ", " + d.era.String() }

// enter opens a conversation, with the handshake if its era has one.
func (p *party) enter(d *endpoint, server, prefix string) *conversation {
	p.Helper()
	v := &conversation{party: p, endpoint: d, server: server, prefix: prefix, header: http.Header{}, more: make(chan struct{})}
	d.open(v)
	if d.era == protocol.Legacy {
		v.ask(protocol.MethodInitialize, object{
			"protocolVersion": protocol.LatestLegacy.String(), "clientInfo": object{"name": "guest", "version": "1"},
			"capabilities": object{"sampling": object{}, "roots": object{}, "elicitation": object{}},
		})
		v.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if d.name == "Streamable HTTP" {
			v.listen(http.MethodGet, v.g.URL(server, d.path), nil)
		}
	}
	return v
}

// take takes what has come.
func (v *conversation) take(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.got = append(v.got, text)
	close(v.more)
	v.more = make(chan struct{})
}

// since returns what has come since there were so many.
func (v *conversation) since(n int) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.got[n:])
}

// await waits for a message, from the first one on that is not among so many, and returns it.
func (v *conversation) await(what string, from int, is func(text string) bool) string {
	v.Helper()
	for late := time.After(gatewaytest.Patience); ; {
		v.mu.Lock()
		got, more := v.got[from:], v.more
		v.mu.Unlock()
		if i := slices.IndexFunc(got, is); i >= 0 {
			return got[i]
		}
		select {
		case <-more:
		case <-late:
			v.Fatalf("%s: timed out waiting for %s; got %q", v.endpoint, what, got)
		}
	}
}

// message returns the text of a request, under the next id.
func (v *conversation) message(method string, params object) (text string, id int) {
	v.next++
	return v.numbered(v.next, method, params), v.next
}

func (v *conversation) numbered(id any, method string, params object) string {
	if params = maps.Clone(params); params == nil {
		params = object{}
	}
	if v.endpoint.tools {
		text, _ := json.Marshal(object{"id": id, "name": params["name"], "arguments": params["arguments"]})
		if v.endpoint.path == "call" {
			text, _ = json.Marshal(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		}
		return string(text)
	}
	meta := object{}
	if method == protocol.MethodCallTool {
		meta[protocol.MetaProgressToken] = fmt.Sprintf("token-%v", id)
	}
	if v.endpoint.era == protocol.Modern {
		meta = with(meta, object{
			protocol.MetaProtocolVersion: protocol.Latest.String(), protocol.MetaClientInfo: object{"name": "guest", "version": "1"},
			protocol.MetaClientCapabilities: object{"sampling": object{}, "roots": object{}, "elicitation": object{}},
			protocol.MetaLogLevel:           "info",
		})
	}
	if more, ok := params["_meta"].(object); ok {
		meta = with(meta, more)
	}
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	text, _ := json.Marshal(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return string(text)
}

// begin sends a request and does not wait.
func (v *conversation) begin(method string, params object) (id int) {
	text, id := v.message(method, params)
	v.send(text)
	return id
}

// answer waits for the answer to a request, which has come since there were so many messages.
func (v *conversation) answer(id, from int) string {
	v.Helper()
	return v.await(fmt.Sprint("the answer to ", id), from, answers(dragoman.IntID(int64(id))))
}

// answers recognizes the answer to a request, behind its status if that is no success.
func answers(id dragoman.ID) func(text string) bool {
	return func(text string) bool {
		m, err := dragoman.Parse([]byte(strings.TrimLeft(text, "0123456789 ")))
		return err == nil && m.Kind() == dragoman.Response && m.ID() == id
	}
}

// ask sends a request and returns its answer.
func (v *conversation) ask(method string, params object) string {
	v.Helper()
	n := len(v.since(0)) // somebody may have used the next id before
	return v.answer(v.begin(method, params), n)
}

// tool calls a tool.
func (v *conversation) tool(name string, arguments object) string {
	v.Helper()
	return v.ask(protocol.MethodCallTool, v.calling(name, arguments))
}

func (v *conversation) calling(name string, arguments object) object {
	if arguments == nil {
		arguments = object{}
	}
	return object{"name": v.prefix + name, "arguments": arguments}
}

// overHTTP has each message be a POST. What comes for it, and a status that is no success, are taken.
func (v *conversation) overHTTP() { v.post(v.g.URL(v.server, v.endpoint.path)) }

func (v *conversation) post(to string) {
	v.send = func(text string) {
		m, err := dragoman.Parse([]byte(text))
		if err != nil {
			v.Fatal(err)
		}
		req := v.request(v.ctx, http.MethodPost, to, v.headers(m), text)
		done := make(chan struct{})
		go func() { // ends with the request, at the end of the test at the latest
			defer close(done)
			status := 0
			err := v.fetch(req, func(resp *http.Response) {
				status = resp.StatusCode
				if id := resp.Header.Get(protocol.HeaderSession); id != "" && v.endpoint.path == "mcp" {
					v.mu.Lock()
					v.header.Set(protocol.HeaderSession, id)
					v.mu.Unlock()
				}
			}, func(e event) bool {
				switch {
				case status/100 != 2:
					v.take(fmt.Sprint(status, " ", e.data))
				case e.data != "":
					v.take(e.data)
				}
				return true
			})
			if err != nil && v.ctx.Err() == nil {
				v.take("no answer: " + err.Error())
			}
		}()
		if m.Kind() != dragoman.Request {
			<-done
		}
	}
}

// headers returns those that go with a message.
func (v *conversation) headers(m *dragoman.Message) http.Header {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.header.Clone()
	if v.endpoint.path != "mcp" {
		return h
	}
	if v.endpoint.era == protocol.Legacy {
		h.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
		return h
	}
	h.Set(protocol.HeaderVersion, protocol.Latest.String())
	h.Set(protocol.HeaderMethod, m.Method())
	task, _ := dragoman.Text(m.Get("taskId"))
	if name := cmp.Or(m.Name(), m.URI(), task); name != "" {
		h.Set(protocol.HeaderName, name)
	}
	return h
}

// listen opens a stream, and waits until it is open. It ends with the test.
func (v *conversation) listen(method, url string, first func(e event)) {
	v.Helper()
	opened := make(chan int, 1)
	v.mu.Lock()
	req := v.request(v.ctx, method, url, v.header.Clone(), "")
	v.mu.Unlock()
	go func() { // ends with the test
		err := v.fetch(req, func(resp *http.Response) { opened <- resp.StatusCode }, func(e event) bool {
			if first != nil {
				first(e)
				first = nil
				return true
			}
			v.take(e.data)
			return true
		})
		if err != nil && v.ctx.Err() == nil {
			v.take("no stream: " + err.Error())
		}
	}()
	select {
	case status := <-opened:
		if status != http.StatusOK {
			v.Fatalf("%s: the stream gets %d", v.endpoint, status)
		}
	case <-time.After(gatewaytest.Patience):
		v.Fatalf("%s: no stream", v.endpoint)
	}
}

// overSSE has a stream tell where messages are posted.
func (v *conversation) overSSE() {
	endpoint := make(chan string, 1)
	at := v.g.URL(v.server, v.endpoint.path)
	v.listen(http.MethodGet, at, func(e event) { endpoint <- e.data })
	base, err := url.Parse(at)
	if err != nil {
		v.Fatal(err)
	}
	to, err := base.Parse(<-endpoint)
	if err != nil {
		v.Fatal(err)
	}
	v.post(to.String())
}

// overSocket opens a WebSocket.
func (v *conversation) overSocket() {
	path := strings.TrimPrefix(v.g.URL(v.server, v.endpoint.path), v.g.Base)
	socket, resp := v.g.Upgrade(path, "Authorization: Bearer "+v.proof)
	if socket == nil {
		v.Fatal(resp.Status)
	}
	_ = socket.SetDeadline(time.Time{}) // its context has one
	var mu sync.Mutex
	v.send = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if err := socket.Send(gatewaytest.TextFrame, text); err != nil {
			v.take("not sent: " + err.Error())
		}
	}
	go v.follow(func() (string, error) { // ends with the socket
		for {
			switch first, text, err := socket.Next(); {
			case err != nil || first == gatewaytest.TextFrame:
				return text, err
			case first == gatewaytest.PingFrame:
				mu.Lock()
				err = socket.Send(gatewaytest.PongFrame, text)
				mu.Unlock()
				if err != nil {
					return "", err
				}
			}
		}
	})
}

// overLines opens a Unix socket for lines.
func (v *conversation) overLines() {
	c, err := net.Dial("unix", v.lines)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { _ = c.Close() })
	v.send = func(text string) {
		if _, err := io.WriteString(c, text+"\n"); err != nil {
			v.take("not sent: " + err.Error())
		}
	}
	r := bufio.NewReader(c)
	go v.follow(func() (string, error) { return r.ReadString('\n') }) // ends with the socket
}

// follow takes messages until there are no more.
func (v *conversation) follow(next func() (string, error)) {
	for {
		text, err := next()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) && v.ctx.Err() == nil {
				v.take("the socket ends: " + err.Error())
			}
			return
		}
		v.keep("message", text)
		v.take(strings.TrimSpace(text))
	}
}
