package httpserver

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// http2Limits is what a client over HTTP/2 may use. net/http serves no more streams at
// once, whichever of them a client has reset, and lets four times as many wait.
func http2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          256,
		MaxReadFrameSize:              64 << 10,
		MaxReceiveBufferPerConnection: 1 << 20,
		MaxReceiveBufferPerStream:     256 << 10,
		MaxDecoderHeaderTableSize:     4 << 10,
		MaxEncoderHeaderTableSize:     4 << 10,
		SendPingTimeout:               15 * time.Second,
		PingTimeout:                   10 * time.Second,
		WriteByteTimeout:              30 * time.Second,
	}
}

const (
	// maxResets is how many streams a client may reset within floodWindow: each is
	// work that nobody wants.
	maxResets = 1000

	// maxIdleFrames is how many frames a client may send within floodWindow that neither
	// open a stream nor carry anything for one: SETTINGS, PRIORITY, PING, empty DATA and
	// frames of unknown types. Some clients send a PING with each reset.
	maxIdleFrames = 2000

	floodWindow = 10 * time.Second
)

// Of frames, see RFC 9113, section 4.1.
const (
	prefaceLength     = 24
	frameHeaderLength = 9

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameWindowUpdate = 8
	frameContinuation = 9

	flagEndStream  = 1
	flagEndHeaders = 4
)

// Why a connection is cut.
var (
	errResets = errors.New("the client resets too many streams")
	errIdle   = errors.New("the client sends too many frames that carry nothing (SETTINGS, PRIORITY, PING, empty DATA)")
)

// A framed is the connection of a client over HTTP/2. It bounds what net/http does not:
// how long a frame that is no data, or headers of several frames, may take, how often
// streams are reset, and how many frames carry nothing.
//
// It has no method for the state of TLS: to a connection that has one, net/http speaks
// HTTP/2 only if it has made the handshake itself. Requests have the state by [withState].
type framed struct {
	net.Conn
	raw   net.Conn // below TLS
	state tls.ConnectionState
	log   *slog.Logger
	late  *time.Timer // cuts the connection

	// Owned by who reads: net/http has one at a time.
	head    [frameHeaderLength]byte
	got     int  // bytes of head that have come
	skip    int  // bytes of the preface, or behind head, that are to come
	data    bool // those may take their time: net/http bounds the preface, the endpoints bound bodies
	block   bool // headers have begun that are not whole
	waiting bool // late runs
	resets  int
	idle    int       // frames that carry nothing
	since   time.Time // when resets and idle were counted from
}

func newFramed(c *tls.Conn, raw net.Conn, log *slog.Logger) *framed {
	f := &framed{Conn: c, raw: raw, state: c.ConnectionState(), log: log, skip: prefaceLength, data: true}
	f.late = time.AfterFunc(HeaderTimeout, f.cut)
	f.late.Stop()
	return f
}

// cut ends the connection of a client that takes too long.
func (f *framed) cut() {
	f.log.Debug("connection cut: a frame took too long", "client", f.RemoteAddr().String())
	_ = f.raw.Close() // whoever reads notices
}

// Read implements net.Conn.
func (f *framed) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 {
		if flood := f.follow(p[:n]); flood != nil {
			f.log.Debug("connection cut", "reason", flood, "client", f.RemoteAddr().String())
			_ = f.raw.Close() // it ends by our error
			return 0, flood
		}
	}
	return n, err
}

// Close implements net.Conn.
func (f *framed) Close() error {
	f.late.Stop()
	return f.Conn.Close()
}

// NetConn returns the connection below.
func (f *framed) NetConn() net.Conn { return f.Conn }

// follow follows the frames. The error is why the client is to be cut.
func (f *framed) follow(b []byte) error {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.got:], b)
		b = b[n:]
		if f.got += n; f.got == frameHeaderLength {
			if err := f.begin(); err != nil {
				return err
			}
		}
	}
	begun := f.got > 0 || f.block || f.skip > 0 && !f.data
	switch {
	case begun && !f.waiting:
		f.late.Reset(HeaderTimeout)
	case !begun && f.waiting:
		f.late.Stop()
	}
	f.waiting = begun
	return nil
}

// begin takes the head of a frame. The error says that it is one too many.
func (f *framed) begin() error {
	kind, flags := f.head[3], f.head[4]
	f.got = 0
	f.skip = int(binary.BigEndian.Uint32(f.head[:4]) >> 8)
	f.data = kind == frameData
	switch kind {
	case frameHeaders, frameContinuation:
		f.block = flags&flagEndHeaders == 0
	case frameReset:
		if f.count(&f.resets) > maxResets {
			return errResets
		}
	case frameWindowUpdate: // comes with all that a client reads
	default:
		if f.data && (f.skip > 0 || flags&flagEndStream != 0) {
			return nil
		}
		if f.count(&f.idle) > maxIdleFrames {
			return errIdle
		}
	}
	return nil
}

// count counts a frame, and returns how many of its kind have come in the window.
func (f *framed) count(frames *int) int {
	if now := time.Now(); now.Sub(f.since) > floodWindow {
		f.resets, f.idle, f.since = 0, 0, now
	}
	*frames++
	return *frames
}

type stateKey struct{}

// withConnState puts the state of a connection into the context of its requests.
func withConnState(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, stateKey{}, &c.(*framed).state)
}

// withState has the requests of HTTP/2 know the state of their connection, and refuses those that
// others may read in another way, as strict does for HTTP/1.1.
func withState(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := ambiguous(r); why != "" {
			http.Error(w, why, http.StatusBadRequest)
			return
		}
		state, _ := r.Context().Value(stateKey{}).(*tls.ConnectionState) // set by stateContext
		secure := *r
		secure.TLS = state
		h.ServeHTTP(w, &secure)
	})
}

// ambiguous returns why a request of HTTP/2 can be read in two ways, or "".
func ambiguous(r *http.Request) string {
	if r.Method != http.MethodConnect && !strings.HasPrefix(r.RequestURI, "/") {
		return "invalid :path: it must begin with / and name neither a scheme nor a host; the host belongs into :authority"
	}
	lengths := r.Header["Content-Length"]
	if len(lengths) > 1 {
		return "invalid content-length: it is there more than once; send it once"
	}
	if len(lengths) == 1 && strconv.FormatInt(r.ContentLength, 10) != lengths[0] {
		return "invalid content-length: it must be a number in decimal digits"
	}
	return ""
}
