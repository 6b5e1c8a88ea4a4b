package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/config"
)

func TestReferenceIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "config.md")
	if *update {
		if err := os.WriteFile(path, config.Reference(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, config.Reference()) {
		t.Errorf("%s is not what the structs say: go test ./config -run Reference -update", path)
	}
}

// The schema and the reader know the same keys.
func TestSchemaHasTheKeysThatAreRead(t *testing.T) {
	var schema struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"listen", "servers", "groups", "state", "log", "limits", "audit", "mcpServers", "$schema"} {
		if schema.Properties[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	for name := range schema.Defs["server"].Properties {
		// null is left out, so any known key may be null.
		if _, report := config.Load(nil, write(t, "a.yaml", "servers: {a: {command: x, "+name+"x: 1}}")); report.Err() == nil {
			t.Errorf("%sx is read", name)
		}
		text := "servers:\n  a:\n    " + name + ":\n"
		if name != "command" {
			text += "    command: x\n"
		}
		_, report := config.Load(nil, write(t, "a.yaml", text))
		for _, p := range report.Errors {
			if bytes.Contains([]byte(p.Message), []byte("unknown key")) {
				t.Errorf("%s: %v", name, p)
			}
		}
	}
	if len(schema.Defs["server"].Properties) < 25 {
		t.Errorf("a server has %d keys", len(schema.Defs["server"].Properties))
	}
}

func TestExampleOfTheReferenceIsRight(t *testing.T) {
	_, rest, _ := strings.Cut(string(config.Reference()), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is none")
	}
	env := func(name string) (string, bool) { return "x", name == "HOME" || name == "SEARCH_TOKEN" }
	f, report := config.Load(&config.Options{LookupEnv: env}, write(t, "dragoman.yaml", example))
	if text := report.Error(); text != "" || len(f.Names) != 2 || len(f.Groups["all"].Servers) != 2 {
		t.Errorf("%v: %s", f.Names, text)
	}
}
