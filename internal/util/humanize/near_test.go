package humanize_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

func TestNamesThatMayHaveBeenMeantAreFound(t *testing.T) {
	names := []string{"echo", "files_read", "files_write", "add", "listen", "token-file", "get_weather", "get_weathers", strings.Repeat("x", 200)}
	for _, test := range []struct {
		word string
		want []string
	}{
		{"ecoh", []string{"echo"}},
		{"Echo", []string{"echo"}},
		{"read", []string{"files_read"}},
		{"getWeather", []string{"get_weather"}},
		{"get_waether", []string{"get_weather"}},
		{"file", []string{"token-file"}},
		{"listn", []string{"listen"}},
		{"ad", []string{"add"}},
		{"a", nil},
		{"", nil},
		{"_", nil},
		{"remove", nil},
		{strings.Repeat("x", 199), nil},
	} {
		if got := humanize.Suggest(test.word, slices.Values(names)); !slices.Equal(got, test.want) {
			t.Errorf("near %q is %q, want %q", test.word, got, test.want)
		}
	}
	if got := humanize.SuggestHint("files_rite", slices.Values([]string{"files_write", "files_rate", "a", "files_rise", "files_ride"})); got != `did you mean "files_rate" or "files_ride" or "files_rise"?` {
		t.Errorf("the hint is %s", got)
	}
	if got := humanize.SuggestHint("zebra", slices.Values(names)); got != "" {
		t.Errorf("the hint is %s", got)
	}
}
