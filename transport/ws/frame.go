package ws

import (
	"encoding/binary"
	"errors"
)

// errFrame is why a wire is not read any more: a frame announces more than a message may
// have. The library would take what comes of it until the limit is reached, and wait for
// the rest as long as anything comes.
var errFrame = errors.New("ws: a frame is too large")

// frames follows the frames that are read, by their headers.
type frames struct {
	limit      uint64 // bytes of a message
	fragmented bool   // a message is under way, in fragments
	max        uint64 // bytes that its frames may have
	sum        uint64 // and have, by their headers so far

	header [10]byte // the header that has begun, without the mask
	have   int      // bytes of it
	left   uint64   // bytes of the frame behind that: the mask and the payload
}

// check reads the frame headers in b and returns how many bytes may be passed on. If it
// is fewer than len(b), the next frame is too large.
func (f *frames) check(b []byte) int {
	at := 0
	for at < len(b) {
		if f.left > 0 {
			n := min(f.left, uint64(len(b)-at))
			f.left -= n
			at += int(n)
			continue
		}
		start := at
		for f.have < f.length() && at < len(b) {
			f.header[f.have] = b[at]
			f.have++
			at++
		}
		if f.have == f.length() && !f.startFrame() {
			return start
		}
	}
	return at
}

// length returns how long the header is, as far as that is known.
func (f *frames) length() int {
	if f.have < 2 {
		return 2
	}
	switch f.header[1] & 0x7F {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

// startFrame takes the header that is complete. It reports whether the message may be
// that large. The library checks the rest of the header.
func (f *frames) startFrame() bool {
	n := uint64(f.header[1] & 0x7F)
	switch f.have {
	case 4:
		n = uint64(binary.BigEndian.Uint16(f.header[2:]))
	case 10:
		n = binary.BigEndian.Uint64(f.header[2:]) &^ (1 << 63)
	}
	first := f.header[0]
	f.have, f.left = 0, n
	if f.header[1]&0x80 != 0 {
		f.left += 4
	}
	if first&controlBit != 0 {
		return true
	}
	if first&opcodeBits != 0 || !f.fragmented { // the library refuses a continuation without a beginning
		f.sum, f.max = 0, f.limit
		if first&deflateBit != 0 {
			f.max += f.limit/16 + 64 // what cannot be deflated grows
		}
	}
	f.fragmented = first&finBit == 0
	f.sum += n
	return f.sum <= f.max
}

// The first byte of a frame.
const (
	finBit     = 0x80
	deflateBit = 0x40
	controlBit = 0x08 // of the opcode
	opcodeBits = 0x0F
)
