package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

func TestToolsPromptsAndResourcesAreOfferedByPattern(t *testing.T) {
	for _, test := range []struct {
		include, exclude string
		yes, no          string
	}{
		{"", "", "a b/c", ""},
		{"a", "", "a", "b ab"},
		{"a*", "", "a ab a/b", "b ba"},
		{"*a*b", "", "ab xaxxb aabb", "a b ba abc"},
		{"?é?", "", "xéy ééé", "é xé xey"},
		{"[a]", "", "[a]", "a"},
		{"a b", "b", "a", "b c"},
		{"", "*", "", "a b"},
		{"**", "delete*", "a", "delete delete_all"},
	} {
		tools := config.Tools{Include: strings.Fields(test.include), Exclude: strings.Fields(test.exclude)}
		prompts, resources := config.Prompts{Include: tools.Include, Exclude: tools.Exclude}, config.Resources{Include: tools.Include, Exclude: tools.Exclude}
		for _, offers := range []func(string) bool{tools.Offers, prompts.Offers, resources.Offers} {
			for _, name := range strings.Fields(test.yes) {
				if !offers(name) {
					t.Errorf("%v does not offer %s", tools, name)
				}
			}
			for _, name := range strings.Fields(test.no) {
				if offers(name) {
					t.Errorf("%v offers %s", tools, name)
				}
			}
		}
	}
}

func TestHardPatternTakesNoTime(t *testing.T) {
	tools := config.Tools{Include: []string{strings.Repeat("*a", 50) + "b"}}
	start := time.Now()
	if tools.Offers(strings.Repeat("a", 2000)) {
		t.Error("offered")
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestC06_UnknownTransportIsAClearError(t *testing.T) {
	f, report := config.Load(nil, write(t, "a.yaml", "mcpServers:\n  a: {url: \"https://example.com\", transport: htpt}\n  b: {command: x}\n"))
	if text := report.Error(); len(report.Errors) != 1 || !strings.Contains(text, `transport: "htpt" is unknown here`) || !strings.Contains(text, `did you mean "http"?`) {
		t.Error(text)
	}
	if f.Servers["a"] != nil || f.Servers["b"] == nil {
		t.Errorf("%v: the one without an error is used, and only that", f.Names)
	}
}

func TestA31_RequestTimeoutMsIsTheTimeout(t *testing.T) {
	f, _ := load(t, write(t, "a.yaml", "mcpServers:\n  a: {url: \"https://example.com\", requestTimeoutMs: 1500}\n"))
	if got := f.Servers["a"].Timeout; got != 1500*time.Millisecond {
		t.Error(got)
	}
}
