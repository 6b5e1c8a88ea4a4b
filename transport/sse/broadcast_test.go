package sse

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// A broadcaster is a server that sends all its answers to all of its clients, as
// some bridges do. It begins when so many requests have come.
type broadcaster struct {
	requests int

	mu      sync.Mutex
	streams []chan string
	answers []string
}

func (b *broadcaster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		if req, err := dragoman.Parse(body); err == nil {
			b.answer(fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"for\":%q}}\n\n", req.ID(), req.Name()))
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	stream := make(chan string, b.requests)
	b.mu.Lock()
	b.streams = append(b.streams, stream)
	b.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for text := endpointEvent; ; {
		fmt.Fprint(w, text)
		_ = http.NewResponseController(w).Flush()
		select {
		case text = <-stream:
		case <-r.Context().Done():
			return
		}
	}
}

func (b *broadcaster) answer(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers = append(b.answers, text); len(b.answers) < b.requests {
		return
	}
	for _, stream := range b.streams {
		for _, text := range b.answers {
			stream <- text // there is room
		}
	}
}

func TestS23_AnswersThatGoToAllClientsReachTheirCallersAlone(t *testing.T) {
	peertest.NoLeak(t)
	const clients, calls = 5, 10
	server := httptest.NewServer(&broadcaster{requests: clients * calls})
	t.Cleanup(server.Close)
	var all sync.WaitGroup
	for c := range clients {
		conn, err := (&Client{URL: server.URL}).Dial(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		for i := range calls {
			all.Go(func() {
				name := fmt.Sprintf("call %d of client %d", i, c)
				req, err := dragoman.NewRequest(dragoman.IntID(int64(i)), "tools/call", map[string]string{"name": name})
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := conn.Call(t.Context(), req, nil)
				if err != nil || string(resp.Get("for")) != fmt.Sprintf("%q", name) {
					t.Errorf("%s: got %v, %v", name, resp, err)
				}
			})
		}
	}
	all.Wait()
}
