package term

import (
	"runtime/debug"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

func TestVersionSaysWhatWasBuilt(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	stamped := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit}}
	for _, test := range []struct {
		name, set string
		info      *debug.BuildInfo
		want      string
	}{
		{"a release", "v1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "v1.2.3"},
		{"go install of a version", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.2"}}, "v1.2.2"},
		{"go build in a checkout", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: stamped}, dragoman.Version + "+0123456789ab"},
		{"go build of an exported tree", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, dragoman.Version},
		{"no module", "", &debug.BuildInfo{}, dragoman.Version},
		{"nothing is known", "", nil, dragoman.Version},
	} {
		if got := versionOf(test.set, test.info); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
