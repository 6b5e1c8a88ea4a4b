package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// withServer runs a test of a legacy server whose shared list is known.
func withServer(t *testing.T, f func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(false)
		s.Begin()
		s.refresh(t)
		s.takeAnnounced()
		f(t, s)
		synctest.Wait()
	})
}

func TestListForExtensionsIsFetchedOnceForAllClientsWithThem(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		for i := range 5 {
			c := &dragoman.Caller{Principal: fmt.Sprint(i)}
			for _, same := range []string{`{"ui":{"a":1,"b":2.0},"io.modelcontextprotocol/tasks":{}}`, `{"ui":{"b":2.0,"a":1}}`} {
				if got := s.read(t, c, same); got != "a ui" {
					t.Errorf("%s: got %q", same, got)
				}
			}
			for _, none := range []string{`{}`, `{"io.modelcontextprotocol/tasks":{}}`, `[]`, `null`} {
				if got := s.read(t, c, none); got != "a" {
					t.Errorf("%s: got %q", none, got)
				}
			}
		}
		if s.extended != 1 {
			t.Errorf("the server was asked %d times", s.extended)
		}
		s.tools = "a b"
		s.Changed(true, nil, protocol.NoteToolsChanged)
		s.refresh(t)
		if got := s.read(t, ada, `{"ui":{"a":1,"b":2.0}}`); got != "a b ui" {
			t.Errorf("after a change: got %q", got)
		}
	})
}

func TestListForExtensionsThatTakesLongIsAnnouncedWhenItIsThere(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.slow = 3 * time.Second
		began := time.Now()
		if got := s.read(t, ada, `{"ui":{}}`); got != "a" || time.Since(began) != ExtensionWait {
			t.Errorf("after %v: got %q", time.Since(began), got)
		}
		if announced := s.takeAnnounced(); len(announced) > 0 {
			t.Errorf("announced: %q", announced)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if announced := s.takeAnnounced(); len(announced) != 1 || announced[0] != protocol.NoteToolsChanged {
			t.Errorf("the list was not announced, once: %q", announced)
		}
		if got := s.read(t, ada, `{"ui":{}}`); got != "a ui" {
			t.Errorf("afterwards: got %q", got)
		}
	})
}

func TestClientsWithExtensionsGetThePlainListIfThereIsNoOther(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		s.err = errors.New("no")
		for range 2 {
			began := time.Now()
			if got := s.read(t, ada, `{"ui":{}}`); got != "a" || time.Since(began) != 0 || s.extended != 1 {
				t.Errorf("after %v and %d requests: got %q", time.Since(began), s.extended, got)
			}
		}
		s.err = nil
		time.Sleep(ExtensionRetry)
		if got := s.read(t, ada, `{"ui":{}}`); got != "a ui" {
			t.Errorf("after a while: got %q", got)
		}
	})
}

func TestSetsOfExtensionsAreBounded(t *testing.T) {
	withServer(t, func(t *testing.T, s *server) {
		set := func(i int) string { return fmt.Sprintf(`{"x%d":{}}`, i) }
		for i := range MaxExtensionSets {
			if got := s.read(t, ada, set(i)); got != fmt.Sprintf("a x%d", i) {
				t.Errorf("got %q", got)
			}
		}
		for _, extensions := range []string{set(100), set(101), `{"long":"` + strings.Repeat("x", MaxExtensions) + `"}`} {
			if got := s.read(t, bob, extensions); got != "?" {
				t.Errorf("beyond the limit: got %q, want the client's own session asked", got)
			}
		}
		if n := len(s.sets); n != MaxExtensionSets {
			t.Errorf("lists are kept for %d sets", n)
		}
		time.Sleep(ExtensionIdle + time.Second)
		if got := s.read(t, bob, set(100)); got != "a x100" {
			t.Errorf("when others are not used any more: got %q", got)
		}
	})
}
