package peertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

var large = []behaviour{
	{"A10 E06 large messages pass both ways beside small ones", volume, true, largeAndSmall},
	{"E06 messages of many sizes pass", volume, true, manySizes},
	{"D14 a message that is too large is refused and the conversation continues", sizeLimit | volume, true, tooLarge},
}

// MaxMessage is the limit with which transports run the suite, a little more than the
// largest of its messages.
const MaxMessage = 12 << 20 / sizeDivisor

// Less returns how much is enough of what is large. The race detector looks at each
// byte that is read or written.
func Less(n int) int { return n / sizeDivisor }

// filler returns arguments of about size bytes, of which no two stretches are
// the same. The seed makes them differ.
func filler(seed, size int) string {
	var b strings.Builder
	b.Grow(size + 128)
	fmt.Fprintf(&b, `{"seed":%d,"list":[""`, seed)
	for i := 0; b.Len() < size-256; i++ {
		fmt.Fprintf(&b, `,"%d.%d \"é\" \\ \n \u00e9 %s"`, seed, i, stretch)
	}
	b.WriteString(`]}`)
	return b.String()
}

var stretch = strings.Repeat("0123456789abcdef", 64)

// largest returns size, or what surely passes if that is less.
func (t *test) largest(size int) int {
	if t.opts.MaxMessage > 0 {
		size = min(size, t.opts.MaxMessage*9/10-4096)
	}
	return size
}

// mirror answers with the arguments as they are: as structured content.
func (t *test) mirror() dragoman.Funcs {
	return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		empty := content(t.opts.Revision, "")
		return req.Reply(slices.Concat(empty[:len(empty)-1], []byte(`,"structuredContent":`), req.Get("arguments"), []byte(`}`)))
	}}
}

// wantMirrored fails the test unless o is the mirror's answer to req.
func (t *test) wantMirrored(o outcome, req *dragoman.Message) {
	t.Helper()
	if o.err != nil || o.resp == nil || o.resp.IsError() || o.resp.ID() != req.ID() {
		t.Fatalf("Call(%s)\n got %v\nwant an answer", short(req.String()), o)
	}
	if got, want := o.resp.Get("structuredContent"), req.Get("arguments"); !bytes.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("Call(%s)\n got %d bytes back: %s\nwant %d; they differ from byte %d on", short(req.String()), len(got), short(string(got)), len(want), at)
	}
}

func largeAndSmall(t *test) {
	const n = 3
	to, _ := t.open(dragoman.NoPeer, t.mirror())
	var reqs [n]*dragoman.Message
	var done [n]<-chan outcome
	for i := range n {
		reqs[i] = t.request(fmt.Sprint(i), filler(i, t.largest(Less(10<<20))))
	}
	for i := range n {
		done[i] = start(t.ctx, to, reqs[i], nil)
	}
	stop := make(chan struct{})
	small := make(chan string, 4)
	for k := range cap(small) {
		req := t.request(fmt.Sprint(k), fmt.Sprintf(`{"small":%d}`, k))
		go func() {
			for {
				resp, err := to.Call(t.ctx, req, nil)
				if err != nil || resp.ID() != req.ID() || !bytes.Equal(resp.Get("structuredContent"), req.Get("arguments")) {
					small <- fmt.Sprintf("Call(%s) beside large ones got %v", req, outcome{resp, err})
					return
				}
				select {
				case <-stop:
					small <- ""
					return
				default:
				}
			}
		}()
	}
	for i, req := range reqs {
		t.wantMirrored(t.finish(done[i], short(req.String())), req)
	}
	close(stop)
	for range cap(small) {
		if bad := receive(t, small, "the small calls end"); bad != "" {
			t.Error(bad)
		}
	}
}

// manySizes sends messages around the sizes at which buffers end, all at once.
// With the race detector there are fewer, and not the last, which largeAndSmall comes near.
func manySizes(t *test) {
	to, _ := t.open(dragoman.NoPeer, t.mirror())
	var reqs []*dragoman.Message
	var done []<-chan outcome
	sizes := []int{64, 512, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20}
	around := 2
	if sizeDivisor > 1 {
		sizes, around = sizes[:len(sizes)-1], 1
	}
	for _, size := range sizes {
		for off := -around; off <= around; off++ {
			size := t.largest(size + off)
			id := fmt.Sprint(len(reqs))
			req := t.request(id, `{"x":""}`)
			pad := strings.Repeat("x", max(0, size-req.Len())) // so that the whole message has that size
			reqs = append(reqs, t.request(id, `{"x":"`+pad+`"}`))
		}
	}
	for _, req := range reqs {
		done = append(done, start(t.ctx, to, req, nil))
	}
	for i, req := range reqs {
		t.wantMirrored(t.finish(done[i], short(req.String())), req)
	}
}

func tooLarge(t *test) {
	pad := strings.Repeat("x", t.opts.MaxMessage+1)
	to, _ := t.open(dragoman.NoPeer, t.handle(map[string]handler{
		`{"do":"huge"}`: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			return t.answer(req, pad)
		},
	}))
	for _, req := range []*dragoman.Message{t.request(`1`, `{"x":"`+pad+`"}`), t.request(`2`, `{"do":"huge"}`)} {
		o := t.call(to, req, nil)
		if !errors.Is(o.err, dragoman.ErrTooLarge) && (o.err != nil || !o.resp.IsError()) {
			t.Errorf("Call(%s) with more than %d bytes in the message or its answer\n got %v\nwant ErrTooLarge or an error answer",
				short(req.String()), t.opts.MaxMessage, o)
		}
		t.wantWorking(to, `3`)
	}
}
