package term

import (
	"cmp"
	"runtime/debug"

	"github.com/dragoman-mcp/dragoman"
)

// version is set when a release is built.
var version string

// Version returns the version of the program.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(version, info)
}

// versionOf returns the version that was set, or else the one that the module was
// installed as, or else that of the library, with the commit if that is known.
func versionOf(set string, info *debug.BuildInfo) string {
	if set != "" || info == nil {
		return cmp.Or(set, dragoman.Version)
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return dragoman.Version + "+" + s.Value[:min(12, len(s.Value))]
		}
	}
	return dragoman.Version
}
