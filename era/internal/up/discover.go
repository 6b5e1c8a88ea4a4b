package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// maxFresh bounds how long we believe what a server said about itself.
const maxFresh = 24 * time.Hour

// serverFacts is what a server says about itself.
type serverFacts struct {
	rev          protocol.Revision // that we speak with it
	caps         json.RawMessage   // its capabilities, an object
	lists        protocol.Interest // whose changes it tells of
	subscribes   bool              // to resources
	logs         bool
	info         json.RawMessage // its introduction, or ours
	instructions json.RawMessage // nil if there are none
}

// errUnsupported says that the server has no revision that we speak.
type errUnsupported struct{ supported []string }

func (e *errUnsupported) Error() string {
	return fmt.Sprintf("the server speaks none of our revisions, but %q", e.supported)
}

// A discovery is what the server has said about itself.
type discovery struct {
	facts *serverFacts
	until time.Time // when it gets old
}

// facts returns what the server says about itself. Whoever asks while somebody else
// is asking waits for the same answer.
func (s *Server) facts(ctx context.Context) (*serverFacts, error) {
	s.known.Forget(func(d discovery) bool { return !time.Now().Before(d.until) })
	d, err := s.known.Get(ctx, s.busy.Start, func() (discovery, error) {
		// Ends with the server's answer, after DiscoverTimeout, or with Close. It is
		// nobody's own, for the one who asked first may leave first.
		ctx, cancel := context.WithTimeout(dragoman.WithCallerOf(s.ctx, ctx), DiscoverTimeout)
		defer cancel()
		asked := time.Now()
		f, fresh, err := s.ask(ctx, protocol.Latest)
		return discovery{f, asked.Add(fresh)}, err
	})
	return d.facts, err
}

// forget makes the next handshake ask again, because the server is not what it
// said it was.
func (s *Server) forget() { s.known.Forget(nil) }

// ask asks the server about itself, in a revision. It also returns for how long
// the answer holds.
func (s *Server) ask(ctx context.Context, rev protocol.Revision) (*serverFacts, time.Duration, error) {
	req, err := s.request(protocol.MethodDiscover, nil, protocol.Envelope{Version: rev.String(), Client: s.self})
	if err != nil {
		return nil, 0, err
	}
	resp, err := s.link.Call(ctx, req, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, 0, context.Cause(ctx)
	case err != nil:
		return nil, 0, err
	case resp == nil:
		return nil, 0, errors.New("no answer to " + protocol.MethodDiscover)
	case resp.IsError():
		return s.refused(ctx, rev, resp.RPCError())
	}
	return s.read(resp)
}

// refused looks at an error that the server gave us about itself. If it names a
// revision that both of us speak, it is asked once more.
func (s *Server) refused(ctx context.Context, tried protocol.Revision, e *dragoman.Error) (*serverFacts, time.Duration, error) {
	if e.Code != protocol.CodeUnsupported {
		// Not wrapped: it is an answer to us, not to the client.
		return nil, 0, fmt.Errorf("the server refused %s with error %d: %s", protocol.MethodDiscover, e.Code, e.Message)
	}
	var data struct {
		Supported []string `json:"supported"`
	}
	_ = json.Unmarshal(e.Data, &data) // what cannot be read names nothing
	// Older than the one tried, so this comes to an end.
	if common := newest(data.Supported); common != protocol.Unknown && !common.Since(tried) {
		return s.ask(ctx, common)
	}
	return nil, 0, &errUnsupported{data.Supported}
}

// read reads a result of server/discover.
func (s *Server) read(resp *dragoman.Message) (*serverFacts, time.Duration, error) {
	var result struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      json.RawMessage `json:"instructions"`
		TTL               float64         `json:"ttlMs"`
	}
	if err := resp.Decode(&result); err != nil {
		return nil, 0, fmt.Errorf("the server's answer to %s cannot be read: %w", protocol.MethodDiscover, err)
	}
	f := &serverFacts{rev: newest(result.SupportedVersions), caps: json.RawMessage("{}"), info: s.self}
	if f.rev == protocol.Unknown {
		return nil, 0, &errUnsupported{result.SupportedVersions}
	}
	if dragoman.IsObject(result.Capabilities) {
		f.caps = result.Capabilities
		f.lists, f.logs = protocol.ListsOf(f.caps), dragoman.Member(f.caps, "logging") != nil
		f.subscribes = string(dragoman.Member(dragoman.Member(f.caps, "resources"), "subscribe")) == "true"
	}
	if info := resp.Meta(protocol.MetaServerInfo); protocol.IsImplementation(info) {
		f.info = info
	}
	if len(result.Instructions) > 0 && result.Instructions[0] == '"' {
		f.instructions = result.Instructions
	}
	fresh := min(max(result.TTL, 0), float64(maxFresh/time.Millisecond))
	return f, time.Duration(fresh) * time.Millisecond, nil
}

// newest returns the newest modern revision among names that we know.
func newest(names []string) protocol.Revision {
	best := protocol.Unknown
	for _, name := range names {
		if rev := protocol.ParseRevision(name); rev.Era() == protocol.Modern {
			best = max(best, rev)
		}
	}
	return best
}
