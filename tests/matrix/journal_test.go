package matrix

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A journal is a server that writes down, into a file, when a call of the tool
// wait begins and when it ends. A client cannot ask for that: another call may
// reach another process.
type journal struct {
	dragoman.Acceptor
	path string
}

func (j journal) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	peer, err := j.Acceptor.Accept(ctx, client)
	return page{peer, j.path}, err
}

// A page is one conversation of a journal.
type page struct {
	dragoman.Peer
	path string
}

func (p page) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Name() == "wait" {
		p.write("begin")
		defer p.write("end")
	}
	return p.Peer.Call(ctx, req, from)
}

func (p page) write(line string) {
	f, err := os.OpenFile(p.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // whoever reads it will complain
	}
	_, _ = fmt.Fprintln(f, line)
	_ = f.Close()
}

// waitFor waits until the journal says so.
func (g *testClient) waitFor(line string) error {
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(g.journal); strings.Contains(string(text), line) {
			return nil
		}
	}
	return fmt.Errorf("the server never wrote %q about the call", line)
}
