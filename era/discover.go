package era

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// discover passes server/discover on to a modern server. The answer names what is
// served here: the revisions of the legacy era too, and of the modern era those
// that the server has.
func (s *Server) discover(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	resp, err := s.link.Call(ctx, req, from)
	if err != nil || resp == nil || resp.IsError() {
		return resp, err
	}
	theirs, _ := versions(resp.Get("supportedVersions"))
	if !speaks(theirs, protocol.Modern) {
		return resp, nil // it is for the client to judge
	}
	var names []string
	for _, r := range protocol.Revisions() {
		if r.Era() == protocol.Legacy || slices.Contains(theirs, r.String()) {
			names = append(names, r.String())
		}
	}
	if slices.Equal(names, theirs) {
		return resp, nil
	}
	list, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	return resp.Edit().Set("supportedVersions", list).Message()
}
