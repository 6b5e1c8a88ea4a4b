package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// overCutLink has a client call a tool that asks it back, while the link breaks
// whenever an answer is posted: cut reports whether it does this time, and whether
// the server gets the answer nevertheless. It returns how often an answer was
// posted, and what the tool was told.
func overCutLink(t *testing.T, cut func(n int64) (breaks, arrives bool)) (posted, told int64, err error) {
	var posts, answers atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		tool := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			question, err := dragoman.NewRequest(dragoman.IntID(1), "roots/list", nil)
			if err != nil {
				return nil, err
			}
			if _, err := from.Call(ctx, question, nil); err != nil {
				return nil, err
			}
			answers.Add(1)
			time.Sleep(time.Minute) // in the time of the bubble, so that all is posted
			return req.Reply(nil)
		}}
		s := &Server{Acceptor: peertest.Accept(tool)}
		endpoints := mount(s, "")
		h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if m, err := dragoman.Parse(body); err != nil || m.Kind() != dragoman.Response {
				endpoints.ServeHTTP(w, r)
				return
			}
			breaks, arrives := cut(posts.Add(1))
			if arrives {
				recorded := httptest.NewRecorder()
				endpoints.ServeHTTP(recorded, r)
				if recorded.Code != http.StatusAccepted {
					t.Errorf("the server answers %d", recorded.Code)
				}
			}
			if breaks {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusAccepted)
		})}
		l := memnet.Listen()
		done := make(chan struct{})
		go func() { // ends with h.Close
			defer close(done)
			_ = h.Serve(l)
		}()
		tr := &http.Transport{DialContext: l.DialContext}
		conn, dialled := (&Client{URL: "http://localhost/sse", HTTP: &http.Client{Transport: tr}}).Dial(t.Context(), pinger)
		if dialled != nil {
			t.Fatal(dialled)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = callPing(ctx, conn)
		_ = conn.Close()
		_ = s.Close()
		_ = h.Close()
		<-done
		tr.CloseIdleConnections()
	})
	return posts.Load(), answers.Load(), err
}

func TestAnswerThatIsLostWithItsLinkIsPostedAgain(t *testing.T) {
	for name, row := range map[string]struct {
		cut  func(n int64) (breaks, arrives bool)
		want int64
	}{
		"no accident":                  {func(int64) (bool, bool) { return false, true }, 1},
		"cut before the server got it": {func(n int64) (bool, bool) { return n < 3, n == 3 }, 3},
		"cut after the server got it":  {func(n int64) (bool, bool) { return n < 3, true }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if posted, told, err := overCutLink(t, row.cut); err != nil || posted != row.want || told != 1 {
				t.Errorf("%d times posted, and the tool was told %d answers; error %v", posted, told, err)
			}
		})
	}
}

func TestAnswerIsNotPostedForever(t *testing.T) {
	posted, told, err := overCutLink(t, func(int64) (bool, bool) { return true, false })
	if posted != 1+maxRetries || told != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d times posted, and the tool was told %d answers; error %v", posted, told, err)
	}
}
