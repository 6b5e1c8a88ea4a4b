package oauth

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// BrowserVariable names the environment variable with the program that opens pages.
const BrowserVariable = "BROWSER"

// HasBrowser reports whether there is a program that OpenBrowser can start, and somebody
// who would see what it opens.
func HasBrowser() bool {
	if runtime.GOOS == "linux" && os.Getenv(BrowserVariable) == "" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	_, err := browser()
	return err == nil
}

// OpenBrowser shows a page to the user. It takes an https URL, or an http URL of this
// machine, and hands it to a program as one argument; no shell sees it.
func OpenBrowser(page string) error {
	u, err := oidc.CheckURL(page)
	if err != nil {
		return fmt.Errorf("oauth: the page is not opened: %w", err)
	}
	command, err := browser()
	if err != nil {
		return err
	}
	c := exec.Command(command[0], append(command[1:], u.String())...)
	if err := c.Start(); err != nil {
		return fmt.Errorf("oauth: the browser cannot be started: %w", err)
	}
	go func() { _ = c.Wait() }() // ends with the program, which may continue for as long as its window
	return nil
}

// browser returns the command that opens a page, which is its last argument.
func browser() ([]string, error) {
	if first, _, _ := strings.Cut(os.Getenv(BrowserVariable), string(os.PathListSeparator)); first != "" {
		command := strings.Fields(strings.ReplaceAll(first, "%s", ""))
		if len(command) > 0 {
			return command, nil
		}
	}
	switch runtime.GOOS {
	case "darwin":
		return []string{"/usr/bin/open"}, nil
	case "windows":
		return []string{"rundll32.exe", "url.dll,FileProtocolHandler"}, nil
	}
	for _, name := range []string{"xdg-open", "wslview", "sensible-browser", "x-www-browser", "chromium", "firefox"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}, nil
		}
	}
	return nil, errors.New("oauth: there is no browser here; set BROWSER to a program that opens pages")
}
