package gatewaytest

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

// A program is built when it is first needed, once for each test binary.
type program struct {
	path string // of the package

	once sync.Once
	dir  string // where it is; "" if it was not built
	file string
	err  error
}

var (
	dragomanProgram = program{path: "github.com/dragoman-mcp/dragoman/cmd/dragoman"}
	faultProgram    = program{path: "github.com/dragoman-mcp/dragoman/tests/faultserver"}
)

// binVariable names a program that is there already, so that none is built.
const binVariable = "DRAGOMAN_BIN"

// Binary returns the path of dragoman, unless DRAGOMAN_BIN names one. It never has the race
// detector, which finds what it can find in the tests of the packages and with other
// people's clients: here are a thousand processes, each of which it would hold up. With -short
// the test is skipped.
func Binary(t testing.TB) string {
	t.Helper()
	skipShort(t)
	if path := os.Getenv(binVariable); path != "" {
		return path
	}
	return dragomanProgram.in(t)
}

// FaultServer returns the path of a fault server. With -short the test is skipped.
func FaultServer(t testing.TB) string {
	t.Helper()
	skipShort(t)
	return faultProgram.in(t)
}

func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts the whole program")
	}
}

// in returns the file of the program.
func (p *program) in(t testing.TB) string {
	t.Helper()
	p.once.Do(func() { p.err = p.build() })
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.file
}

func (p *program) build() (err error) {
	if p.dir, err = os.MkdirTemp("", "dragoman-kit-"); err != nil {
		return err
	}
	p.file = filepath.Join(p.dir, filepath.Base(p.path))
	if runtime.GOOS == "windows" {
		p.file += ".exe"
	}
	// No debugger looks at it. Without cgo, as it is given away, it starts in less time.
	cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-pgo=off", "-ldflags=-w", "-o", p.file, p.path)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("gatewaytest: %s does not build: %w\n%s", p.path, err, out)
	}
	return nil
}

// Clean removes what was built. TestMain calls it last.
func Clean() {
	for _, p := range []*program{&dragomanProgram, &faultProgram} {
		if p.dir != "" {
			_ = os.RemoveAll(p.dir)
		}
	}
}
