package config_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

var update = flag.Bool("update", false, "write what is expected again")

// environment is what the files in testdata refer to.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"API_TOKEN": "canary-token", "USER_NAME": "ada", "DRAGOMAN_INPUT_API_KEY": "canary-input", "EMPTY": "",
	}[name]
	return value, ok
}

var testOptions = &config.Options{LookupEnv: environment}

// Each file in testdata/hosts has the keys that its host documents; what becomes of
// them stands beside it. "dot-" stands for the dot of a hidden file.
func TestC01_C02_C04_C05_FilesOfHostsAreReadAsTheyAre(t *testing.T) {
	from, err := filepath.Abs("testdata/hosts")
	if err != nil {
		t.Fatal(err)
	}
	hidden := strings.NewReplacer("dot-", ".")
	dir := t.TempDir()
	t.Chdir(dir)
	var files []string
	err = fs.WalkDir(os.DirFS(from), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".golden") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(from, path))
		if err != nil {
			return err
		}
		to := hidden.Replace(path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if !strings.HasSuffix(path, "env") && !strings.HasSuffix(path, ".txt") {
			files = append(files, path)
		}
		return os.WriteFile(to, data, 0o644)
	})
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, path := range files {
		t.Run(hidden.Replace(path), func(t *testing.T) {
			f, report := config.Load(testOptions, hidden.Replace(path))
			got := dump(t, f) + report.Error() + "\n"
			golden(t, filepath.Join(from, path)+".golden", strings.ReplaceAll(got, dir, "$DIR"))
		})
	}
}

func TestKeysOfAHostThatMeanTheSameAreJoined(t *testing.T) {
	f, _ := load(t, write(t, "a.json", `{"mcpServers": {
		"a": {"command": ["x", "y"], "args": ["z"], "env": {"A": "1"}, "environment": {"B": "2", "C": null}, "enabledTools": ["p"], "tools": ["q"], "disabledTools": ["r"]},
		"b": {"bearer_token_env_var": "API_TOKEN", "env_http_headers": {"X-User": "USER_NAME", "X-A": "USER_NAME"}, "http_headers": {"X-A": "b"}, "url": "https://example.com"}}}`))
	a, b := f.Servers["a"], f.Servers["b"]
	if got := line(a.Args, a.Env, a.Tools.Include, a.Tools.Exclude); got != "[y z] map[A:1 B:2] [p q] [r]" {
		t.Error(got)
	}
	if got := line(b.Headers); got != "map[Authorization:Bearer canary-token X-A:b X-User:ada]" {
		t.Error(got)
	}
}

func TestKeysOfAHostThatContradictEachOtherAreReported(t *testing.T) {
	f, report := config.Load(testOptions, write(t, "a.json", `{"mcpServers": {"a": {"url": "https://example.com", "httpUrl": {}}, "b": {"command": "x"}}}`))
	if len(report.Errors) != 1 || report.Errors[0].Message != "servers.a.url is text already" || report.Errors[0].Server != "a" {
		t.Error(report)
	}
	if f.Servers["a"] != nil || f.Servers["b"] == nil {
		t.Error(f.Names)
	}
}

// A name that we cannot use becomes another one, which must not be somebody else's.
func TestRenamedServerTakesNobodysPlace(t *testing.T) {
	for _, order := range []string{`"a b": {"command": "x"}, "a-b": {"command": "y"}`, `"a-b": {"command": "y"}, "a b": {"command": "x"}`} {
		f, report := config.Load(testOptions, write(t, "a.json", `{"mcpServers": {`+order+`}}`))
		if len(report.Errors) != 1 || !strings.Contains(report.Error(), `"a b" would be called "a-b" here, as another server is`) {
			t.Error(report)
		}
		if s := f.Servers["a-b"]; s == nil || s.Command != "y" {
			t.Errorf("%s: %v", order, s)
		}
	}
}

func TestGeminiAllowsServersByTheirNamesInTheFile(t *testing.T) {
	f, _ := load(t, write(t, "a.json", `{"mcp": {"allowed": ["a b"]}, "mcpServers": {"a b": {"command": "x", "trust": true}, "c": {"command": "y"}}}`))
	if f.Servers["a-b"].Disabled || !f.Servers["c"].Disabled {
		t.Errorf("%+v", f.Servers)
	}
	_, report := config.Load(testOptions, write(t, "a.json", `{"mcp": {"excluded": "a"}, "mcpServers": {"a": {"command": "x", "trust": true}}}`))
	if report.Err() == nil || !strings.Contains(report.Error(), `mcp.excluded: a list is expected, not "a"`) {
		t.Error(report)
	}
}

// golden compares with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// dump writes what is not zero in the servers.
func dump(t *testing.T, f *config.File) string {
	t.Helper()
	var b strings.Builder
	for _, name := range f.Names {
		s := f.Servers[name]
		fmt.Fprintf(&b, "%s: %s %s\n", name, s.ResolvedTransport(), s.Location())
		v := reflect.ValueOf(s).Elem()
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Name != "Name" && field.Name != "Program" && !v.Field(i).IsZero() {
				fmt.Fprintf(&b, "  %s: %+v\n", field.Name, v.Field(i).Interface())
			}
		}
	}
	for _, l := range f.Listen {
		fmt.Fprintf(&b, "listen %s\n", l.Address)
	}
	return b.String()
}
