package fastpost

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

const (
	// maxPending is how much of a body is kept until its length is known, as by net/http.
	maxPending = 2 << 10

	// maxOut is how much is kept to be written at once.
	maxOut = 8 << 10
)

// How the end of an answer is found.
const (
	undecided = iota // its head has not been written
	counted          // by its Content-Length
	chunked
	bodiless
)

// A response is written by a handler: the http.ResponseWriter of an answer.
type response struct {
	conn    *conn // its out is ours, and its pending
	header  http.Header
	status  int // 0 until there is one
	framing int
	left    int64 // what is still to be written if counted; -1 if nobody has said it
	typed   bool  // the head says what the body is, or must not
	last    bool  // the connection ends with it
	err     error // of the first write that failed
}

func (w *response) reset(c *conn) {
	w.conn, w.header, w.left = c, make(http.Header, 4), -1
	c.out, c.pending = c.out[:0], c.pending[:0]
	_ = c.rwc.SetWriteDeadline(time.Time{}) // that of the answer before
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. There are no informational responses.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status = status
	out := w.conn.out
	if status == http.StatusOK {
		out = append(out, "HTTP/1.1 200 OK\r\n"...)
	} else {
		out = appendStatus(out, status)
	}
	var room [16]string
	names := room[:0]
	for name := range w.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range w.header[name] {
			if w.take(name, value) {
				out = appendField(out, name, value)
			}
		}
	}
	_, w.typed = w.header["Content-Type"]
	w.typed = w.typed || len(w.header["Content-Encoding"]) > 0
	if len(w.header["Date"]) == 0 {
		out = append(out, date()...)
	}
	if !w.last && w.conn.server.stopping.Load() {
		w.last = true
		out = appendField(out, "Connection", "close")
	}
	w.conn.out = out
}

// take notes what a header says about how the answer is written. It reports false if the
// header is for us, or no header.
func (w *response) take(name, value string) bool {
	switch name {
	case lengthName:
		if n, err := strconv.ParseUint(value, 10, 63); err == nil {
			w.left = int64(n) // #nosec G115 -- of 63 bits
		}
		return false
	case "Transfer-Encoding":
		return false
	case "Connection":
		w.last = w.last || strings.EqualFold(value, "close")
	}
	return httpframe.IsToken(name)
}

func appendStatus(out []byte, status int) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(out, ' ')
	text := http.StatusText(status)
	if text == "" {
		text = "status code " + strconv.Itoa(status)
	}
	return append(append(out, text...), "\r\n"...)
}

// lineEnds would make several fields of one.
var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

func appendField(out []byte, name, value string) []byte {
	if strings.ContainsAny(value, "\r\n") {
		value = lineEnds.Replace(value)
	}
	out = append(append(out, name...), ": "...)
	return append(append(out, value...), "\r\n"...)
}

// A second is the Date of all answers within it.
type second struct {
	unix int64
	date string
}

var lastSecond atomic.Pointer[second]

// date returns the field Date.
func date() string {
	now := time.Now()
	s := lastSecond.Load()
	if s == nil || s.unix != now.Unix() {
		s = &second{now.Unix(), "Date: " + now.UTC().Format(http.TimeFormat) + "\r\n"}
		lastSecond.Store(s)
	}
	return s.date
}

// begin ends the head of an answer whose body begins with first.
func (w *response) begin(framing int, first []byte) {
	c := w.conn
	switch {
	case isBodiless(w.status):
		w.framing = bodiless
		c.out = append(c.out, "\r\n"...)
		return
	case w.left >= 0:
		framing = counted
	case framing == counted:
		w.left = int64(len(first))
	}
	if !w.typed && len(first) > 0 {
		c.out = appendField(c.out, "Content-Type", http.DetectContentType(first))
	}
	if w.framing = framing; framing == chunked {
		c.out = append(c.out, "Transfer-Encoding: chunked\r\n\r\n"...)
		return
	}
	c.out = append(c.out, lengthName+": "...)
	c.out = strconv.AppendInt(c.out, w.left, 10)
	c.out = append(c.out, "\r\n\r\n"...)
}

// isBodiless reports whether answers with that status have no body.
func isBodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.framing == undecided {
		if pending := len(w.conn.pending) + len(p); w.left < 0 && pending <= maxPending && !isBodiless(w.status) {
			w.conn.pending = append(w.conn.pending, p...)
			return len(p), w.err
		}
		w.decide(p)
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case len(p) == 0:
		return 0, nil
	case w.framing == bodiless:
		return 0, http.ErrBodyNotAllowed
	case w.framing == counted && int64(len(p)) > w.left:
		w.left, w.last = 0, true // what is missing cannot come any more
		return 0, http.ErrContentLength
	}
	w.add(p)
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// decide begins an answer whose length is not known unless the header says it, with what
// is pending of its body. next comes behind that.
func (w *response) decide(next []byte) {
	pending := w.conn.pending
	if len(pending) > 0 {
		next = pending
	}
	w.begin(chunked, next)
	if len(pending) > 0 && w.framing != bodiless {
		w.add(pending)
	}
}

// add adds to the body.
func (w *response) add(p []byte) {
	if w.framing != chunked {
		w.left -= int64(len(p))
		w.append(p)
		return
	}
	c := w.conn
	c.out = strconv.AppendInt(c.out, int64(len(p)), 16)
	c.out = append(c.out, "\r\n"...)
	w.append(p)
	c.out = append(c.out, "\r\n"...)
}

// append puts p behind what is to be written.
func (w *response) append(p []byte) {
	if len(w.conn.out)+len(p) <= maxOut {
		w.conn.out = append(w.conn.out, p...)
		return
	}
	w.send()
	if w.err == nil {
		_, w.err = w.conn.rwc.Write(p)
	}
}

// send writes what is to be written.
func (w *response) send() {
	if w.err == nil && len(w.conn.out) > 0 {
		_, w.err = w.conn.rwc.Write(w.conn.out)
	}
	w.conn.out = w.conn.out[:0]
}

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.framing == undecided {
		w.decide(nil)
	}
	w.send()
	return w.err
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// complete writes the rest, and reports whether the connection can be used again.
func (w *response) complete() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.framing == undecided {
		w.begin(counted, w.conn.pending)
		if w.framing == counted && len(w.conn.pending) > 0 {
			w.add(w.conn.pending)
		}
	}
	if w.framing == chunked {
		w.conn.out = append(w.conn.out, "0\r\n\r\n"...)
	}
	w.send()
	reusable := w.err == nil && !w.last && (w.framing != counted || w.left == 0)
	w.err = net.ErrClosed // for a handler that continues after it has returned
	return reusable
}
