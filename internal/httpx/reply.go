package httpx

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
)

// minGzip is the length from which compression is worth its time.
const minGzip = 16 << 10

var gzipWriters = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // fails on unknown levels alone
	return z
}}

// WriteJSON answers with a body that is JSON text, compressed if it is long, the
// client accepts that, and there is a network between us.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = jsonType
	if r.Method != http.MethodPost || len(r.Header["Origin"]) > 0 {
		h["X-Content-Type-Options"] = noSniff // browsers post with an Origin
	}
	if len(body) >= minGzip && !isLocal(r.RemoteAddr) {
		h.Add("Vary", "Accept-Encoding")
		if admits(r.Header.Values("Accept-Encoding"), "gzip", "*") {
			h.Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			return writeGzip(w, body)
		}
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// isLocal reports whether a client is on this machine: it has a loopback address, or
// none, as over a Unix socket.
func isLocal(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err != nil || a.Addr().Unmap().IsLoopback()
}

func writeGzip(w io.Writer, body []byte) error {
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(w)
	_, err := z.Write(body)
	if cerr := z.Close(); err == nil {
		err = cerr
	}
	z.Reset(io.Discard) // the pool must not hold on to w
	gzipWriters.Put(z)
	return err
}
