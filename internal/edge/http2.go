package edge

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/http"
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
	// maxResets is how many streams a client may reset within resetWindow: each is
	// work that nobody wants.
	maxResets   = 1000
	resetWindow = 10 * time.Second
)

// Of frames, see RFC 9113, section 4.1.
const (
	prefaceLength     = 24
	frameHeaderLength = 9

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameContinuation = 9

	flagEndHeaders = 4
)

var errResets = errors.New("edge: the client resets too many streams")

// A framed is the connection of a client over HTTP/2. It bounds what net/http does not:
// how long a frame that is no data, or headers of several frames, may take, and how often
// streams are reset.
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
	data    bool // those may take their time: net/http bounds the preface, the doors bound bodies
	block   bool // headers have begun that are not whole
	waiting bool // late runs
	resets  int
	since   time.Time // when they were counted from
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
	if n > 0 && !f.follow(p[:n]) {
		f.log.Debug("connection cut: too many streams were reset", "client", f.RemoteAddr().String())
		_ = f.raw.Close() // it ends by our error
		return 0, errResets
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

// follow follows the frames. It reports false if the client is to be cut.
func (f *framed) follow(b []byte) bool {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.got:], b)
		b = b[n:]
		if f.got += n; f.got == frameHeaderLength && !f.begin() {
			return false
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
	return true
}

// begin takes the head of a frame. It reports false if it is one too many.
func (f *framed) begin() bool {
	kind, flags := f.head[3], f.head[4]
	f.got = 0
	f.skip = int(binary.BigEndian.Uint32(f.head[:4]) >> 8)
	f.data = kind == frameData
	switch kind {
	case frameHeaders, frameContinuation:
		f.block = flags&flagEndHeaders == 0
	case frameReset:
		now := time.Now()
		if now.Sub(f.since) > resetWindow {
			f.resets, f.since = 0, now
		}
		f.resets++
	}
	return f.resets <= maxResets
}

type stateKey struct{}

// withConnState puts the state of a connection into the context of its requests.
func withConnState(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, stateKey{}, &c.(*framed).state)
}

// withState has the requests of HTTP/2 know the state of their connection.
func withState(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state, _ := r.Context().Value(stateKey{}).(*tls.ConnectionState) // set by stateContext
		secure := *r
		secure.TLS = state
		h.ServeHTTP(w, &secure)
	})
}
