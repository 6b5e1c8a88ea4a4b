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

	"github.com/dragoman-mcp/dragoman/config"
)

var update = flag.Bool("update", false, "write what is expected anew")

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
		fmt.Fprintf(&b, "%s: %s %s\n", name, s.How(), s.Where())
		v := reflect.ValueOf(s).Elem()
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Name != "Name" && !v.Field(i).IsZero() {
				fmt.Fprintf(&b, "  %s: %+v\n", field.Name, v.Field(i).Interface())
			}
		}
	}
	for _, l := range f.Listen {
		fmt.Fprintf(&b, "listen %s\n", l.Address)
	}
	return b.String()
}
