package credential

import "time"

// CommandLimit is how long the command of a source may take. It may be changed before the
// command runs: a test cannot wait for a process on a clock of its own.
func CommandLimit(s *Source) *time.Duration { return &s.from.(*helper).limit }
