package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	status := m.Run()
	gatewaytest.Clean()
	_ = os.RemoveAll(made.dir)
	os.Exit(status)
}

// mostParts is how many modules of others the program may be made of, with those that they
// need. Each one more is a decision.
const mostParts = 12

// TestS60_PartsAreListedWithPermissiveLicences makes a bill of the real program.
func TestS60_PartsAreListedWithPermissiveLicences(t *testing.T) {
	b, err := partsOf(t.Context(), gatewaytest.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var again struct {
		BomFormat, SpecVersion string
		Components             []struct {
			Name, Version, Purl string
			Licenses            []struct{ License struct{ ID string } }
			Properties          []struct{ Name, Value string }
		}
	}
	if err := json.Unmarshal(text, &again); err != nil || again.BomFormat != "CycloneDX" || again.SpecVersion != "1.5" {
		t.Fatalf("the bill is %s, %v", text, err)
	}
	var names []string
	for _, c := range again.Components {
		names = append(names, c.Name)
		if c.Version == "" || !strings.HasPrefix(c.Purl, "pkg:golang/"+c.Name+"@") || len(c.Licenses) == 0 {
			t.Errorf("what is known of a part is %+v", c)
		}
		if c.Name != "std" && (len(c.Properties) != 1 || !strings.HasPrefix(c.Properties[0].Value, "h1:")) {
			t.Errorf("%s has no sum: %+v", c.Name, c.Properties)
		}
	}
	for _, part := range []string{"std", "github.com/spf13/cobra", "github.com/coder/websocket", "go.yaml.in/yaml/v3"} {
		if !slices.Contains(names, part) {
			t.Errorf("%s is not among %q", part, names)
		}
	}
	if len(names) > mostParts {
		t.Errorf("there are %d parts, more than %d: %q", len(names), mostParts, names)
	}
}

// TestS60_SumsOfModulesAreRight compares the modules in the cache with go.sum.
func TestS60_SumsOfModulesAreRight(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "mod", "verify").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("all modules verified")) {
		t.Errorf("go mod verify: %v\n%s", err, out)
	}
}

// TestS60_TwoBuildsAreTheSame builds the program in two directories.
func TestS60_TwoBuildsAreTheSame(t *testing.T) {
	if os.Getenv(gatewaytest.StrictVariable) == "" {
		t.Skip("it takes a while: make scorecard and make same do it")
	}
	if _, err := buildTwice(t.Context(), "."); err != nil {
		t.Error(err)
	}
}

func TestLicencesAreKnownByTheirWords(t *testing.T) {
	for text, want := range map[string]string{
		"Permission is hereby granted, free\nof charge, to any person":           "MIT",
		"Apache License\n  Version 2.0, January 2004":                            "Apache-2.0",
		"Redistribution and use in source and binary forms, Neither the name of": "BSD-3-Clause",
		"Redistribution and use in source and binary forms":                      "BSD-2-Clause",
		"GNU GENERAL PUBLIC LICENSE":                                             "",
		"Permission is hereby granted, free of charge, GNU LESSER GENERAL":       "",
		"All rights reserved.":                                                   "",
	} {
		got := ""
		for _, l := range licencesOf(text) {
			got += l.License.ID
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestPartsOfWhatIsNoProgramAreNotToldOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := partsOf(t.Context(), file); err == nil {
		t.Error("a text has parts")
	}
}
