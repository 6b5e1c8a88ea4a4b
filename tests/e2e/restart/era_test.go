package restart_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

const watched = "test://watched-resource"

// A session in front of a server of either era goes on with its subscriptions.
func TestPain2_SessionGoesOnInFrontOfAServerOfEitherEra(t *testing.T) {
	for _, e := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		for _, isolation := range []era.Isolation{era.PerSession, era.PerCaller, era.Shared} {
			t.Run(fmt.Sprint(e, isolation), func(t *testing.T) { goesOn(t, e, isolation) })
		}
	}
}

func goesOn(t *testing.T, e protocol.Era, isolation era.Isolation) {
	dir, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	server := dragoman.Local(builtin.New(nil))
	life := func() (url string, end func()) {
		behind := &era.Server{Dialer: server, Era: &e, Isolation: isolation}
		door := &streamable.Server{Sessions: behind, Store: store.Kind(dir, "sessions")}
		h := httptest.NewServer(door)
		return h.URL, func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // nobody is waited for
			_ = door.Shutdown(ctx)
			h.CloseClientConnections()
			h.Close()
			if err := behind.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	url, end := life()
	c := &client{T: t, url: url}
	c.hello()
	c.want(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+watched+`"}}`, `"result"`)
	end()
	url, end = life()
	defer end()
	c.url = url
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`, `"text":"hi"`)
	stream := c.do(http.MethodGet, "")
	for { // what may have changed meanwhile
		if got := c.events(stream, 1); len(got) == 0 {
			t.Fatal("the stream ends")
		} else if strings.Contains(got[0].data, watched) {
			break
		}
	}
	c.want(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"update_resource","arguments":{"uri":"`+watched+`"}}}`, `"result"`)
	for {
		if got := c.events(stream, 1); len(got) == 0 {
			t.Fatal("the stream ends, and the resource was not told of")
		} else if strings.Contains(got[0].data, protocol.NoteResourceUpdated) && strings.Contains(got[0].data, watched) {
			return
		}
	}
}

// want posts a message and wants a part of the answer.
func (c *client) want(body, part string) {
	c.Helper()
	resp := c.do(http.MethodPost, body)
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), part) {
		c.Fatalf("%s is answered with %d %s, %v", body, resp.StatusCode, text, err)
	}
}
