package streamable

import "github.com/dragoman-mcp/dragoman/internal/wire/httpserver"

// BaseOptions returns the options of the server's HTTP base.
func (s *Server) BaseOptions() *httpserver.BaseOptions { return s.baseOptions() }
