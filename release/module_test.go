package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestModuleOfTheSDKIsReleasedWithItsVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(read(t, "gosdk/go.mod")), 0o600); err != nil {
		t.Fatal(err)
	}
	tagged := version{number: "1.2.3"}
	both := []string{"v1.2.3", "gosdk/v1.2.3"}
	if err := checkModule(t.Context(), version{number: "1.2.3", commits: "7", commit: "abc"}, dir, nil); err != nil {
		t.Errorf("a tree without a tag: %v", err)
	}
	if err := checkModule(t.Context(), tagged, dir, both); err == nil || !strings.Contains(err.Error(), "release prepare v1.2.3") {
		t.Errorf("without the version in go.mod: %v", err)
	}
	if err := prepare(t.Context(), dir, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if err := checkModule(t.Context(), tagged, dir, both[:1]); err == nil || !strings.Contains(err.Error(), "git tag gosdk/v1.2.3") {
		t.Errorf("without a tag of its own: %v", err)
	}
	if err := checkModule(t.Context(), tagged, dir, both); err != nil {
		t.Errorf("with both: %v", err)
	}
	if text := read(t, filepath.Join(dir, "go.mod")); !strings.Contains(text, library+" v1.2.3") || !strings.Contains(text, "replace "+library+" => ../") {
		t.Errorf("go.mod is\n%s", text)
	}
	if err := prepare(t.Context(), dir, "1.2"); err == nil {
		t.Error("1.2 is a version")
	}
}
