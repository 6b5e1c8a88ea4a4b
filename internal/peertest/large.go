package peertest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

var large = []behaviour{
	{"A10 E06 large messages pass both ways beside small ones", 0, true, largeAndSmall},
	{"E06 messages of many sizes pass", 0, true, manySizes},
	{"D14 a message that is too large is refused and the conversation goes on", sizeLimit, true, tooLarge},
}

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

// largest returns the size of the largest arguments that surely pass both
// ways, but no more than size. As text of an answer they grow by their escapes.
func (t *test) largest(size int) int {
	if t.opts.MaxMessage > 0 {
		size = min(size, t.opts.MaxMessage*9/10-4096)
	}
	return max(size, 1024)
}

func largeAndSmall(t *test) {
	const n = 3
	to, _ := t.open(dragoman.Nobody, t.echo())
	var reqs [n]*dragoman.Message
	var done [n]<-chan outcome
	for i := range n {
		reqs[i] = t.request(fmt.Sprint(i), filler(i, t.largest(10<<20)))
	}
	for i := range n {
		done[i] = start(t.ctx, to, reqs[i], nil)
	}
	stop := make(chan struct{})
	small := make(chan error, 4)
	for k := range cap(small) {
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					small <- nil
					return
				default:
				}
				req := t.request(fmt.Sprint(i), fmt.Sprintf(`{"small":%d,"of":%d}`, i, k))
				resp, err := to.Call(t.ctx, req, nil)
				if err := check(outcome{resp, err}, req, arguments(req)); err != nil {
					small <- err
					return
				}
			}
		}()
	}
	for i, req := range reqs {
		t.want(t.finish(done[i], short(req.String())), req, arguments(req))
	}
	close(stop)
	for range cap(small) {
		if err := receive(t, small, "the small calls end"); err != nil {
			t.Error(err)
		}
	}
}

// manySizes sends messages around the sizes at which buffers end, all at once.
func manySizes(t *test) {
	to, _ := t.open(dragoman.Nobody, t.echo())
	var reqs []*dragoman.Message
	var done []<-chan outcome
	for _, size := range []int{0, 512, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20} {
		for off := -2; off <= 2; off++ {
			args := fmt.Sprintf(`{"n":%d,"x":"%s"}`, len(reqs), strings.Repeat("x", max(0, t.largest(size+off))))
			reqs = append(reqs, t.request(fmt.Sprint(len(reqs)), args))
		}
	}
	for _, req := range reqs {
		done = append(done, start(t.ctx, to, req, nil))
	}
	for i, req := range reqs {
		t.want(t.finish(done[i], short(req.String())), req, arguments(req))
	}
}

func tooLarge(t *test) {
	to, _ := t.open(dragoman.Nobody, t.does(map[string]handler{}))
	req := t.request(`1`, fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", t.opts.MaxMessage+1)))
	o := t.call(to, req, nil)
	if !errors.Is(o.err, dragoman.ErrTooLarge) && (o.err != nil || !o.resp.IsError()) {
		t.Errorf("Call with a message of %d bytes\n got %v\nwant ErrTooLarge or an error answer", req.Len(), o)
	}
	t.works(to, `2`)
}

// closedOr is nil if err says that the conversation is over.
func closedOr(err error) error {
	if errors.Is(err, dragoman.ErrClosed) {
		return nil
	}
	return fmt.Errorf("got error %w, want one that is ErrClosed", err)
}
