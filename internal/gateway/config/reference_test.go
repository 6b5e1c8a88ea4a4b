package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

func TestReferenceIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "config.md")
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
		t.Errorf("%s is not what the structs say: go test ./internal/gateway/config -run Reference -update", path)
	}
}

func TestLimitsPageIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "limits.md")
	if *update {
		if err := os.WriteFile(path, config.LimitsReference(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, config.LimitsReference()) {
		t.Errorf("%s is not what the structs say: go test ./internal/gateway/config -run Limits -update", path)
	}
}

// Every key that is a number, a size, a time or a rate is a limit, and says what happens
// there, or is named here.
func TestKeysThatBoundSomethingAreAmongTheLimits(t *testing.T) {
	noLimits := []string{
		"Server.Pool",             // how many are kept open is no bound
		"ServerAuth.CallbackPort", // a name
	}
	kinds := []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[config.Size](), reflect.TypeFor[time.Duration](), reflect.TypeFor[limit.Rate](), reflect.TypeFor[map[string]time.Duration]()}
	seen := 0
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for _, f := range reflect.VisibleFields(typ) {
			name := typ.Name() + "." + f.Name
			switch isLimit := f.Tag.Get("limit") != ""; {
			case f.Tag.Get("key") == "":
			case slices.Contains(kinds, f.Type) && !isLimit && !slices.Contains(noLimits, name):
				t.Errorf("%s has no tag limit, which says what happens at the limit", name)
			case isLimit && !slices.Contains(kinds, f.Type):
				t.Errorf("%s has a tag limit and is a %v", name, f.Type)
			case isLimit:
				seen++
			default:
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[config.File]())
	if seen < 30 {
		t.Errorf("%d limits were found", seen)
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

func TestExampleOfTheLimitsIsRight(t *testing.T) {
	_, rest, _ := strings.Cut(string(config.LimitsReference()), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	f, report := config.Load(nil, write(t, "dragoman.yaml", example))
	if text := report.Error(); !ok || text != "" || len(f.Servers["search"].Tools.Limits) != 2 || f.Limits.RatePerCaller.String() != "50/s" {
		t.Errorf("%+v: %s", f.Limits, text)
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
