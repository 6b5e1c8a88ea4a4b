package logs_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// A cutter is a peer that can do more than its two methods.
type cutter struct{ dragoman.Peer }

func (cutter) Correlates() bool { return true }

func TestEachMessageOfACallIsALineInItsOrder(t *testing.T) {
	var out bytes.Buffer
	var level slog.LevelVar
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: &level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "bytes" {
			return slog.Attr{}
		}
		return a
	}}))
	answer := peertest.Parse(t, `{"jsonrpc":"2.0","id":7,"result":{"token":"hush"}}`)
	p := event.Observe(cutter{dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		_ = from.Notify(ctx, peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`))
		_, _ = from.Call(ctx, peertest.Parse(t, `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`), nil)
		return answer, nil
	}}}, new(event.Link), event.Observers{&logs.Messages{Log: log}})
	client := dragoman.Funcs{
		OnCall: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
			return peertest.Parse(t, `{"jsonrpc":"2.0","id":"q","error":{"code":1,"message":"no"}}`), nil
		},
		OnNotify: func(context.Context, *dragoman.Message) error { return nil },
	}
	call := func() string {
		t.Helper()
		out.Reset()
		resp, err := p.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}`), client)
		if resp != answer || err != nil {
			t.Errorf("the answer is %v, %v", resp, err)
		}
		return out.String()
	}
	if got := call(); got != "" {
		t.Errorf("at the level info it shows\n%s", got)
	}
	level.Set(slog.LevelDebug)
	const want = `msg="client → dragoman" method=tools/call name=echo id=7 json="{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}"
msg="dragoman → client" method=notifications/progress json="{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}"
msg="dragoman → client" method=roots/list id="\"q\"" json="{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}"
msg="client → dragoman" kind=error id="\"q\"" json="{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"error\":{\"code\":1,\"message\":\"no\"}}"
msg="dragoman → client" kind=result id=7 json="{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"token\":\"[redacted]\"}}"
`
	if got := call(); got != want {
		t.Errorf("it shows\n%s\nwant\n%s", got, want)
	}
	if _, ok := dragoman.PeerAs[dragoman.Correlator](p); !ok {
		t.Error("it hides what the peer can do")
	}
	out.Reset()
	_ = p.Notify(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`))
	if !strings.HasPrefix(out.String(), `msg="client → dragoman" method=notifications/cancelled`) {
		t.Errorf("a notification: %s", out.String())
	}
}

// A talker is a conversation with a peer.
type talker struct {
	dragoman.Conn
	peer dragoman.Peer
}

func (c talker) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.peer.Call(ctx, req, from)
}

func (c talker) Notify(ctx context.Context, note *dragoman.Message) error {
	return c.peer.Notify(ctx, note)
}

func TestLevelThatIsChangedHoldsForConversationsThatAreOpen(t *testing.T) {
	for name, open := range map[string]func(*slog.Logger, dragoman.Peer) (there, back dragoman.Peer, err error){
		"with a client": func(log *slog.Logger, p dragoman.Peer) (there, back dragoman.Peer, err error) {
			link, by := new(event.Link), event.Observers{&logs.Messages{Log: log}}
			return event.Observe(p, link, by), event.ObserveClient(talker{peer: p}, link, by), nil
		},
		"with a server": func(log *slog.Logger, p dragoman.Peer) (there, back dragoman.Peer, err error) {
			d := event.Dialer(dragoman.DialFunc(func(_ context.Context, local dragoman.Peer) (dragoman.Conn, error) {
				back = local
				return talker{peer: p}, nil
			}), &event.Link{Role: event.Connection}, event.Observers{&logs.Messages{Log: log}})
			there, err = d.Dial(t.Context(), p)
			return there, back, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var level slog.LevelVar
			p := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				return req.Reply(nil)
			}}
			there, back, err := open(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: &level})), p)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []int{0, 4, 0} { // a request and its answer, each way
				out.Reset()
				for _, to := range []dragoman.Peer{there, back} {
					if _, err := to.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), nil); err != nil {
						t.Fatal(err)
					}
				}
				if got := strings.Count(out.String(), "dragoman"); got != want {
					t.Errorf("at the level %v it shows %d messages, want %d:\n%s", level.Level(), got, want, &out)
				}
				level.Set(map[bool]slog.Level{true: slog.LevelDebug, false: slog.LevelInfo}[level.Level() == slog.LevelInfo])
			}
		})
	}
}
