package fault

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"sync"
	"time"
)

// A wire is standard input and output, where a tool may decide which bytes its
// answer is. What a tool leaves here is written in place of its answer, which has
// a mark.
type wire struct {
	r io.Reader
	w io.Writer

	mu    sync.Mutex
	raw   map[int][]byte // guarded by mu
	n     int            // guarded by mu
	until chan struct{}  // reads and writes wait until it is closed; guarded by mu; may be nil
}

func newWire(r io.Reader, w io.Writer) *wire { return &wire{r: r, w: w, raw: map[int][]byte{}} }

// mark is a member of a result that is replaced on the wire.
const mark = `"dragoman/fault":`

// store keeps bytes and returns the result that they take the place of.
func (w *wire) store(raw []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	w.raw[w.n] = raw
	return []byte("{" + mark + strconv.Itoa(w.n) + "}")
}

// freeze stops reading and writing, forever if d is zero.
func (w *wire) freeze(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until != nil {
		return
	}
	if d == 0 {
		d = math.MaxInt64 // something must be to come, or the runtime takes it for a deadlock
	}
	until := make(chan struct{})
	w.until = until
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.until = nil
		close(until)
	})
}

func (w *wire) thaw() {
	w.mu.Lock()
	until := w.until
	w.mu.Unlock()
	if until != nil {
		<-until
	}
}

// Read implements io.Reader.
func (w *wire) Read(p []byte) (int, error) {
	w.thaw()
	n, err := w.r.Read(p)
	w.thaw() // what came while it was frozen has not been seen
	return n, err
}

// Write implements io.Writer. It is given whole lines.
func (w *wire) Write(p []byte) (int, error) {
	w.thaw()
	if !bytes.Contains(p, []byte(mark)) {
		return w.w.Write(p)
	}
	var out []byte
	for line := range bytes.Lines(p) {
		out = append(out, w.replacement(line)...)
	}
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// replacement returns what is written for a line.
func (w *wire) replacement(line []byte) []byte {
	_, number, ok := bytes.Cut(line, []byte(mark))
	if !ok {
		return line
	}
	number, _, _ = bytes.Cut(number, []byte("}"))
	n, err := strconv.Atoi(string(number))
	if err != nil {
		return line
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	raw := w.raw[n]
	delete(w.raw, n)
	return raw
}
