package httpserver

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// How the bytes of frames are cut makes no difference to what is made of them.
func FuzzFollow(f *testing.F) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	f.Add(preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00", 3)
	f.Add(preface+"\x00\x00\x06\x01\x00\x00\x00\x00\x01\x82\x87\x84\x41\x01a\x00\x00\x00\x09\x04\x00\x00\x00\x01", 1)
	f.Add(preface+strings.Repeat("\x00\x00\x00\x03\x00\x00\x00\x00\x01", maxResets+1), 7)
	f.Add(preface+strings.Repeat("\x00\x00\x00\x04\x00\x00\x00\x00\x00", maxIdleFrames+1), 10)
	f.Add(preface+"\xff\xff\xff\x00\x00", 2)
	f.Fuzz(func(t *testing.T, text string, size int) {
		made := func() *framed {
			late := time.AfterFunc(time.Hour, func() {})
			t.Cleanup(func() { late.Stop() })
			return &framed{late: late, log: slog.New(slog.DiscardHandler), skip: prefaceLength, data: true}
		}
		whole, cut := made(), made()
		flood := whole.follow([]byte(text))
		size = min(max(size, 1), len(text)+1)
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			if err := cut.follow(rest[:n]); err != nil {
				if err != flood { //nolint:errorlint // ours are never wrapped
					t.Fatalf("in pieces: %v, whole: %v", err, flood)
				}
				return
			}
			rest = rest[n:]
		}
		if flood != nil || whole.skip != cut.skip || whole.got != cut.got || whole.block != cut.block || whole.waiting != cut.waiting || whole.resets != cut.resets || whole.idle != cut.idle {
			t.Fatalf("whole: %v %+v\nin pieces: %+v", flood, whole, cut)
		}
	})
}
