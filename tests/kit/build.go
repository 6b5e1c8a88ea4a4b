package kit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// built is the program, which is built when it is first needed.
var built struct {
	once sync.Once
	path string
	err  error
}

// binVariable names a program that is there already, so that none is built.
const binVariable = "DRAGOMAN_BIN"

// Binary returns the path of the program. It is built once for each test binary,
// with the race detector if that has it, unless DRAGOMAN_BIN names one.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(binVariable); path != "" {
		return path
	}
	built.once.Do(func() { built.path, built.err = build() })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "dragoman-kit-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "dragoman")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	args := []string{"build", "-buildvcs=false", "-pgo=off", "-ldflags=-w", "-o", path} // no debugger looks at it
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(context.Background(), "go", append(args, "github.com/dragoman-mcp/dragoman/cmd/dragoman")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("kit: the program does not build: %w\n%s", err, out)
	}
	return path, nil
}

// Clean removes what Binary built. TestMain calls it last.
func Clean() {
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
}
