package toolhttp

// Callers returns of how many callers the server keeps lists.
func Callers(s *Server) int {
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	return len(s.tools.callers)
}
