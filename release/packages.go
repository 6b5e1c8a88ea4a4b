package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// pinned is the module with the programs that a release needs besides Go.
const pinned = "tools/packages"

// A packageFile is a file of a package for Linux.
type packageFile struct {
	Source      string         `json:"src"`
	Destination string         `json:"dst"`
	Type        string         `json:"type,omitempty"`
	Packager    string         `json:"packager,omitempty"` // if it is for one kind alone
	Info        map[string]any `json:"file_info"`
}

// packages makes deb and rpm packages, by nfpm. They start nothing by themselves.
func (r *release) packages(ctx context.Context, b *build, texts []entry) error {
	dir := filepath.Join(r.work, "packages-"+b.arch)
	licences, err := b.licences()
	if err != nil {
		return err
	}
	tree := append([]entry{{name: programName, text: b.program}}, append(licences, texts...)...)
	for _, name := range []string{"dragoman.service", "dragoman.yaml"} {
		e, err := fromTree("deploy/systemd/"+name, name)
		if err != nil {
			return err
		}
		tree = append(tree, e)
	}
	settings, err := json.MarshalIndent(map[string]any{ // which is YAML, too
		"name": programName, "arch": b.arch, "platform": b.os, "version": r.version.String(), "version_schema": "semver", "release": "1",
		"section": "net", "priority": "optional", "maintainer": "The Dragoman authors <" + homepage + ">",
		"description": summary, "homepage": homepage, "license": licenceID, "mtime": r.time,
		"rpm":      map[string]any{"buildhost": "localhost", "compression": "gzip"},
		"deb":      map[string]any{"compression": "gzip"},
		"contents": r.contents(dir, texts),
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := unpack(dir, append(tree, entry{name: "nfpm.yaml", text: settings})); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		name := r.archiveName(b.platform) + "." + kind
		target := filepath.Join(dir, name)
		if _, err := r.tool(ctx, "tool", "-modfile="+pinned+"/go.mod", "nfpm", "package", "--config", filepath.Join(dir, "nfpm.yaml"), "--packager", kind, "--target", target); err != nil {
			return err
		}
		text, err := os.ReadFile(target) //nolint:gosec // what was made
		if err != nil {
			return err
		}
		if err := r.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// contents says where the files in dir belong on a system.
func (r *release) contents(dir string, texts []entry) (list []packageFile) {
	add := func(source, destination, kind, packager string, mode int) {
		list = append(list, packageFile{
			Source: filepath.Join(dir, source), Destination: destination, Type: kind, Packager: packager,
			Info: map[string]any{"mode": mode, "mtime": r.time},
		})
	}
	add(programName, "/usr/bin/dragoman", "", "", 0o755)
	add("dragoman.service", "/usr/lib/systemd/system/dragoman.service", "", "", 0o644)
	add("dragoman.yaml", "/etc/dragoman/dragoman.yaml", "config|noreplace", "", 0o644)
	add("LICENSE", "/usr/share/doc/dragoman/copyright", "", "deb", 0o644)
	add("LICENSE", "/usr/share/licenses/dragoman/LICENSE", "", "rpm", 0o644)
	add("THIRD-PARTY-LICENSES", "/usr/share/doc/dragoman/THIRD-PARTY-LICENSES", "", "", 0o644)
	add("completions/dragoman.bash", "/usr/share/bash-completion/completions/dragoman", "", "", 0o644)
	add("completions/dragoman.fish", "/usr/share/fish/vendor_completions.d/dragoman.fish", "", "", 0o644)
	add("completions/_dragoman", "/usr/share/zsh/vendor-completions/_dragoman", "", "deb", 0o644)
	add("completions/_dragoman", "/usr/share/zsh/site-functions/_dragoman", "", "rpm", 0o644)
	for _, e := range texts {
		if page, ok := strings.CutPrefix(e.name, manual); ok {
			add(e.name, "/usr/share/man/man1/"+page, "", "", 0o644)
		}
	}
	return list
}

// unpack writes files below a directory.
func unpack(dir string, list []entry) error {
	for _, e := range list {
		path := filepath.Join(dir, filepath.FromSlash(e.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, e.text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// tool runs the go command for what is pinned, and returns what it prints.
func (r *release) tool(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10))
	out, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s%s", err, out, exit.Stderr)
		}
		return nil, fmt.Errorf("go %v: %w", args, err)
	}
	return out, nil
}
