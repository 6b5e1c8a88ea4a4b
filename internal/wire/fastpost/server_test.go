package fastpost_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/fastpost"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// atSite runs a test with a connection to a direct server, in a bubble.
func atSite(t *testing.T, h http.HandlerFunc, test func(t *testing.T, s *site, c net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, h, true)
		test(t, s, s.dial(t))
		if n := s.passedOn(); n > 0 {
			t.Errorf("%d connections were passed on to net/http", n)
		}
	})
}

// say sends text on a connection.
func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// hear returns the body of the next answer.
func hear(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type leaver interface{ OnLeave(func()) }

func TestOnLeaveIsForRequestsUnderWay(t *testing.T) {
	told := false
	atSite(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(leaver).OnLeave(func() { told = true })
		time.Sleep(time.Minute)
	}, func(t *testing.T, _ *site, c net.Conn) {
		say(t, c, post("/", "", "abc"))
		hear(t, bufio.NewReader(c))
		_ = c.Close()
		time.Sleep(time.Hour)
	})
	if told {
		t.Error("told that the client has left a request that was answered")
	}
}

func TestARequestEndsWhenItsClientLeaves(t *testing.T) {
	for stays, want := range map[time.Duration]time.Duration{0: fastpost.LeaveAfter, time.Hour: time.Hour} {
		var after, told, late time.Duration
		atSite(t, func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			w.(leaver).OnLeave(func() { told = time.Since(began) })
			<-r.Context().Done()
			after = time.Since(began)
			time.Sleep(time.Second)
			w.(leaver).OnLeave(func() { late = time.Since(began) - time.Second })
		}, func(t *testing.T, _ *site, c net.Conn) {
			say(t, c, post("/", "", "abc"))
			time.Sleep(stays)
			_ = c.Close()
			time.Sleep(time.Hour)
		})
		if after != want || told != want || late != want {
			t.Errorf("the client has left after %v; the request ends after %v, and is told after %v and %v; want %v", stays, after, told, late, want)
		}
	}
}

func TestARequestBehindASlowOneIsAnswered(t *testing.T) {
	atSite(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		time.Sleep(time.Minute)
		if err := r.Context().Err(); err != nil {
			t.Errorf("the request was ended: %v", err)
		}
		_, _ = w.Write(body)
	}, func(t *testing.T, _ *site, c net.Conn) {
		in := bufio.NewReader(c)
		for range 3 {
			say(t, c, post("/", "", "first"))
			time.Sleep(time.Second)
			say(t, c, post("/", "", "second")[:20])
			time.Sleep(time.Second)
			go func() { _, _ = io.WriteString(c, post("/", "", "second")[20:]) }() // ends when it is read
			if first, second := hear(t, in), hear(t, in); first != "first" || second != "second" {
				t.Errorf("got %q and %q", first, second)
			}
		}
	})
}

func TestABodyEndsWithItsRequest(t *testing.T) {
	var body io.Reader
	atSite(t, func(_ http.ResponseWriter, r *http.Request) { body = r.Body }, func(t *testing.T, _ *site, c net.Conn) {
		say(t, c, post("/", "", "first"))
		hear(t, bufio.NewReader(c))
		say(t, c, post("/", "", "secret")[:50])
		if b, err := io.ReadAll(body); len(b) > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("a request that is over reads %q, %v", b, err)
		}
	})
}

func TestAnAnswerThatIsOverCanDoNothing(t *testing.T) {
	var old http.ResponseWriter
	atSite(t, func(w http.ResponseWriter, _ *http.Request) { old = w }, func(t *testing.T, _ *site, c net.Conn) {
		in := bufio.NewReader(c)
		say(t, c, post("/", "", ""))
		hear(t, in)
		synctest.Wait()
		control := http.NewResponseController(old)
		if _, err := old.Write([]byte("late")); err == nil {
			t.Error("it can be written to")
		}
		if err := control.Flush(); err == nil {
			t.Error("it can be flushed")
		}
		if control.SetReadDeadline(time.Unix(1, 0)) == nil || control.SetWriteDeadline(time.Unix(1, 0)) == nil {
			t.Error("it can set deadlines")
		}
		if _, _, err := control.Hijack(); err == nil {
			t.Error("it can take the connection")
		}
		say(t, c, post("/", "", ""))
		if text := hear(t, in); text != "" {
			t.Errorf("the next answer is %q", text)
		}
	})
}

func TestDeadlinesHoldForOneAnswer(t *testing.T) {
	atSite(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetWriteDeadline(time.Now().Add(time.Second)), control.SetReadDeadline(time.Now().Add(time.Second))); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}, func(t *testing.T, _ *site, c net.Conn) {
		in := bufio.NewReader(c)
		for range 3 {
			say(t, c, post("/x", "", ""))
			if text := hear(t, in); text != "/x" {
				t.Errorf("got %q", text)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestAClientThatDoesNotReadIsCut(t *testing.T) {
	var cut error
	atSite(t, func(w http.ResponseWriter, _ *http.Request) {
		began := time.Now()
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(began.Add(time.Minute))
		if _, cut = w.Write(make([]byte, 1<<20)); time.Since(began) != time.Minute {
			t.Errorf("cut after %v", time.Since(began))
		}
	}, func(t *testing.T, _ *site, c net.Conn) {
		say(t, c, post("/", "", ""))
		time.Sleep(time.Hour)
		synctest.Wait()
		if cut == nil {
			t.Error("written without an error")
		}
		if _, err := io.WriteString(c, "x"); err == nil {
			t.Error("the connection is still open")
		}
	})
}

func TestAConnectionCanBeTaken(t *testing.T) {
	for name, test := range map[string]struct {
		before func(w http.ResponseWriter)
		want   string
	}{
		"before an answer":      {func(http.ResponseWriter) {}, "taken:next"},
		"from an event stream":  {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "a"); w.(http.Flusher).Flush() }, "a\r\ntaken:next"},
		"after a minute":        {func(http.ResponseWriter) { time.Sleep(time.Minute) }, "taken:next"},
		"with an answer begun":  {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "a") }, "a\r\ntaken:next"},
		"when the client waits": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, "\r\n\r\ntaken:next"},
	} {
		t.Run(name, func(t *testing.T) {
			atSite(t, func(w http.ResponseWriter, _ *http.Request) {
				test.before(w)
				taken, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
					t.Errorf("it can be written to: %v", err)
				}
				if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
					t.Error("it can be taken twice")
				}
				go func() { // ends with the connection
					defer taken.Close()
					next := make([]byte, 4)
					_, _ = io.ReadFull(rw, next)
					_, _ = io.WriteString(taken, "taken:"+string(next))
				}()
			}, func(t *testing.T, s *site, c net.Conn) {
				go func() { _, _ = io.WriteString(c, post("/", "", "abc")+"next") }() // ends when it is read
				b, err := io.ReadAll(c)
				if err != nil || !strings.HasSuffix(string(b), test.want) {
					t.Errorf("%q, %v; want the end %q", b, err, test.want)
				}
				if err := s.direct.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestShutdownEndsIdleConnectionsAndWaitsForRequests(t *testing.T) {
	atSite(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Minute)
		_, _ = io.WriteString(w, "done")
	}, func(t *testing.T, s *site, c net.Conn) {
		fresh, idle := s.dial(t), s.dial(t)
		say(t, idle, post("/", "", ""))
		hear(t, bufio.NewReader(idle))
		say(t, c, post("/", "", ""))
		synctest.Wait()
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.direct.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("the first ends with %v after %v", err, time.Since(began))
		}
		for _, c := range []net.Conn{fresh, idle} {
			if _, err := io.ReadAll(c); err != nil || time.Since(began) != time.Second {
				t.Errorf("who has no request: %v after %v", err, time.Since(began))
			}
		}
		heard := make(chan *http.Response, 1)
		go func() { // ends with the answer
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
			}
			heard <- resp
		}()
		if err := s.direct.Shutdown(t.Context()); err != nil || time.Since(began) != time.Minute {
			t.Errorf("the second ends with %v after %v", err, time.Since(began))
		}
		if resp := <-heard; resp == nil || resp.ContentLength != 4 || !resp.Close {
			t.Errorf("the answer is %v", resp)
		}
		late, behind := net.Pipe()
		if s.direct.ServeConn(httpframe.New(behind, nil)) {
			t.Error("a connection that comes later is passed on")
		}
		if _, err := late.Write([]byte("x")); err == nil {
			t.Error("a connection that comes later is served")
		}
	})
}

func TestCloseEndsRequests(t *testing.T) {
	atSite(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, s *site, c net.Conn) {
		say(t, c, post("/", "", ""))
		synctest.Wait()
		if err := s.direct.Close(); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
		if err := s.direct.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEveryTimeIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		pieces []string
		after  time.Duration
	}{
		"never used":             {nil, idleTime},
		"first byte":             {[]string{"P"}, headerTime},
		"no end of the head":     {[]string{post("/", "", "")[:40]}, headerTime},
		"unused behind requests": {[]string{post("/", "", "abc"), post("/", "", "abc")}, idleTime},
		"head behind a request":  {[]string{post("/", "", "abc"), "PO"}, headerTime},
		"head in one piece":      {[]string{post("/", "", "abc") + "POST / HT"}, headerTime},
	} {
		t.Run(name, func(t *testing.T) {
			atSite(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s *site, _ net.Conn) {
				if got := s.transcript(t, test.pieces...); !strings.HasSuffix(got, " after "+test.after.String()) {
					t.Errorf("%s, want the end after %v", got, test.after)
				}
			})
		})
	}
}

type connKey struct{}

func TestRequestsHaveTheContextOfTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fastpost.Server{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Context().Value(connKey{}).(string))
			}),
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, "of "+c.RemoteAddr().String())
			},
			Header: headerTime, Idle: idleTime,
		}
		here, there := net.Pipe()
		done := make(chan bool)
		go func() { done <- s.ServeConn(httpframe.New(there, nil)) }() // ends with the connection
		say(t, here, post("/", "", ""))
		if text := hear(t, bufio.NewReader(here)); text != "of pipe" {
			t.Errorf("got %q", text)
		}
		_ = here.Close()
		if <-done {
			t.Error("a connection that has ended is passed on")
		}
	})
}

func TestABodyThatComesSlowlyIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), true)
		c := s.dial(t)
		in := bufio.NewReader(c)
		raw := post("/", "", "abc")
		for range 3 { // each in its time
			say(t, c, raw[:len(raw)-2])
			time.Sleep(fastpost.BodyWait - time.Millisecond)
			say(t, c, raw[len(raw)-2:])
			if text := hear(t, in); text != "abc" || s.passedOn() > 0 {
				t.Errorf("got %q, passed on: %d", text, s.passedOn())
			}
		}
		say(t, c, raw[:len(raw)-2])
		time.Sleep(time.Minute)
		say(t, c, raw[len(raw)-2:]+raw)
		for range 2 {
			if text := hear(t, in); text != "abc" || s.passedOn() != 1 {
				t.Errorf("slowly: got %q, passed on: %d", text, s.passedOn())
			}
		}
	})
}

// Large requests for which there is no room are net/http's, which has its handler admit them
// before they are read.
func TestS14_LargeRequestsForWhichThereIsNoRoomAreLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				<-hold
			}
			b, _ := io.ReadAll(r.Body)
			_, _ = w.Write(b)
		}), true)
		s.direct.Room = limit.NewBytes(64 << 10) // of which an address has half
		large, first := strings.Repeat("x", 20<<10), s.dial(t)
		say(t, first, post("/hold", "", large))
		synctest.Wait()
		for _, row := range []struct {
			body   string
			passed int
		}{{"small", 0}, {large, 1}, {"small", 1}} {
			c := s.dial(t)
			say(t, c, post("/", "", row.body))
			if text := hear(t, bufio.NewReader(c)); text != row.body || s.passedOn() != row.passed {
				t.Errorf("%d bytes: got %d, %d passed on, want %d", len(row.body), len(text), s.passedOn(), row.passed)
			}
		}
		close(hold)
		if text := hear(t, bufio.NewReader(first)); text != large {
			t.Errorf("the first gets %d bytes", len(text))
		}
		gone := s.dial(t)
		say(t, gone, post("/", "", large)[:10<<10])
		synctest.Wait()
		_ = gone.Close()
		synctest.Wait()
		again := s.dial(t)
		in := bufio.NewReader(again)
		for range 3 {
			before := s.passedOn()
			say(t, again, post("/", "", large))
			if text := hear(t, in); text != large || s.passedOn() != before {
				t.Errorf("when all is over: got %d bytes, %d passed on", len(text), s.passedOn()-before)
			}
		}
	})
}
