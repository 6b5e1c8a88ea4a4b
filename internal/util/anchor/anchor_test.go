package anchor_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/anchor"
)

func TestHeadingsHaveTheNamesThatLinksUse(t *testing.T) {
	page := make(anchor.Page)
	for _, test := range [][2]string{
		{" What it is, and why", "what-it-is-and-why"},
		{"`dragoman run` (HTTP)", "dragoman-run-http"},
		{"Über_2-mal", "über_2-mal"},
		{"Options", "options"},
		{"Options", "options-1"},
		{"options", "options-2"},
	} {
		if got := page.Name(test[0]); got != test[1] {
			t.Errorf("%q is %q, want %q", test[0], got, test[1])
		}
	}
}
