//go:build npm

package interop_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestNpmServerIsProbedAndChecked(t *testing.T) {
	t.Parallel()
	server := append([]string{"--", npmServer(t).Path}, npmServer(t).Args...)
	probed(t, server, "works", 4)
	checked(t, server, "log-level") // it answers with another code
}

func TestPipServersAreProbedAndChecked(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("py", "fastmcp4.py"))
	if err != nil {
		t.Fatal(err)
	}
	server := []string{"--", python(t), script}
	probed(t, server, "works", 5)
	checked(t, server, "tool-description")
	url := serve(t, exec.Command(python(t), filepath.Join("py", "server.py")), `http://[0-9.:]+`)
	probed(t, []string{url + "/mcp"}, "works", 5)
	checked(t, []string{url + "/mcp"}, "tool-description")
}
