package httpserver_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// refusing serves a request at an endpoint that refuses it.
func refusing(d *httpserver.Base, path string, refusal *httpserver.Refusal) {
	d.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil), func(*httpserver.Exchange) error { return refusal })
}

func TestMistakesOfClientsAreLoggedOnceASecondForEachStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		shared := httpserver.NewMistakes(slog.New(slog.NewTextHandler(&out, nil)))
		endpoints := []*httpserver.Base{
			httpserver.NewBase(&httpserver.BaseOptions{Trusted: true, Logger: shared.Logger()}), httpserver.NewBase(&httpserver.BaseOptions{Trusted: true, Logger: shared.Logger()}),
		}
		flood := func() {
			for range 10 {
				for _, d := range endpoints {
					for _, status := range []int{400, 401, 403, 404, 405, 406, 413, 415} {
						refusing(d, "/mcp", httpserver.Refuse(status, "send something else"))
					}
				}
			}
		}
		flood()
		if n := strings.Count(out.String(), "\n"); n != 8 {
			t.Errorf("%d lines in one second, want 8:\n%s", n, &out)
		}
		if !strings.Contains(out.String(), `level=INFO msg="request refused" status=404 method=POST path=/mcp client=192.0.2.1 reason="send something else"`+"\n") {
			t.Errorf("logged:\n%s", &out)
		}
		out.Reset()
		time.Sleep(time.Second)
		flood()
		if n := strings.Count(out.String(), "left_out=19\n"); n != 8 {
			t.Errorf("%d lines tell how many were left out, want 8:\n%s", n, &out)
		}
	})
}

func TestWhatIsNoMistakeOfAClientIsNotLogged(t *testing.T) {
	var out bytes.Buffer
	d := httpserver.NewBase(&httpserver.BaseOptions{Trusted: true, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	for _, status := range []int{408, 429, 500, 503} {
		refusing(d, "/mcp", httpserver.Refuse(status, "no"))
	}
	refusing(d, "/mcp", httpserver.Unavailable(protocol.Draining()))
	d.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), func(x *httpserver.Exchange) error {
		x.JSON(http.StatusOK, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`))
		return nil
	})
	if out.Len() > 0 {
		t.Errorf("logged:\n%s", &out)
	}
}

func TestMistakesAreLoggedWithoutSecretsAndCut(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	var out bytes.Buffer
	d := httpserver.NewBase(&httpserver.BaseOptions{Trusted: true, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	refusing(d, "/mcp/"+secret+"?token="+secret, httpserver.Refuse(400, "Content-Type is %q\nlevel=ERROR", "token="+secret))
	refusing(d, "/"+strings.Repeat("x", 10_000), httpserver.Refuse(404, "%s", strings.Repeat("y", 10_000)))
	d.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), func(x *httpserver.Exchange) error {
		x.JSON(http.StatusUnsupportedMediaType, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"send JSON, not token=`+secret+`"}}`))
		return nil
	})
	text := out.String()
	if strings.Contains(text, secret) || strings.Count(text, "\n") != 3 || len(text) > 1200 || !strings.Contains(text, "send JSON") {
		t.Errorf("logged %d bytes:\n%s", len(text), text)
	}
}
