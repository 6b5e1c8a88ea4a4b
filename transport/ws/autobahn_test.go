package ws

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// A frameCase is a case of the Autobahn suite, under its number there. Since we
// are no echo, what the suite sends as a message goes as a request here, and
// what it wants echoed is the answer. Our two ends behave alike, so each case is
// shown against both.
type frameCase struct {
	name string
	run  func(r *raw)
}

// wantOpen shows that the conversation continues.
func (r *raw) wantOpen() {
	r.Helper()
	r.sendText(asking("still"))
	r.want(asked("still"))
}

// inPieces sends a message in frames of so many bytes, with something between
// any two of them.
func (r *raw) inPieces(message string, size int, between func()) {
	first := byte(opText)
	for len(message) > size {
		r.send(first, []byte(message[:size]))
		first, message = 0, message[size:]
		if between != nil {
			between()
		}
	}
	r.send(first|fin, []byte(message))
}

// chopped writes bytes one at a time.
func (r *raw) chopped(b []byte) {
	for i := range b {
		r.write(b[i : i+1])
	}
}

func frameCases() []frameCase {
	var all []frameCase
	add := func(name string, run func(r *raw)) { all = append(all, frameCase{name, run}) }

	for i, n := range []int{125, 126, 127, 128, 65535, 65536} {
		add(fmt.Sprintf("1.1.%d text of %d bytes", i+2, n), func(r *raw) {
			r.sendText(asking(sized(n)))
			r.want(asked(sized(n)))
		})
	}
	add("1.1.1 text of 0 bytes, which is no message", func(r *raw) {
		r.sendText("")
		if r.masks { // our server says so, our client must not
			if got := r.message(); !strings.Contains(got, "-32700") {
				r.Errorf("got %s", got)
			}
		}
		r.wantOpen()
	})
	add("1.1.8 text that comes byte by byte", func(r *raw) {
		r.chopped(r.frame(text, []byte(asking("slow"))))
		r.want(asked("slow"))
	})
	for i, n := range []int{0, 125, 126, 127, 128, 65535, 65536} {
		add(fmt.Sprintf("1.2.%d binary of %d bytes", i+1, n), func(r *raw) {
			r.send(binmsg, []byte(strings.Repeat("\xFE", n)))
			r.wantClose(1003)
		})
	}

	for name, payload := range map[string]string{
		"2.1 ping without payload": "", "2.2 ping with text": "Hello, world!", "2.3 ping with bytes": "\x00\xFF\xFE\xFD\xFC\xFB\x00\xFF",
		"2.4 ping with 125 bytes": strings.Repeat("\xFE", 125),
	} {
		add(name, func(r *raw) {
			r.send(ping, []byte(payload))
			r.wantPong(payload)
			r.wantOpen()
		})
	}
	add("2.5 ping with 126 bytes", func(r *raw) {
		r.send(ping, []byte(strings.Repeat("\xFE", 126)))
		r.wantClose(1002)
	})
	add("2.6 ping that comes byte by byte", func(r *raw) {
		r.chopped(r.frame(ping, []byte("slow")))
		r.wantPong("slow")
		r.wantOpen()
	})
	add("2.7 2.8 pongs that nobody asked for", func(r *raw) {
		r.send(pong, nil)
		r.send(pong, []byte("unasked"))
		r.wantOpen()
	})
	add("2.9 unasked pong, then ping", func(r *raw) {
		r.send(pong, []byte("unasked"))
		r.send(ping, []byte("asked"))
		r.wantPong("asked")
	})
	add("2.10 2.11 ten pings at once", func(r *raw) {
		var b []byte
		for i := range 10 {
			b = append(b, r.frame(ping, fmt.Appendf(nil, "ping %d", i))...)
		}
		r.write(b)
		for i := range 10 {
			r.wantPong(fmt.Sprintf("ping %d", i))
		}
	})

	for rsv := byte(1); rsv <= 7; rsv++ {
		add(fmt.Sprintf("3.%d reserved bits %03b", rsv, rsv), func(r *raw) {
			r.wantOpen()
			r.send(text|rsv<<4, []byte(asking("reserved")))
			r.send(ping, nil)
			r.wantClose(1002)
		})
	}
	for name, first := range map[string]byte{"binary": binmsg, "ping": ping, "close": bye} {
		add("3.x reserved bits in a frame of "+name, func(r *raw) {
			r.send(first|0x50, nil)
			r.wantClose(1002)
		})
	}

	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		for _, payload := range []string{"", "reserved opcode payload"} {
			add(fmt.Sprintf("4.x opcode %d with %d bytes", op, len(payload)), func(r *raw) {
				r.wantOpen()
				r.send(fin|op, []byte(payload))
				r.send(ping, nil)
				r.wantClose(1002)
			})
		}
	}

	for name, op := range map[string]byte{"5.1 ping": opPing, "5.2 pong": opPong} {
		add(name+" in two fragments", func(r *raw) {
			r.send(op, []byte("frag"))
			r.send(fin, []byte("ment"))
			r.wantClose(1002)
		})
	}
	add("5.3 5.4 5.5 text in fragments", func(r *raw) {
		for _, size := range []int{1, 2, 40} {
			r.inPieces(asking("pieces"), size, nil)
			r.want(asked("pieces"))
		}
	})
	add("5.6 5.7 5.8 text in fragments with pings between", func(r *raw) {
		r.inPieces(asking("pieces"), 40, func() { r.send(ping, []byte("between")) })
		r.wantPong("between")
		r.want(asked("pieces"))
	})
	for name, first := range map[string]byte{"5.9 with fin": fin, "5.12 without fin": 0} {
		add(name+" a continuation of nothing", func(r *raw) {
			r.send(first, []byte("non-continuation payload"))
			r.sendText(asking("x"))
			r.wantClose(1002)
		})
	}
	add("5.15 a continuation after the last fragment", func(r *raw) {
		r.inPieces(asking("pieces"), 40, nil)
		r.send(0, []byte("fragment"))
		r.sendText(asking("x"))
		r.wantClose(1002)
	})
	add("5.18 a message inside another", func(r *raw) {
		r.send(opText, []byte("fragment1"))
		r.send(text, []byte("fragment2"))
		r.wantClose(1002)
	})
	add("5.19 5.20 five fragments with pings, all in order", func(r *raw) {
		r.inPieces(asking("pieces"), 15, func() {
			r.send(ping, []byte("between"))
			r.wantPong("between")
		})
		r.want(asked("pieces"))
	})

	return append(append(append(all, utf8Cases()...), closeCases()...), limitCases()...)
}

// utf8Cases are those of section 6. We look at the text when it is complete, so
// the cases of 6.4, in which the suite would like the socket to fail as soon as
// a fragment is wrong, end only with the last one; the suite lets that pass as
// not strict.
func utf8Cases() []frameCase {
	var all []frameCase
	add := func(name string, run func(r *raw)) { all = append(all, frameCase{name, run}) }
	for name, x := range map[string]string{
		"6.1 empty": "", "6.2 many bytes each": "Hello-µ@ßöäüàá-UTF-8!!", "6.5 greek": "\u03ba\u1f79\u03c3\u03bc\u03b5",
		"6.7 6.9 first and last of each length": "\u0080\u07ff\u0800\uffff\U00010000\U0010ffff",
		"6.22 not characters":                   "\ufffe\uffff\U0001fffe\U0010ffff", "6.11 around the surrogates": "\ud7ff\ue000\ufffd",
	} {
		add(name+", whole", func(r *raw) {
			r.sendText(asking(x))
			r.want(asked(x))
		})
		add(name+", in fragments of a byte", func(r *raw) {
			r.inPieces(asking(x), 1, nil)
			r.want(asked(x))
		})
	}
	for name, x := range map[string]string{
		"6.3 a surrogate in the middle":      "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
		"6.6 truncated, 2 of 3 bytes":        "\xe1\xbd",
		"6.6 truncated, 3 of 4 bytes":        "\xf0\x90\x80",
		"6.8 six bytes":                      "\xfc\x84\x80\x80\x80\x80",
		"6.10 five bytes":                    "\xfb\xbf\xbf\xbf\xbf",
		"6.12 lone continuation":             "\x80",
		"6.12 many lone continuations":       "\x80\xbf\x80\xbf\x80",
		"6.13 lone first bytes":              "\xc3 \xe3 \xf3 ",
		"6.14 first byte at the end":         "\xc3",
		"6.16 impossible bytes":              "\xfe\xff",
		"6.17 overlong, 2 bytes":             "\xc0\xaf",
		"6.17 overlong, 3 bytes":             "\xe0\x80\xaf",
		"6.17 overlong, 4 bytes":             "\xf0\x80\x80\xaf",
		"6.18 overlong, at the limit":        "\xc1\xbf",
		"6.19 overlong NUL":                  "\xc0\x80",
		"6.20 high surrogate":                "\xed\xa0\x80",
		"6.20 low surrogate":                 "\xed\xbf\xbf",
		"6.21 surrogate pair":                "\xed\xa0\x80\xed\xb0\x80",
		"6.4 beyond U+10FFFF":                "\xf4\x90\x80\x80",
		"6.4 beyond U+10FFFF, by first byte": "\xf5\x80\x80\x80",
	} {
		add(name+", whole", func(r *raw) {
			r.sendText(asking(x))
			r.wantClose(1007)
		})
		add(name+", in fragments of a byte", func(r *raw) {
			r.inPieces(asking(x), 1, nil)
			r.wantClose(1007)
		})
	}
	return all
}

// closeCases are those of section 7.
func closeCases() []frameCase {
	var all []frameCase
	add := func(name string, run func(r *raw)) { all = append(all, frameCase{name, run}) }
	add("7.1.1 a message, then close", func(r *raw) {
		r.wantOpen()
		r.send(bye, closing(1000, ""))
		r.wantClose(1000)
	})
	add("7.1.2 close twice", func(r *raw) {
		r.write(append(r.frame(bye, closing(1000, "")), r.frame(bye, closing(1001, ""))...))
		r.wantClose(1000)
	})
	add("7.1.3 ping after close", func(r *raw) {
		r.write(append(r.frame(bye, closing(1000, "")), r.frame(ping, nil)...))
		r.wantClose(1000)
	})
	add("7.1.4 text after close", func(r *raw) {
		r.write(append(r.frame(bye, closing(1000, "")), r.frame(text, []byte(asking("late")))...))
		r.wantClose(1000)
	})
	add("7.1.5 close between two fragments", func(r *raw) {
		r.send(opText, []byte(asking("late"))[:20])
		r.send(bye, closing(1000, ""))
		r.wantClose(1000)
	})
	add("7.1.6 a large message, then close, then ping", func(r *raw) {
		r.sendText(asking(sized(256 << 10)))
		r.send(bye, closing(1000, ""))
		r.send(ping, nil)
		r.wantClose(1000)
	})
	add("7.3.1 close without payload", func(r *raw) {
		r.send(bye, nil)
		r.wantClose(1005, 1000)
	})
	add("7.3.2 close with one byte", func(r *raw) {
		r.send(bye, []byte("\x03"))
		r.wantClose(1002)
	})
	add("7.3.4 close with a reason", func(r *raw) {
		r.send(bye, closing(1000, "Hello World!"))
		r.wantClose(1000)
	})
	add("7.3.5 close with the longest reason", func(r *raw) {
		r.send(bye, closing(1000, strings.Repeat("*", 123)))
		r.wantClose(1000)
	})
	add("7.3.6 close with a reason that is too long", func(r *raw) {
		r.send(bye, closing(1000, strings.Repeat("*", 124)))
		r.wantClose(1002)
	})
	// The suite wants 1002 or 1007 here. The library does not look at the reason
	// and answers the close as it came.
	add("7.5.1 close with a reason that is not UTF-8", func(r *raw) {
		r.send(bye, closing(1000, "\xce\xba\xe1\xbd\xb9\xcf\x83\xed\xa0\x80"))
		r.wantClose(1000, 1002, 1007)
	})
	for _, code := range []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999} {
		add(fmt.Sprintf("7.7 close with code %d", code), func(r *raw) {
			r.send(bye, closing(code, ""))
			r.wantClose(code)
		})
	}
	for _, code := range []int{0, 999, 1004, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535} {
		add(fmt.Sprintf("7.9 7.13 close with code %d, which may not be sent", code), func(r *raw) {
			r.send(bye, closing(code, ""))
			r.wantClose(1002)
		})
	}
	add("7.9 close with code 1005, which may not be sent", func(r *raw) {
		r.send(bye, []byte{1005 >> 8, 1005 & 0xFF})
		r.wantClose(1002)
	})
	return all
}

// limitCases are those of section 9. The race detector makes do with less.
func limitCases() []frameCase {
	var all []frameCase
	add := func(name string, run func(r *raw)) { all = append(all, frameCase{name, run}) }
	for i, n := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20} {
		if n > peertest.Less(16<<20) {
			break
		}
		add(fmt.Sprintf("9.1.%d text of %d KiB", i+1, n>>10), func(r *raw) {
			r.sendText(asking(sized(n)))
			r.want(asked(sized(n)))
		})
	}
	for i, size := range []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		n := peertest.Less(4 << 20)
		add(fmt.Sprintf("9.3.%d text of %d KiB in fragments of %d bytes", i+1, n>>10, size), func(r *raw) {
			r.inPieces(asking(sized(n)), size, nil)
			r.want(asked(sized(n)))
		})
	}
	add("9.x text of 16 MiB and a byte", func(r *raw) {
		r.announce(text, 16<<20+1) // nobody has to read the rest
		r.wantClose(1009)
	})
	return all
}

func TestFramesToOurServer(t *testing.T) {
	at := serve(t, &Server{Acceptor: peertest.Accept(echoes), PingInterval: -1})
	for _, c := range frameCases() {
		t.Run(c.name, func(t *testing.T) { c.run(rawDial(t, at, "Sec-WebSocket-Protocol: mcp")) })
	}
	t.Run("5.1 of the RFC, a frame that is not masked", func(t *testing.T) {
		r := rawDial(t, at)
		r.write([]byte{text, 2, '{', '}'})
		r.wantClose(1002)
	})
}

func TestFramesToOurClient(t *testing.T) {
	for _, c := range frameCases() {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeak(t)
			r, _ := rawServe(t, &Client{PingInterval: -1}, echoes)
			c.run(r)
		})
	}
	// The RFC wants 1002 here. The library does not look at the bit and takes the
	// payload as it is: it is garbage then, or, with a mask of zeros, what it says.
	t.Run("5.1 of the RFC, a frame that is masked", func(t *testing.T) {
		r, _ := rawServe(t, &Client{PingInterval: -1}, echoes)
		r.masks = true
		r.sendText(asking("masked"))
		r.masks = false
		r.wantClose(1002, 1007)
	})
}
