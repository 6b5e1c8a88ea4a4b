package fault

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// An object is a JSON object.
type object = map[string]any

// Options says what is served. The zero value serves both eras and keeps no
// journal.
type Options struct {
	// Name is what the server calls itself; if empty, "fault".
	Name string

	// Revisions are the revisions that are served. If nil, it is all of them.
	Revisions []protocol.Revision

	// Journal is where it writes down what it does.
	Journal Journal

	// Numbered is how many resources there are that have numbers.
	Numbered int

	// Exit is what the tool crash does. If nil, the process ends.
	Exit func()
}

// A Server is the built-in server with tools that misbehave.
type Server struct {
	base    *builtin.Server
	revs    []protocol.Revision
	journal Journal
	exit    func()
	wire    *wire // nil if it is not served on standard input and output
}

// New returns a server. opts may be nil.
func New(opts *Options) *Server {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = "fault"
	}
	if o.Exit == nil {
		o.Exit = func() { os.Exit(crashStatus) }
	}
	if o.Revisions == nil {
		o.Revisions = protocol.Revisions()
	}
	base := builtin.New(&builtin.Options{Name: o.Name, Revisions: o.Revisions, Numbered: o.Numbered})
	return &Server{base: base, revs: o.Revisions, journal: o.Journal, exit: o.Exit}
}

// Revisions returns those of an era: "legacy", "modern", or any other word for
// both.
func Revisions(era string) (list []protocol.Revision) {
	for _, r := range protocol.Revisions() {
		if e := r.Era().String(); e == era || era != protocol.Legacy.String() && era != protocol.Modern.String() {
			list = append(list, r)
		}
	}
	return list
}

// Accept implements dragoman.Acceptor.
func (s *Server) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	peer, err := s.base.Accept(ctx, client)
	if err != nil {
		return nil, err
	}
	return faultPeer{peer, s}, nil
}

// Requests returns the endpoint for requests of the modern era.
func (s *Server) Requests() dragoman.Peer { return faultPeer{s.base.Requests(), s} }

func (s *Server) serves(era protocol.Era) bool {
	return slices.ContainsFunc(s.revs, func(r protocol.Revision) bool { return r.Era() == era })
}

// Close ends all subscriptions of the modern era.
func (s *Server) Close() error { return s.base.Close() }

// A faultPeer is one of the built-in server's, with our tools.
type faultPeer struct {
	dragoman.Peer
	server *Server
}

// Call implements dragoman.Peer.
func (d faultPeer) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	s := d.server
	switch req.Method() {
	case protocol.MethodListTools:
		resp, err := d.Peer.Call(ctx, req, from)
		if err != nil || resp.IsError() {
			return resp, err
		}
		return withTools(resp)
	case protocol.MethodCallTool:
		if t := findTool(req.Name()); t != nil {
			return s.run(ctx, t, req, from)
		}
	}
	return d.Peer.Call(ctx, req, from)
}

// withTools adds our tools to a list.
func withTools(resp *dragoman.Message) (*dragoman.Message, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(resp.Get("tools"), &list); err != nil {
		return nil, err
	}
	for _, t := range tools() {
		list = append(list, t.definition())
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return resp.Edit().Set("tools", text).Message()
}

// A call is one call of a tool of ours.
type call struct {
	*Server
	req  *dragoman.Message
	from dragoman.Peer // may be nil
	args arguments
}

// arguments are those of all tools.
type arguments struct {
	Text  string `json:"text"`
	Key   string `json:"key"`
	MS    int    `json:"ms"`
	N     int    `json:"n"`
	Bytes int    `json:"bytes"`
	Lines int    `json:"lines"`
}

// run carries out a call of a tool of ours.
func (s *Server) run(ctx context.Context, t *tool, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	c := &call{Server: s, req: req, from: from}
	if given := req.Get("arguments"); given != nil {
		if json.Unmarshal(given, &c.args) != nil {
			return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "arguments of the wrong type"}), nil //nolint:nilerr // that is the answer
		}
	}
	if t.wire && s.wire == nil {
		return req.Reply(c.result("only on standard input and output", true))
	}
	result, err := t.run(ctx, c)
	if err != nil {
		return nil, err
	}
	return req.Reply(result)
}

func (c *call) modern() bool { return protocol.IsModern(c.req) }

// result returns a result with one text.
func (c *call) result(text string, wrong bool) object {
	r := object{"content": []object{{"type": "text", "text": text}}}
	if wrong {
		r["isError"] = true
	}
	if c.modern() {
		r["resultType"] = protocol.ResultComplete
	}
	return r
}

// line returns the answer with a text, as it stands on the wire, under an id.
func (c *call) line(id dragoman.ID, text string) []byte {
	m, err := dragoman.NewResult(id, c.result(text, false))
	if err != nil {
		return nil // strings always encode
	}
	return append(m.Bytes(), '\n')
}

// A Handler serves a Server over HTTP: /mcp is Streamable HTTP, /sse and /messages
// are HTTP+SSE, /ws is WebSocket, /call takes tool calls.
type Handler struct {
	mux     *http.ServeMux
	streams *streamable.Server
	events  *sse.Server
	sockets *ws.Server
	calls   *toolhttp.Server
}

// Handler returns a handler, whose conversations end with its Shutdown.
func (s *Server) Handler() *Handler {
	h := &Handler{
		mux:     http.NewServeMux(),
		streams: &streamable.Server{},
		events:  &sse.Server{Acceptor: s},
		sockets: &ws.Server{Acceptor: s, Requests: s.Requests()},
		calls:   &toolhttp.Server{Requests: s.Requests()},
	}
	if s.serves(protocol.Legacy) {
		h.streams.Sessions = s
	}
	if s.serves(protocol.Modern) {
		h.streams.Requests = s.Requests()
	}
	h.mux.Handle("/mcp", h.streams)
	h.mux.Handle("/sse", h.events.Stream())
	h.mux.Handle("/messages", h.events.Messages())
	h.mux.Handle("/ws", h.sockets)
	h.mux.Handle("/call", http.StripPrefix("/call", h.calls))
	h.mux.Handle("/call/", http.StripPrefix("/call", h.calls))
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Shutdown ends all conversations, at once if ctx has ended.
func (h *Handler) Shutdown(ctx context.Context) error {
	return errors.Join(h.streams.Shutdown(ctx), h.events.Shutdown(ctx), h.sockets.Shutdown(ctx), h.calls.Shutdown(ctx))
}
