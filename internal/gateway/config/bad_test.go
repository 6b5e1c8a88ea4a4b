package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

// Each file in testdata/bad has mistakes; what is said about them stands beside it.
func TestMistakesAreReportedAllAtOnceWithTheirPlaces(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, path := range files {
		if strings.HasSuffix(path, ".golden") {
			continue
		}
		ran++
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir, err := filepath.Abs(".")
			if err != nil {
				t.Fatal(err)
			}
			f, report := config.Load(testOptions, filepath.ToSlash(path))
			if report.Err() == nil {
				t.Error("there are no errors")
			}
			got := strings.ReplaceAll(report.Error()+"\n", dir, "$DIR")
			if i := strings.Index(got, "canary"); i >= 0 {
				t.Errorf("a secret is shown: %s", got[max(0, i-80):min(len(got), i+40)])
			}
			for _, p := range report.Errors {
				if p.Server != "" && f.Servers[p.Server] != nil {
					t.Errorf("the server %s has an error and is used", p.Server)
				}
			}
			golden(t, path+".golden", got)
		})
	}
	if ran < 15 {
		t.Errorf("%d files", ran)
	}
}
