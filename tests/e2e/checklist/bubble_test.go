package checklist

import (
	"io"
	"log"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
)

// inBubble runs f where time passes only when everybody waits, and then at once.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // net/http lingers for a moment when it has closed
		f(t)
	})
}

// inMemory serves h on a network in memory and returns what reaches it there,
// under any URL.
func inMemory(t *testing.T, h http.Handler) *http.Client {
	l := memnet.Listen()
	server := &http.Server{Handler: h, ErrorLog: quiet()}
	done := make(chan struct{})
	go func() { // ends by Close
		defer close(done)
		_ = server.Serve(l)
	}()
	transport := &http.Transport{DialContext: l.DialContext}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	return &http.Client{Transport: transport}
}

// memoryURL is the URL of whatever is served in memory.
const memoryURL = "http://localhost"

// quiet is a log of net/http for faults that the test causes.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
