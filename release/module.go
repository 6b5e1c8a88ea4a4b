package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// The module for the official Go SDK is a module of its own in the same tree. Who fetches it gets the
// library at the version that its go.mod names: the replacement there holds in this tree alone. So
// each release writes its version there, and has two tags on one commit.
const (
	sdkModule = "gosdk"
	library   = "github.com/dragoman-mcp/dragoman"
)

// prepare writes the version of the library into the go.mod of the module, before the commit of a release.
func prepare(ctx context.Context, dir, tag string) error {
	if !tagForm.MatchString(tag) {
		return fmt.Errorf("%s is no version: write it as v1.2.3 or v1.2.3-rc.1", tag)
	}
	_, err := goMod(ctx, dir, "-require="+library+"@"+tag)
	return err
}

// checkModule returns why a tree that is tagged cannot be released: who fetches the module would not get
// it, or not with this version of the library.
func checkModule(ctx context.Context, v version, dir string, tags []string) error {
	if v.commits != "" || v.dirty {
		return nil // nothing to fetch
	}
	tag := "v" + v.String()
	text, err := goMod(ctx, dir, "-json")
	if err != nil {
		return err
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	for _, r := range file.Require {
		if r.Path == library && r.Version != tag {
			return fmt.Errorf("%s/go.mod wants the library at %s: run go run ./release prepare %s, and commit and tag that", sdkModule, r.Version, tag)
		}
	}
	if !slices.Contains(tags, sdkModule+"/"+tag) {
		return fmt.Errorf("the module %s has no version: run git tag %s/%s, and push it with %s", sdkModule, sdkModule, tag, tag)
	}
	return nil
}

// tagsHere returns the tags of this commit, none if there is no history.
func tagsHere(ctx context.Context) []string {
	text, err := git(ctx, "tag", "--points-at", "HEAD")
	if err != nil {
		return nil
	}
	return strings.Fields(text)
}

// goMod edits or prints the go.mod of a directory.
func goMod(ctx context.Context, dir, flag string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "edit", flag) //nolint:gosec // our own
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod edit in %s: %w", dir, err)
	}
	return out, nil
}
