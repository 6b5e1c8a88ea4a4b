package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// buildTwice builds the program of a module in two copies of it, and returns the sum of
// what came of it. It is an error if the two differ.
func buildTwice(ctx context.Context, root string) (sum string, err error) {
	dir, err := os.MkdirTemp("", "dragoman-same-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var sums [2]string
	// Names of different lengths: a path that is kept somewhere moves what is behind it.
	for i, name := range []string{"a", "another-directory/below"} {
		place := filepath.Join(dir, filepath.FromSlash(name))
		if err := copySources(root, place); err != nil {
			return "", err
		}
		program := filepath.Join(place, "dragoman.out")
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-pgo=auto", "-ldflags=-s -w", "-o", program, "./cmd/dragoman") //nolint:gosec // our own
		cmd.Dir = place
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("the build in %s: %w\n%s", place, err, out)
		}
		text, err := os.ReadFile(program) //nolint:gosec // what was built
		if err != nil {
			return "", err
		}
		s := sha256.Sum256(text)
		sums[i] = hex.EncodeToString(s[:])
	}
	if sums[0] != sums[1] {
		return "", fmt.Errorf("two builds differ: %s and %s", sums[0], sums[1])
	}
	return sums[0], nil
}

// copySources copies what a build needs: all but tests and other modules.
func copySources(root, to string) error {
	tree := os.DirFS(root)
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, other := fs.Stat(tree, path.Join(name, "go.mod"))
			if name != "." && (other == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist" || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, filepath.FromSlash(name)), 0o700)
		}
		if !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, filepath.FromSlash(name)), text, 0o600)
	})
}
