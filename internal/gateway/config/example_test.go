package config_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "dragoman.yaml")
	text := "servers:\n  files:\n    command: npx\n    args: [-y, server]\n    timeout: 30\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	_, report := config.Load(nil, path)
	for _, p := range report.Errors {
		fmt.Printf("%d:%d %s\n%s\n%s\n", p.Line, p.Column, p.Message, p.Excerpt, p.Hint)
	}
	// Output:
	// 5:14 servers.files.timeout: 30 has no unit
	//     5 |     timeout: 30
	//       |              ^
	// write 30s or 30ms
}
