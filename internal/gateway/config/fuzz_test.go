package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

// yamlBreaks matches what ends a line in YAML, and nowhere else.
var yamlBreaks = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// FuzzLoad looks for panics and for places that are not in the file.
func FuzzLoad(f *testing.F) {
	extensions := []string{"", ".yaml", ".json", ".toml"}
	for _, pattern := range []string{"testdata/bad/*", "testdata/hosts/*", "testdata/hosts/project/*/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			if data, err := os.ReadFile(path); err == nil && !strings.HasSuffix(path, ".golden") {
				f.Add(data, uint8(max(0, slices.Index(extensions, filepath.Ext(path)))))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, ext uint8) {
		if bytes.Contains(bytes.ToLower(data), []byte("file")) {
			return // it must not read other files
		}
		path := filepath.Join(t.TempDir(), "a"+extensions[int(ext)%len(extensions)])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return
		}
		file, report := config.Load(testOptions, path)
		text := strings.TrimPrefix(string(data), "\ufeff")
		inside := func(p config.Problem, lines []string) bool {
			return p.Line >= 1 && p.Line <= len(lines) && p.Column >= 1 && p.Column <= utf8.RuneCountInString(lines[p.Line-1])+1
		}
		for _, p := range append(report.Errors, report.Warnings...) {
			if !inside(p, strings.Split(text, "\n")) && !inside(p, yamlBreaks.Split(text, -1)) {
				t.Fatalf("%d:%d is not in the file: %s", p.Line, p.Column, p)
			}
			if strings.ContainsAny(p.String(), "\x00\x1b\r") || !utf8.ValidString(p.String()) {
				t.Fatalf("not fit for a terminal: %q", p.String())
			}
		}
		for _, name := range file.Names {
			if file.Servers[name] == nil || file.Servers[name].Name != name {
				t.Fatalf("%q is named and missing", name)
			}
		}
	})
}
