package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestLogLinesAreNotAsLongAsACallerLikes(t *testing.T) {
	long := strings.Repeat("ü", 200_000)
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	p := event.Observe(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return req.Fail(noMethod(req.Method())), nil
	}}, new(event.Link), event.Observers{&logs.Calls{Log: log}})
	req, err := dragoman.NewRequest(dragoman.IntID(1), "x"+long, map[string]any{"name": "x" + long, "_meta": map[string]any{protocol.MetaClientInfo: map[string]string{"name": "x" + long}}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Call(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/x"+strings.Repeat("a", 200_000), nil)
	new(refusals).log(log, r, errors.New("Host is not allowed: "+long))
	for text, s := range map[string]string{"the log": out.String(), "the answer": string(resp.Bytes()), "an unknown tool": unknown("tool", "x"+long).Message, "an unknown resource": unknown("resource", long).Message} {
		if len(s) > 3000 || strings.Contains(s, "\ufffd") || !utf8.ValidString(s) {
			t.Errorf("%s is %d bytes: %.500s", text, len(s), s)
		}
	}
}

func TestRefusedHostsAreLoggedAFewTimesAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, nil))
		var f refusals
		r := httptest.NewRequest("GET", "http://evil.example/mcp", nil)
		type line struct {
			Level, Client, Reason string
			Requests              int
		}
		refuse := func(n int) (list []line) {
			out.Reset()
			for range n {
				f.log(log, r, errors.New("Host is not allowed"))
			}
			for in := json.NewDecoder(&out); in.More(); {
				var l line
				if err := in.Decode(&l); err != nil {
					t.Fatal(err)
				}
				list = append(list, l)
			}
			return list
		}
		if list := refuse(100); len(list) != maxRefusals || list[0].Level != "WARN" || list[0].Reason != "Host is not allowed" || list[0].Client != "192.0.2.1" {
			t.Errorf("of 100: %+v", list)
		}
		time.Sleep(refusalWindow)
		if list := refuse(2); len(list) != 3 || list[0].Requests != 100-maxRefusals {
			t.Errorf("a minute later: %+v", list)
		}
	})
}
