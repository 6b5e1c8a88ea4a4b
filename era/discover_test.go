package era_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What discover names must be what is served here, or a client could not make
// sense of the list that comes with a refusal.
func TestDiscoverOfAModernServerNamesEveryRevisionServedHere(t *testing.T) {
	const result = `{"supportedVersions":%s,"big":12345678901234567890,"capabilities":{}}`
	all := `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
	for name, c := range map[string]struct{ theirs, want string }{
		"modern alone":        {`["2026-07-28"]`, all},
		"in another order":    {`["2025-11-25","2026-07-28"]`, all},
		"one that we lack":    {`["2099-01-01", "2026-07-28"]`, all},
		"all of them already": {all, all},
		"none that we know":   {`["2099-01-01"]`, `["2099-01-01"]`},
		"no list":             {`7`, `7`},
	} {
		t.Run(name, func(t *testing.T) {
			modern := protocol.Modern
			s := &era.Server{Era: &modern, Dialer: dragoman.Local(dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
				return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
					return req.Reply([]byte(fmt.Sprintf(result, c.theirs)))
				}}, nil
			}))}
			defer s.Close()
			req, err := dragoman.NewRequest(dragoman.IntID(7), protocol.MethodDiscover, map[string]any{})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.Requests().Call(t.Context(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":`+result+`}`, c.want); resp.String() != want {
				t.Errorf("got %s\nwant %s", resp, want)
			}
		})
	}
}
