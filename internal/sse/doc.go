// Package sse reads and writes event streams by the rules of the WHATWG HTML
// standard, section 9.2. It is the only place that knows what one looks like.
package sse

// An Event is one event of a stream.
type Event struct {
	// Name is the event's type. Empty means "message".
	Name string

	// ID is the cursor of this event. A reader gives each event the last id
	// that the stream has named, as the standard wants it.
	ID string

	// Data is the payload. An event without data is delivered to nobody by the
	// standard, but its id and retry count.
	Data []byte

	// Retry is how many milliseconds to wait before connecting anew. Zero means
	// that the event does not say; a reader turns a zero on the wire into one.
	Retry int
}
