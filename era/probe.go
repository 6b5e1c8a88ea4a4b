package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// ErrNoRevision says that a server speaks no revision that we do.
var ErrNoRevision = errors.New("era: the server speaks no revision that we know")

// errProbe ends the wait for an answer that a legacy server may never give.
var errProbe = errors.New("era: no answer to the probe")

// era returns the era in which the server is spoken to.
func (s *Server) era(ctx context.Context) (protocol.Era, error) {
	if s.Era != nil {
		return *s.Era, nil
	}
	if era, ok := s.found.peek(); ok {
		return era, nil
	}
	return s.found.get(ctx, s, func(ctx context.Context) (protocol.Era, error) {
		era, err := s.find(ctx)
		if err == nil {
			s.log.Info("the server speaks the "+era.String()+" era", "era", era)
		}
		return era, err
	})
}

// find finds out the era. A server that does not answer the probe, or ends, has not
// said what it is: it may be a legacy one that cannot bear the probe, or one that is
// not well. So it is tried once more, by a handshake. That is the next thing that is
// tried also if a Dialer has it wait for so long that this attempt is over by then:
// probe and handshake take turns, each on a conversation of its own.
func (s *Server) find(ctx context.Context) (protocol.Era, error) {
	if s.Probe != nil {
		return s.Probe(ctx)
	}
	if !s.silent.Load() {
		if era, err := s.ask(ctx); err != nil || !s.silent.Load() {
			return era, err
		}
	}
	return protocol.Legacy, s.try(ctx)
}

// ask finds out the era on a conversation. One on which it is settled that the
// server is modern serves everybody from then on. One with a legacy server is
// used again only if the server took the probe for any other method that it does
// not have: some servers choose their era by the first request. If there is no answer,
// the server is silent from then on.
func (s *Server) ask(ctx context.Context) (protocol.Era, error) {
	ear := new(ear)
	conn, err := s.open(ctx, ear)
	if err != nil {
		return 0, err
	}
	req, err := discoverRequest()
	if err != nil {
		return 0, err
	}
	limit, cancel := context.WithTimeoutCause(ctx, orDefault(s.ProbeTimeout, DefaultProbeTimeout), errProbe)
	defer cancel()
	resp, err := conn.Call(limit, req, nil)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		s.discard(conn)
		return 0, context.Cause(ctx)
	case errors.Is(err, errProbe), errors.Is(err, dragoman.ErrClosed):
		s.discard(conn)
		s.silent.Store(true)
		return 0, nil
	default:
		s.discard(conn)
		return 0, err
	}
	era, err := judge(resp)
	switch {
	case err == nil && era == protocol.Modern:
		s.link.adopt(conn)
	case err == nil && resp.IsError() && resp.RPCError().Code == protocol.CodeMethodNotFound:
		s.spares.put(conn, ear)
	default:
		s.discard(conn)
	}
	return era, err
}

// discard closes a conversation that nobody needs, which may take a while.
func (s *Server) discard(conn dragoman.Conn) {
	// Ends when a child has been stopped, which is bounded.
	if !s.busy.Start(func() { _ = conn.Close() }) {
		_ = conn.Close()
	}
}

func discoverRequest() (*dragoman.Message, error) {
	return dragoman.NewRequest(dragoman.StringID("probe"), protocol.MethodDiscover, map[string]any{"_meta": map[string]any{
		protocol.MetaProtocolVersion:    protocol.Latest.String(),
		protocol.MetaClientCapabilities: struct{}{},
		protocol.MetaClientInfo:         map[string]string{"name": "dragoman", "version": "0"},
	}})
}

// judge draws the conclusion from the answer to server/discover. Whatever a
// server says that does not know the method makes it legacy.
func judge(resp *dragoman.Message) (protocol.Era, error) {
	if !resp.IsError() {
		names, ok := versions(resp.Get("supportedVersions"))
		if ok && !speaks(names, protocol.Modern) && !speaks(names, protocol.Legacy) {
			return 0, fmt.Errorf("%w: it speaks %q", ErrNoRevision, names)
		}
		if speaks(names, protocol.Modern) {
			return protocol.Modern, nil
		}
		return protocol.Legacy, nil
	}
	e := resp.RPCError()
	if e.Code != protocol.CodeUnsupported {
		return protocol.Legacy, nil
	}
	var data struct {
		Supported json.RawMessage `json:"supported"`
	}
	_ = json.Unmarshal(e.Data, &data) // without it, nothing is supported
	names, _ := versions(data.Supported)
	switch {
	case speaks(names, protocol.Modern):
		return protocol.Modern, nil
	case speaks(names, protocol.Legacy):
		return protocol.Legacy, nil
	}
	return 0, fmt.Errorf("%w: %w", ErrNoRevision, e)
}

func versions(list json.RawMessage) (names []string, ok bool) {
	return names, list != nil && json.Unmarshal(list, &names) == nil
}

// speaks tells whether a revision of an era that we know is among names.
func speaks(names []string, era protocol.Era) bool {
	return slices.ContainsFunc(protocol.Revisions(), func(r protocol.Revision) bool {
		return r.Era() == era && slices.Contains(names, r.String())
	})
}
