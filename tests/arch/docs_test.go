package arch

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/anchor"
)

// markdownLink finds links in a page; what follows an exclamation mark is an image, and is checked
// as well.
var markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// markdownCode finds code, which has no links.
var markdownCode = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

func TestEveryLinkOfTheDocumentationLeadsSomewhere(t *testing.T) {
	for _, page := range documentation(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range markdownLink.FindAllSubmatch(markdownCode.ReplaceAll(text, nil), -1) {
			to := string(m[1])
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			file, heading, _ := strings.Cut(to, "#")
			at := page
			if file != "" {
				at = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, to)
			} else if heading != "" && strings.HasSuffix(at, ".md") && !anchorsOf(t, at)[heading] {
				t.Errorf("%s: %s has no heading %q", page, at, heading)
			}
		}
	}
}

func TestEveryPageIsInTheList(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range documentation(t) {
		name := filepath.Base(page)
		if filepath.Dir(page) == "docs" && name != "README.md" && !bytes.Contains(list, []byte("("+name+")")) {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// documentation returns the pages for people.
func documentation(t *testing.T) (pages []string) {
	t.Helper()
	for _, dir := range []string{".", "docs"} {
		found, err := fs.Glob(os.DirFS(dir), "*.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			pages = append(pages, filepath.Join(dir, name))
		}
	}
	return pages
}

// anchorsOf returns the names that the headings of a page have as anchors.
func anchorsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	names, headings, code := make(map[string]bool), make(anchor.Page), false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if title := strings.TrimLeft(line, "#"); !code && len(title) < len(line) {
			names[headings.Name(title)] = true
		}
	}
	return names
}
