package badserver

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defects of HTTP.
const (
	ContentType     Defect = "content-type"      // answers are text/plain
	OKForAccepted   Defect = "ok-for-accepted"   // notifications get 200
	DeleteFails     Defect = "delete-fails"      // DELETE gets 500
	DeleteIgnored   Defect = "delete-ignored"    // DELETE ends nothing
	AnyOrigin       Defect = "any-origin"        // foreign pages are served
	AnyHost         Defect = "any-host"          // foreign names are
	LostSession400  Defect = "lost-session-400"  // unknown sessions get 400
	SessionOptional Defect = "session-optional"  // a session's requests need not name it
	NoSession       Defect = "no-session"        // there are no sessions, which is no defect
	ShortSession    Defect = "short-session"     // session ids can be guessed
	TakenBack       Defect = "taken-back"        // initialize is answered, and its revision refused
	AnyHeader       Defect = "any-header"        // MCP-Protocol-Version is not looked at
	GetFails        Defect = "get-fails"         // GET gets 500
	GetIsJSON       Defect = "get-is-json"       // GET gets 200 with JSON
	StreamStaysOpen Defect = "stream-stays-open" // the stream of a request does not end
	NoReplay        Defect = "no-replay"         // events have ids, which lead nowhere
	Buffered        Defect = "buffered"          // streams do not tell proxies to pass them on
	Streams         Defect = "streams"           // answers are streams, with ids that work, which is no defect
	AnyMethod       Defect = "any-method"        // PUT is served
	AnyType         Defect = "any-type"          // text/plain is read as JSON
	ModernSession   Defect = "modern-session"    // modern requests are given a session
	ModernStatus    Defect = "modern-status"     // modern errors have status 200
	HeadersIgnored  Defect = "headers-ignored"   // Mcp-Method and MCP-Protocol-Version may say anything
	NameIgnored     Defect = "name-ignored"      // Mcp-Name may
	NameRaw         Defect = "name-raw"          // Mcp-Name is not decoded
	HeaderAlone     Defect = "header-alone"      // a request without an envelope is of the legacy era, whatever its header says
	ModernEventID   Defect = "modern-event-id"   // modern answers are streams with ids
	SessionRefused  Defect = "session-refused"   // modern requests that name a session are refused
	ModernGet       Defect = "modern-get"        // as ModernOnly, and GET opens a stream
	GetAnswers      Defect = "get-answers"       // answers are on the stream of GET, too
	SameEventID     Defect = "same-event-id"     // all streams have the same ids
	NoPriming       Defect = "no-priming"        // the first event with an id has data
	PrimesOld       Defect = "primes-old"        // older clients get an event without data, too
	SameSession     Defect = "same-session"      // all sessions have one id
	NeedsHeader     Defect = "needs-header"      // a session's requests need MCP-Protocol-Version
	Moved           Defect = "moved"             // POST gets a 301
	MovedNear       Defect = "moved-near"        // POST gets a 308 to the same origin
	SignIn          Defect = "sign-in"           // 401, without a word
	HTMLPage        Defect = "html-page"         // all is a page
	EmptyOK         Defect = "empty-ok"          // 200 without a body
)

// Handler returns the server over Streamable HTTP, at any path.
func Handler(d Defect) http.Handler { return &handler{Defect: d, sessions: map[string]*server{}} }

type handler struct {
	Defect

	mu       sync.Mutex
	sessions map[string]*server // guarded by mu
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	switch {
	case h.Defect == HTMLPage:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>hello</html>")
	case h.Defect == SignIn:
		http.Error(w, "who are you?", http.StatusUnauthorized)
	case h.Defect == Moved, h.Defect == MovedNear && r.URL.Path == "/mcp":
		status := http.StatusMovedPermanently
		if h.Defect == MovedNear {
			status = http.StatusPermanentRedirect
		}
		http.Redirect(w, r, "/there", status)
	case r.Header.Get("Origin") != "" && h.Defect != AnyOrigin:
		http.Error(w, "foreign origin", http.StatusForbidden)
	case host != "127.0.0.1" && h.Defect != AnyHost && h.Defect != AnyOrigin:
		http.Error(w, "foreign host", http.StatusForbidden)
	case r.Method == http.MethodPost, h.Defect == AnyMethod && r.Method == http.MethodPut:
		h.post(w, r)
	case r.Method == http.MethodGet && h.Defect != TakenBack:
		h.get(w, r)
	case r.Method == http.MethodDelete && h.Defect != NoSession && !h.modernOnly():
		h.delete(w, r)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// session returns the session of a request, or answers that there is none.
func (h *handler) session(w http.ResponseWriter, r *http.Request) *server {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get(protocol.HeaderSession)
	s := h.sessions[id]
	switch {
	case s != nil:
	case h.Defect == NoSession, h.Defect == SessionOptional && id == "":
		s = newServer(h.Defect)
	case id == "", h.Defect == LostSession400:
		http.Error(w, "there is no such session", http.StatusBadRequest)
	default:
		http.Error(w, "there is no such session", http.StatusNotFound)
	}
	return s
}

func (h *handler) post(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && h.Defect != AnyType {
		http.Error(w, "that is no JSON", http.StatusUnsupportedMediaType)
		return
	}
	body, _ := io.ReadAll(r.Body) // what is cut is no JSON
	var m message
	if json.Unmarshal(body, &m) != nil {
		h.write(w, http.StatusBadRequest, (&server{}).answer(body))
		return
	}
	version, modern := m.version()
	switch {
	case modern && h.Defect != LegacyOnly:
		h.postModern(w, r, body, &m, version)
		return
	case r.Header.Get(protocol.HeaderVersion) == protocol.Latest.String() && h.Defect != LegacyOnly && h.Defect != HeaderAlone:
		h.write(w, http.StatusBadRequest, (&server{}).write(m.ID, nil, &rpcError{Code: protocol.CodeInvalidParams, Message: "there is no envelope"}))
		return
	}
	if h.Defect == TakenBack && m.Method != protocol.MethodInitialize {
		http.Error(w, "unsupported protocol version", http.StatusBadRequest)
		return
	}
	s := newServer(h.Defect)
	if m.Method == protocol.MethodInitialize {
		if h.Defect != NoSession && !h.modernOnly() {
			id := rand.Text()
			h.mu.Lock()
			if h.Defect == ShortSession {
				id = fmt.Sprint(len(h.sessions) + 1)
			}
			if h.Defect == SameSession {
				id = "the-one-and-only-session"
			}
			h.sessions[id] = s
			h.mu.Unlock()
			w.Header().Set(protocol.HeaderSession, id)
		}
	} else {
		if s = h.session(w, r); s == nil {
			return
		}
		version := r.Header.Get(protocol.HeaderVersion)
		if h.Defect != AnyHeader && version != "" && protocol.ParseRevision(version) == protocol.Unknown {
			http.Error(w, "there is no such revision", http.StatusBadRequest)
			return
		}
		if h.Defect == NeedsHeader && version == "" {
			http.Error(w, "which revision?", http.StatusBadRequest)
			return
		}
	}
	h.mu.Lock()
	answer := s.answer(body)
	h.mu.Unlock()
	switch {
	case h.Defect == EmptyOK:
		w.WriteHeader(http.StatusOK)
	case answer == nil && m.ID != nil: // it hangs
		<-r.Context().Done()
	case m.ID == nil && h.Defect == OKForAccepted:
		h.write(w, http.StatusOK, []byte("{}"))
	case answer == nil:
		w.WriteHeader(http.StatusAccepted)
	case h.modernOnly():
		h.write(w, http.StatusNotFound, answer)
	default:
		if h.Defect == GetAnswers && m.Method != protocol.MethodInitialize {
			select {
			case s.posted <- answer:
			default: // nobody has read the stream for long
			}
		}
		spoken := cmp.Or(m.Params.ProtocolVersion, r.Header.Get(protocol.HeaderVersion))
		h.answer(w, r, answer, spoken >= protocol.V20251125.String())
	}
}

// streaming are the defects of servers whose answers are streams.
var streaming = []Defect{Streams, Buffered, NoReplay, StreamStaysOpen, SameEventID, NoPriming, PrimesOld}

// answer writes an answer, as JSON or as a stream, which may begin with an event without data.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, answer []byte, primes bool) {
	if !slices.Contains(streaming, h.Defect) {
		h.write(w, http.StatusOK, answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if h.Defect != Buffered {
		w.Header().Set("Cache-Control", "no-cache")
	}
	id := rand.Text()
	if h.Defect == SameEventID {
		id = "stream"
	}
	if h.Defect == PrimesOld || primes && h.Defect != NoPriming && h.Defect != StreamStaysOpen {
		fmt.Fprintf(w, "id: %s_0\ndata:\n\n", id)
	}
	if h.Defect != StreamStaysOpen {
		fmt.Fprintf(w, "id: %s_1\n", id)
	}
	fmt.Fprintf(w, "event: message\ndata: %s\n\n", answer)
	if h.Defect == StreamStaysOpen {
		_ = http.NewResponseController(w).Flush() // else the client is gone
		<-r.Context().Done()
	}
}

func (h *handler) write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if h.Defect == ContentType {
		w.Header().Set("Content-Type", "text/plain")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// statuses of modern errors.
var statuses = map[int]int{
	protocol.CodeMethodNotFound: http.StatusNotFound, protocol.CodeUnsupported: http.StatusBadRequest, protocol.CodeInvalidParams: http.StatusBadRequest,
}

func (h *handler) postModern(w http.ResponseWriter, r *http.Request, body []byte, m *message, version string) {
	s := newServer(h.Defect)
	if h.Defect == SessionRefused && r.Header.Get(protocol.HeaderSession) != "" {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	name := r.Header.Get(protocol.HeaderName)
	if h.Defect != NameRaw {
		name = decoded(name)
	}
	misnamed := m.Method == protocol.MethodCallTool && name != m.Params.Name || m.Method == protocol.MethodReadResource && name != m.Params.URI
	differs := r.Header.Get(protocol.HeaderVersion) != version || r.Header.Get(protocol.HeaderMethod) != m.Method
	if misnamed && h.Defect != NameIgnored || differs && h.Defect != HeadersIgnored {
		h.write(w, http.StatusBadRequest, s.write(m.ID, nil, &rpcError{Code: protocol.CodeHeaderMismatch, Message: "headers and body differ"}))
		return
	}
	if h.Defect == ModernSession {
		w.Header().Set(protocol.HeaderSession, rand.Text())
	}
	if h.Defect == UnsteadyList {
		h.mu.Lock()
		if h.sessions["modern"] == nil {
			h.sessions["modern"] = s
		}
		s = h.sessions["modern"]
		h.mu.Unlock()
	}
	answer := s.answer(body)
	if answer == nil {
		if m.ID != nil {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var got struct{ Error *rpcError }
	status := http.StatusOK
	if _ = json.Unmarshal(answer, &got); got.Error != nil && h.Defect != ModernStatus && statuses[got.Error.Code] != 0 {
		status = statuses[got.Error.Code]
	}
	if h.Defect == ModernEventID && status == http.StatusOK {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		fmt.Fprintf(w, "id: 1\ndata: %s\n\n", answer)
		return
	}
	h.write(w, status, answer)
}

// decoded returns the value of a header, decoded if it is in base64.
func decoded(value string) string {
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		text, _ := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?=")) // what cannot be read is another name
		return string(text)
	}
	return value
}

func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	switch {
	case h.Defect == GetFails:
		http.Error(w, "it broke", http.StatusInternalServerError)
		return
	case h.Defect == GetIsJSON:
		h.write(w, http.StatusOK, []byte(`{"status":"ok"}`))
		return
	case h.Defect == NoSession, h.modernOnly() && h.Defect != ModernGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s := newServer(h.Defect)
	if !h.modernOnly() {
		if s = h.session(w, r); s == nil {
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if last := r.Header.Get(protocol.HeaderLastEventID); last != "" {
		if h.Defect != NoReplay {
			fmt.Fprint(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n\n")
		}
		return
	}
	fmt.Fprint(w, ": here\n\n")
	for {
		_ = http.NewResponseController(w).Flush() // else the client is gone
		select {
		case answer := <-s.posted:
			fmt.Fprintf(w, "data: %s\n\n", answer)
		case <-r.Context().Done():
			return
		}
	}
}

func (h *handler) delete(w http.ResponseWriter, r *http.Request) {
	if h.session(w, r) == nil {
		return
	}
	switch h.Defect {
	case DeleteFails:
		http.Error(w, "it broke", http.StatusInternalServerError)
		return
	case DeleteIgnored:
		w.WriteHeader(http.StatusOK)
		return
	}
	h.mu.Lock()
	delete(h.sessions, r.Header.Get(protocol.HeaderSession))
	h.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}
