package ws

import (
	"errors"
	"io"
	"sync"
)

// Buffers for messages on their way. A message that comes slowly holds what it
// fills, so the first buffer of each is a small one.
type (
	small [4 << 10]byte
	large [maxBuffered]byte
)

var (
	smalls = sync.Pool{New: func() any { return new(small) }}
	larges = sync.Pool{New: func() any { return new(large) }}
)

func getLarge() *large {
	b, _ := larges.Get().(*large)
	return b
}

// readAll returns a message in memory of its own. Its length is known only
// at its end, so it is read into buffers first.
func readAll(r io.Reader) ([]byte, error) {
	first, _ := smalls.Get().(*small)
	defer smalls.Put(first)
	n, err := fill(r, first[:])
	if err != nil {
		return concat(err, first[:n])
	}
	rest := make([]*large, 0, 4)
	for err == nil {
		b := getLarge()
		rest = append(rest, b)
		n, err = fill(r, b[:])
	}
	parts := make([][]byte, 0, len(rest)+1)
	parts = append(parts, first[:])
	for _, b := range rest {
		parts = append(parts, b[:])
	}
	parts[len(rest)] = rest[len(rest)-1][:n]
	data, err := concat(err, parts...)
	for _, b := range rest {
		larges.Put(b)
	}
	return data, err
}

// fill reads until p is full or there is an error.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// concat returns the parts as one if end is io.EOF.
func concat(end error, parts ...[]byte) ([]byte, error) {
	if !errors.Is(end, io.EOF) {
		return nil, end
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	data := make([]byte, 0, n)
	for _, p := range parts {
		data = append(data, p...)
	}
	return data, nil
}
