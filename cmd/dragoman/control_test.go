package main

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/gateway"
	"github.com/dragoman-mcp/dragoman/manager"
)

func TestStatusShowsWhatIsWrong(t *testing.T) {
	noon := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	err := showStatus(&b, &gateway.Status{
		Draining:     true,
		Servers:      []manager.Status{{Name: "files", State: "backing off", LastError: "it has ended"}},
		Groups:       []gateway.Grouped{{Name: "office", Path: "/groups/office/mcp", Servers: []string{"files"}}},
		Reload:       &gateway.Reloaded{At: noon, Error: "dragoman.yaml:3: no such key"},
		StateFailure: &gateway.StateFailure{Since: noon, Error: "no space left on device"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"the gateway is stopping", "files", "backing off", "it has ended", "group office at /groups/office/mcp: files",
		"could not be read again at 12:00:00:\ndragoman.yaml:3: no such key", "the state is not written since 12:00:00: no space left on device",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}
