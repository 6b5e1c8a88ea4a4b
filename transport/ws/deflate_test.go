package ws

import (
	"bytes"
	"compress/flate"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// deflated returns a text as the payload of a compressed message.
func deflated(t testing.TB, from io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, from); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\x00\x00\xff\xff"))
}

const (
	offersDeflate = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"
	rsv1          = 0x40
)

func TestCompressionIsOffUnlessSet(t *testing.T) {
	r := rawDial(t, serve(t, &Server{Acceptor: peertest.Accept(echoes)}), offersDeflate)
	if got := r.header.Get("Sec-WebSocket-Extensions"); got != "" {
		t.Errorf("negotiated %q", got)
	}
	r, _ = rawServe(t, &Client{Compression: true}, nil)
	if got := r.header.Get("Sec-WebSocket-Extensions"); !strings.HasPrefix(got, "permessage-deflate") {
		t.Errorf("our client offers %q", got)
	}
}

func TestCompressedMessagesPass(t *testing.T) {
	r := rawDial(t, serve(t, &Server{Acceptor: peertest.Accept(echoes), Compression: true}), offersDeflate)
	for _, n := range []int{100, 1 << 10, 1 << 20} {
		r.send(text|rsv1, deflated(t, strings.NewReader(asking(sized(n)))))
		var compressed bool
		var all []byte
		for {
			first, payload, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			compressed = compressed || first&rsv1 != 0
			all = append(all, payload...)
			if first&fin != 0 {
				break
			}
		}
		if compressed {
			inflated, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(all), strings.NewReader("\x00\x00\xff\xff\x01\x00\x00\xff\xff"))))
			if err != nil {
				t.Fatal(err)
			}
			all = inflated
		}
		if string(all) != asked(sized(n)) {
			t.Errorf("message of %d bytes: got %s", n, short(string(all)))
		}
		if n == 1<<20 && !compressed {
			t.Error("a large answer is not compressed")
		}
	}
}

func TestS21_ADeflateBombIsClosedWith1009(t *testing.T) {
	const inflatesTo, limit = 256 << 20, 1 << 20
	// What has been flushed can follow itself.
	block := append(deflated(t, strings.NewReader(strings.Repeat("0", 1<<20))), "\x00\x00\xff\xff"...)
	bomb := bytes.Repeat(block, inflatesTo>>20)
	r := rawDial(t, serve(t, &Server{Acceptor: peertest.Accept(echoes), Compression: true, MaxMessage: limit}), offersDeflate)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.send(text|rsv1, bomb)
	r.wantClose(1009)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16*limit {
		t.Errorf("%d bytes that inflate to %d MiB took %d KiB of memory", len(bomb), inflatesTo>>20, used>>10)
	}
}
