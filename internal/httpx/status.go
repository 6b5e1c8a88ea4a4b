package httpx

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxErrorBody is how much of the body of a refusal is read, maxErrorText how much
	// of it is repeated in an error.
	maxErrorBody = 64 << 10
	maxErrorText = 256
)

// ReadStatus reads an answer that is no success.
func ReadStatus(resp *http.Response) *protocol.StatusError {
	e := &protocol.StatusError{
		Status:     resp.StatusCode,
		Challenges: resp.Header.Values("WWW-Authenticate"),
		AuthServer: resp.Header.Get(protocol.HeaderAuthServer),
		RetryAfter: RetryAfter(resp.Header),
	}
	if resp.Body != nil {
		// What could be read of it is worth something.
		e.Body, _ = io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	}
	kind := MediaType(resp.Header)
	if m := e.Response(dragoman.Limits{}); m != nil {
		e.Text = oneLine(m.RPCError().Message)
	} else if kind == "text/plain" || kind == "application/json" {
		e.Text = oneLine(string(e.Body[:min(len(e.Body), 4*maxErrorText)]))
	}
	if at, err := resp.Location(); err == nil && e.Status/100 == 3 {
		e.Text = "it redirects to " + at.Scheme + "://" + at.Host + ", which is not followed" // the rest may hold secrets
	}
	return e
}

// oneLine returns the beginning of a text that a person can read, on one line.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return text
}

// MediaType returns what a body is, without parameters.
func MediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}
