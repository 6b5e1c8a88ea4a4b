package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
)

func TestStatusShowsWhatIsWrong(t *testing.T) {
	noon := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	err := showStatus(&b, &gatewayStatus{Status: gateway.Status{
		Draining:     true,
		Servers:      []upstream.Status{{Name: "files", State: "backing off", LastError: "it has ended"}},
		Groups:       []gateway.Grouped{{Name: "office", Path: "/groups/office/mcp", Servers: []string{"files"}}},
		Reload:       &gateway.Reloaded{At: noon, Failed: true, Error: "dragoman.yaml:3: no such key"},
		Later:        []string{"listen", "limits"},
		StateFailure: &gateway.StateFailure{Since: noon, Error: "no space left on device"},
	}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"the gateway is stopping", "files", "backing off", "it has ended", "group office at /groups/office/mcp: files",
		"could not be read again at 12:00:00:\ndragoman.yaml:3: no such key", "a restart of the gateway is needed for changes of: listen, limits\n", "the state is not written since 12:00:00: no space left on device",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}

func TestReloadAndStatusNameWhatIsLeftOutAndWhy(t *testing.T) {
	r := &gateway.Reloaded{
		Changes: upstream.Changes{Added: []string{"more"}, Kept: []string{"files"}},
		LeftOut: []gateway.LeftOut{{Server: "files", Runs: true, Error: "dragoman.yaml:3: no such key"}, {Server: "mail", Error: "dragoman.yaml:7: no command"}},
		Later:   []string{"state"},
	}
	const left = "files continues as it was configured before, because of errors:\ndragoman.yaml:3: no such key\n" +
		"mail is left out, because of errors:\ndragoman.yaml:7: no command\n"
	var b strings.Builder
	if err := showReload(&b, r); err != nil {
		t.Fatal(err)
	}
	if want := "added: more\n" + left + "a restart of the gateway is needed for changes of: state\n1 server unchanged\n"; b.String() != want {
		t.Errorf("reload prints\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := showStatus(&b, &gatewayStatus{Status: gateway.Status{Reload: r}}, 0); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), left) {
		t.Errorf("status prints\n%s", b.String())
	}
}

func TestStatusFitsIntoTheLinesOfATerminal(t *testing.T) {
	list := []upstream.Status{
		{Name: "files", State: "ready", Transport: "stdio", Revision: "2025-11-25", Tools: 12},
		{Name: "mail", State: "backing off", Transport: "stdio", LastError: "stdio: cannot start \"mail-server\": executable file not found"},
	}
	for _, width := range []int{40, 60, 100, 200} {
		var b strings.Builder
		if err := showServers(&b, list, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(strings.TrimRight(line, " \n")) > width {
				t.Errorf("%d: too long: %s", width, line)
			}
		}
		words := strings.Join(strings.Fields(b.String()), " ")
		for _, want := range []string{"NAME STATE", "files ready", "mail backing off", `cannot start "mail-server": executable file not found`} {
			if !strings.Contains(words, want) {
				t.Errorf("%d: no %q in\n%s", width, want, b.String())
			}
		}
		if strings.Contains(words, "stdio: cannot") {
			t.Errorf("%d: it names a package:\n%s", width, b.String())
		}
		if all := strings.Contains(words, "LAST ERROR"); all != (width == 200) {
			t.Errorf("%d:\n%s", width, b.String())
		}
	}
}
