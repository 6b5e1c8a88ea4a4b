package streamable

import "github.com/dragoman-mcp/dragoman/internal/httpx"

// DoorOptions returns how the door of the server is configured.
func (s *Server) DoorOptions() *httpx.DoorOptions { return s.doorOptions() }
