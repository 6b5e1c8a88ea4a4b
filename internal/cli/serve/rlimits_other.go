//go:build !linux

package serve

import "log/slog"

// watchLimits does nothing: no process can change the limits of another one here.
func watchLimits(*slog.Logger) (stop func()) { return func() {} }
