package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// A bill lists what a program is made of: CycloneDX 1.5, as much of it as is known. It
// holds no time and no number of its own, so that equal programs have equal bills.
type bill struct {
	Format     string      `json:"bomFormat"`
	Version    string      `json:"specVersion"`
	Revision   int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

// A component is one module.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// billOf returns the bill of a program, as JSON.
func billOf(ctx context.Context, program string) ([]byte, error) {
	b, err := partsOf(ctx, program)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	err = e.Encode(b)
	return text.Bytes(), err
}

// partsOf reads what Go has written into a program when it was built, and looks up the
// licences of the modules where Go keeps them.
func partsOf(ctx context.Context, program string) (*bill, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("what is in the program cannot be told: %w", err)
	}
	b := &bill{Format: "CycloneDX", Version: "1.5", Revision: 1}
	b.Metadata.Component = module("application", &info.Main)
	set(&b.Metadata.Component, "go:toolchain", info.GoVersion)
	dirs, err := moduleDirs(ctx)
	if err != nil {
		return nil, err
	}
	own, err := licenceIn(".")
	if err != nil {
		return nil, err
	}
	b.Metadata.Component.Licenses = own
	std := component{Type: "library", Ref: "std", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	std.Licenses = []license{licensed("BSD-3-Clause")}
	b.Components = append(b.Components, std)
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		c := module("library", dep)
		set(&c, "go:sum", dep.Sum)
		if c.Licenses, err = licenceIn(dirs[dep.Path]); err != nil {
			return nil, fmt.Errorf("%s: %w", dep.Path, err)
		}
		b.Components = append(b.Components, c)
	}
	return b, nil
}

func module(kind string, m *debug.Module) component {
	c := component{Type: kind, Ref: m.Path, Name: m.Path, Version: m.Version}
	if m.Version != "" && m.Version != "(devel)" {
		c.Ref += "@" + m.Version
		c.PURL = "pkg:golang/" + m.Path + "@" + m.Version
	}
	return c
}

func set(c *component, name, value string) {
	if value != "" {
		c.Properties = append(c.Properties, property{name, value})
	}
}

// moduleDirs returns where the modules lie that this one needs.
func moduleDirs(ctx context.Context) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-json", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	dirs := map[string]string{}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Dir string }
		switch err := list.Decode(&m); {
		case errors.Is(err, io.EOF):
			return dirs, nil
		case err != nil:
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
}

// licenceIn tells the licence of what is in a directory by the text of its file.
func licenceIn(dir string) ([]license, error) {
	text, err := licenceText(dir)
	if err != nil {
		return nil, err
	}
	if list := licencesOf(text); len(list) > 0 {
		return list, nil
	}
	return nil, errors.New("its licence is none that is known")
}

// licenceText returns the file with the licence of what is in a directory.
func licenceText(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("it is not in the module cache; run go mod download")
	}
	for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING", "LICENCE"} {
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // of modules that we use
		if err == nil {
			return string(text), nil
		}
	}
	return "", errors.New("it has no file with its licence")
}

// noticesOf returns the licences of all that a program is made of but ourselves, which go
// with it wherever it goes.
func noticesOf(ctx context.Context, program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("what is in the program cannot be told: %w", err)
	}
	dirs, err := moduleDirs(ctx)
	if err != nil {
		return nil, err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	// The name has no version of Go: the text is that of all of them.
	dirs["Go"] = strings.TrimSpace(string(root))
	parts := []*debug.Module{{Path: "Go"}}
	var out bytes.Buffer
	for _, m := range append(parts, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		text, err := licenceText(dirs[m.Path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		fmt.Fprintf(&out, "%s\n%s\n\n%s\n\n", strings.TrimSpace(m.Path+" "+m.Version), strings.Repeat("=", 80), strings.TrimSpace(text))
	}
	return out.Bytes(), nil
}

// licencesOf knows permissive licences by their words, and no others.
func licencesOf(text string) (list []license) {
	text = strings.Join(strings.Fields(text), " ")
	for _, copyleft := range []string{"GNU GENERAL PUBLIC", "GNU LESSER", "GNU AFFERO", "Mozilla Public License"} {
		if strings.Contains(text, copyleft) {
			return nil
		}
	}
	if strings.Contains(text, "Permission is hereby granted, free of charge") {
		list = append(list, licensed("MIT"))
	}
	if strings.Contains(text, "Permission to use, copy, modify, and") && strings.Contains(text, "distribute this software for any purpose") {
		list = append(list, licensed("ISC"))
	}
	if strings.Contains(text, "Apache License") && strings.Contains(text, "ersion 2.0") {
		list = append(list, licensed("Apache-2.0"))
	}
	if strings.Contains(text, "Redistribution and use in source and binary forms") {
		if strings.Contains(text, "Neither the name") {
			list = append(list, licensed("BSD-3-Clause"))
		} else {
			list = append(list, licensed("BSD-2-Clause"))
		}
	}
	return list
}

func licensed(id string) (l license) {
	l.License.ID = id
	return l
}
