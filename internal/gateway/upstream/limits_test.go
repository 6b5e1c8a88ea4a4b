package upstream

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A limitedServer is a server behind its limits that counts its calls.
type limitedServer struct {
	t      *testing.T
	limits atomic.Pointer[serverLimits]
	asked  atomic.Int64
	hold   chan struct{} // nil if it answers at once
}

func limited(t *testing.T, c *config.Server) *limitedServer {
	s := &limitedServer{t: t}
	s.apply(c)
	return s
}

// apply puts a configuration in force.
func (s *limitedServer) apply(c *config.Server) { s.limits.Store(newServerLimits(c, s.limits.Load())) }

// call makes a request, and returns the error by which it is refused, or nil.
func (s *limitedServer) call(method, name string) *dragoman.Error {
	req, err := dragoman.NewRequest(dragoman.IntID(1), method, map[string]string{"name": name})
	if err != nil {
		s.t.Error(err)
		return nil
	}
	if limits := s.limits.Load(); limits != nil && isWork(method) {
		if err := limits.enter(s.t.Context(), req); err != nil {
			refusal, ok := errors.AsType[*dragoman.Error](err)
			if !ok {
				s.t.Error(err)
			}
			return refusal
		}
		defer limits.leave(req)
	}
	s.asked.Add(1)
	if s.hold != nil {
		<-s.hold
	}
	return nil
}

// burst makes n calls of a tool, and returns how many passed. All others must have been refused
// by a limit of that scope.
func (s *limitedServer) burst(n int, tool, scope string) (passed int) {
	s.t.Helper()
	for range n {
		e := s.call(protocol.MethodCallTool, tool)
		if e == nil {
			passed++
			continue
		}
		if r, ok := protocol.RefusedBy(e); !ok || r.Limit != scope || r.Retry <= 0 || e.Code != protocol.CodeOverloaded {
			s.t.Fatalf("refused by %v %s, want a limit of the %s", e, e.Data, scope)
		}
	}
	return passed
}

func perSecond(n int) limit.Rate { return limit.Rate{Count: n, Per: time.Second} }

func TestServerIsAskedNoMoreOftenThanItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, &config.Server{Name: "a", Rate: perSecond(10), Burst: 20})
		if n := s.burst(100, "x", protocol.LimitServer); n != 20 || s.asked.Load() != 20 {
			t.Errorf("%d of 100 calls pass at once, and %d come to the server", n, s.asked.Load())
		}
		for _, method := range []string{protocol.MethodListTools, protocol.MethodDiscover, protocol.MethodPing, protocol.MethodInitialize, protocol.MethodListen} {
			if e := s.call(method, ""); e != nil {
				t.Errorf("%s is refused: %v", method, e)
			}
		}
		for _, method := range []string{protocol.MethodReadResource, protocol.MethodGetPrompt, protocol.MethodComplete, "vendor/work"} {
			if e := s.call(method, ""); e == nil {
				t.Errorf("%s passes", method)
			}
		}
		time.Sleep(time.Second)
		if n := s.burst(100, "x", protocol.LimitServer); n != 10 {
			t.Errorf("%d of 100 calls pass after a second, want 10", n)
		}
	})
}

func TestPain34_ToolsOfAPatternShareItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, &config.Server{Name: "a", Rate: perSecond(50), Tools: config.Tools{Limits: map[string]config.ToolLimit{
			"search_*": {Rate: perSecond(5)}, "search_web": {Rate: perSecond(2)}, "other": {Calls: 1},
		}}})
		if n := s.burst(10, "search_web", protocol.LimitTool); n != 2 {
			t.Errorf("%d calls of search_web pass, want 2", n)
		}
		if n := s.burst(10, "search_code", protocol.LimitTool); n != 3 {
			t.Errorf("%d calls of search_code pass, want those that search_web has left of 5", n)
		}
		// What was refused by a tool's limit has not been counted by the server's.
		if n := s.burst(100, "research_", protocol.LimitServer); n != 45 || s.asked.Load() != 50 {
			t.Errorf("%d calls of another tool pass, want those that are left of 50; the server was asked %d times", n, s.asked.Load())
		}
		// And the other way about: refused by the server's.
		time.Sleep(20 * time.Millisecond)
		if s.burst(1, "research_", protocol.LimitServer) != 1 {
			t.Error("nothing passes after the time for one")
		}
		time.Sleep(980 * time.Millisecond)
		s.burst(49, "research_", protocol.LimitServer)
		if n := s.burst(10, "search_code", protocol.LimitServer); n != 0 {
			t.Errorf("%d calls pass where the server's limit is reached", n)
		}
		time.Sleep(200 * time.Millisecond)
		if n := s.burst(5, "search_code", protocol.LimitTool); n != 5 {
			t.Errorf("%d calls pass, want 5: those that the server's limit refused were counted", n)
		}
	})
}

func TestCallsOfAToolUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(t, &config.Server{Name: "a", Tools: config.Tools{Limits: map[string]config.ToolLimit{"slow": {Calls: 2}}}})
		s.hold = make(chan struct{})
		for range 2 {
			go s.call(protocol.MethodCallTool, "slow") // ends when the server answers
		}
		synctest.Wait()
		s.apply(&config.Server{Name: "a", Tools: config.Tools{Limits: map[string]config.ToolLimit{"slow": {Calls: 2}, "new": {Calls: 1}}}})
		began := time.Now()
		if n := s.burst(10, "slow", protocol.LimitTool); n != 0 || s.asked.Load() != 2 {
			t.Errorf("%d calls pass beyond the two that may", n)
		}
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("10 calls have waited for %v, want a second each", waited)
		}
		for range toolQueue {
			go s.call(protocol.MethodCallTool, "slow") // ends when the server answers
		}
		synctest.Wait()
		if began = time.Now(); s.burst(1, "slow", protocol.LimitTool) != 0 || time.Since(began) != 0 {
			t.Errorf("one too many waits for %v", time.Since(began))
		}
		time.Sleep(time.Second / 2)
		close(s.hold)
		synctest.Wait()
		if n := s.asked.Load(); n != 2+toolQueue {
			t.Errorf("%d calls come to the server, want those that have waited too", n)
		}
		if n := s.burst(10, "slow", protocol.LimitTool); n != 10 {
			t.Errorf("%d of 10 calls pass one after the other", n)
		}
	})
}

func TestReloadDoesNotLetAnybodyBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf := func() *config.Server {
			return &config.Server{Name: "a", Rate: perSecond(3), Tools: config.Tools{Limits: map[string]config.ToolLimit{"x": {Rate: perSecond(1)}}}}
		}
		s := limited(t, conf())
		s.burst(1, "x", "")
		s.burst(2, "y", "")
		s.apply(conf())
		if n := s.burst(1, "x", protocol.LimitTool); n != 0 {
			t.Error("the limit of a tool starts over")
		}
		if n := s.burst(1, "y", protocol.LimitServer); n != 0 {
			t.Error("the limit of a server starts over")
		}
		faster := conf()
		faster.Rate = perSecond(4)
		s.apply(faster)
		if n := s.burst(10, "y", protocol.LimitServer); n != 4 {
			t.Errorf("%d pass by a new limit of 4", n)
		}
		s.apply(&config.Server{Name: "a"})
		if n := s.burst(100, "x", ""); n != 100 {
			t.Errorf("%d pass without a limit", n)
		}
	})
}
