package streamable

import "github.com/dragoman-mcp/dragoman/internal/wire/httpserver"

// DoorOptions returns how the door of the server is configured.
func (s *Server) DoorOptions() *httpserver.DoorOptions { return s.doorOptions() }
