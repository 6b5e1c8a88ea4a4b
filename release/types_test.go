package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypesAreCheckedForEachPlatform has a module that compiles on Linux alone: its other
// files, and its tests, have an error each.
func TestTypesAreCheckedForEachPlatform(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26\n",
		"m.go":             "package m\n\nimport \"os\"\n\nfunc F() int { return len(os.Args) + g() }\n",
		"g_linux.go":       "package m\n\nfunc g() int { return 1 }\n",
		"g_windows.go":     "package m\n\nimport \"syscall\"\n\nfunc g() int { return syscall.Getuid(1) }\n",
		"m_test.go":        "package m\n\nfunc h() int { return F() }\n",
		"x_test.go":        "package m_test\n\nimport \"example.com/m\"\n\nvar _ = m.F()\n",
		"g_darwin.go":      "package m\n\nfunc g() int { return 1 }\n",
		"h_darwin_test.go": "package m\n\nfunc i() { unused := h() }\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"linux/amd64":   "",
		"darwin/arm64":  "declared and not used: unused",
		"windows/amd64": "too many arguments in call to syscall.Getuid",
	} {
		p, err := platformNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		err = checkTypes(t.Context(), root, p)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
