package bench

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// The bare handlers are what ours are held against: net/http and the least that
// anybody could do behind it. They take bodies for requests whose id is an integer,
// which they look for as bytes, and check nothing.

// bareID returns the integer behind the first "id": in a message.
func bareID(message []byte) (int64, bool) {
	_, rest, found := bytes.Cut(message, []byte(`"id":`))
	end := 0
	for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
		end++
	}
	id, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return id, found && err == nil
}

// bareRequest reads a request. One without an id is answered at once.
func bareRequest(w http.ResponseWriter, r *http.Request) (id int64, body []byte, ok bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, false
	}
	w.Header().Set(protocol.HeaderSession, "bare")
	if id, ok = bareID(body); !ok {
		w.WriteHeader(http.StatusAccepted)
	}
	return id, body, ok
}

func bareAnswer(w http.ResponseWriter, message []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(message)
}

// bareMemory answers every request with the same result.
func bareMemory(result string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, _, ok := bareRequest(w, r); ok {
			bareAnswer(w, []byte(`{"jsonrpc":"2.0","id":`+strconv.FormatInt(id, 10)+`,"result":`+result+`}`))
		}
	})
}

// A bareRelay passes bodies to a process as lines, and to each client the line with
// its id.
type bareRelay struct {
	mu      sync.Mutex // held for each write
	in      io.Writer
	waiting map[int64]chan []byte
}

func newBareRelay(in io.Writer) *bareRelay {
	return &bareRelay{in: in, waiting: make(map[int64]chan []byte)}
}

func (y *bareRelay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, body, ok := bareRequest(w, r)
	if !ok {
		return
	}
	answer := make(chan []byte, 1)
	y.mu.Lock()
	y.waiting[id] = answer
	_, err := y.in.Write(append(body, '\n'))
	y.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	bareAnswer(w, <-answer)
}

// read hands out lines until the process ends.
func (y *bareRelay) read(out io.Reader) {
	for lines := bufio.NewReaderSize(out, 1<<20); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		id, _ := bareID(line)
		y.mu.Lock()
		answer := y.waiting[id]
		delete(y.waiting, id)
		y.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

// A bareLine is a relay for a single connection: the next line is the answer.
type bareLine struct {
	in  io.Writer
	out *bufio.Reader
}

func (y *bareLine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, body, ok := bareRequest(w, r)
	if !ok {
		return
	}
	_, err := y.in.Write(append(body, '\n'))
	var line []byte
	if err == nil {
		line, err = y.out.ReadSlice('\n')
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	bareAnswer(w, line)
}
