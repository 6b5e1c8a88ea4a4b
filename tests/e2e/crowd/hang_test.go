//go:build unix

package crowd

import (
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// web sets the fixture with a server on HTTP.
func (s *fixture) web() *httpHost {
	s.t.Helper()
	h := listen(s.t, s.server, s.journal, "")
	s.set(&era.Server{Dialer: &streamable.Client{URL: h.url(), Timeout: -1, Retry: &streamable.Retry{Min: 10 * time.Millisecond}}})
	return h
}

// TestChildThatHangs has a child stop, so that it neither reads nor writes.
func TestChildThatHangs(t *testing.T) {
	erasOver(t, []string{overHTTP}, func(t *testing.T, s *fixture) {
		s.set(&era.Server{Dialer: child(t, s.server, s.journal), Timeout: time.Second})
		s.works()
		for _, tool := range []string{"hang", "echo"} {
			began := time.Now()
			_, err := s.Tool(s.ctx, tool, object{"text": "x"})
			s.failed(err, protocol.CodeTimeout, protocol.OutcomeUnknown)
			if took := time.Since(began); took > soon {
				t.Errorf("it took %v", took)
			}
		}
		for _, pid := range s.journal.pids() {
			_ = syscall.Kill(-pid, syscall.SIGCONT) // those that are gone need it not
		}
		s.works()
		s.journal.ran(t, "hang", 1)
	})
}

// TestChildThatHangsIsStoppedAllTheSame leaves a child behind that hangs.
func TestChildThatHangsIsStoppedAllTheSame(t *testing.T) {
	erasOver(t, []string{overHTTP}, func(t *testing.T, s *fixture) {
		s.set(&era.Server{Dialer: child(t, s.server, s.journal), Timeout: time.Second})
		_, err := s.Tool(s.ctx, "hang", object{})
		s.failed(err, protocol.CodeTimeout, protocol.OutcomeUnknown)
	})
}
