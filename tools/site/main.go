// Command site makes a static site of the documentation, with search:
//
//	site ROOT DIRECTORY
//
// docs/README.md says which pages there are, in which order. The site asks nobody else for
// anything.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/anchor"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// source is where files are that are no pages.
const source = "https://github.com/dragoman-mcp/dragoman/blob/main/"

//go:embed page.html
var pageHTML string

//go:embed search.js
var searchJS []byte

//go:embed style.css
var styleCSS []byte

// A page is a file of the documentation.
type page struct {
	File  string // from the root
	Name  string // of the page on the site
	Title string
}

// A section is what search finds.
type section struct {
	Page  string `json:"p"`
	At    string `json:"a"` // its anchor
	Title string `json:"t"`
	Text  string `json:"x"`
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: site ROOT DIRECTORY")
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// group is a part of the menu.
type group struct {
	Title string
	Pages []page
}

// build writes the site of the documentation below root.
func build(root, to string) error {
	menu, err := readMenu(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	layout, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	names := make(map[string]string)
	for _, g := range menu {
		for _, p := range g.Pages {
			names[p.File] = p.Name
		}
	}
	var sections []section
	for _, g := range menu {
		for _, p := range g.Pages {
			body, found, err := render(root, &p, names)
			if err != nil {
				return fmt.Errorf("%s: %w", p.File, err)
			}
			sections = append(sections, found...)
			var out bytes.Buffer
			if err := layout.Execute(&out, map[string]any{"Menu": menu, "Page": p, "Body": template.HTML(body)}); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, p.Name), out.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	index, err := json.Marshal(sections)
	if err != nil {
		return err
	}
	return errors.Join(
		copyPictures(filepath.Join(root, "docs", pictures), filepath.Join(to, pictures)),
		os.WriteFile(filepath.Join(to, "search.js"), append(append([]byte("const sections = "), index...), append([]byte(";\n"), searchJS...)...), 0o644),
		os.WriteFile(filepath.Join(to, "style.css"), styleCSS, 0o644),
	)
}

// pictures is the folder of pictures, in docs and on the site.
const pictures = "images"

// copyPictures copies them to the site.
func copyPictures(from, to string) error {
	list, err := os.ReadDir(from)
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	for _, file := range list {
		text, failed := os.ReadFile(filepath.Join(from, file.Name()))
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(to, file.Name()), text, 0o644))
	}
	return err
}

// link finds the pages in the list of docs/README.md.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([a-z-]+\.md)\)`)

// readMenu reads which pages there are.
func readMenu(file string) ([]group, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	menu := []group{{"Dragoman", []page{{"README.md", "index.html", "Start"}, {"docs/README.md", "docs.html", "All pages"}, {"CHANGELOG.md", "changelog.html", "Changes"}}}}
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			menu = append(menu, group{Title: strings.TrimSpace(title)})
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			last := &menu[len(menu)-1]
			last.Pages = append(last.Pages, page{"docs/" + m[2], strings.TrimSuffix(m[2], ".md") + ".html", m[1]})
		}
	}
	return menu, nil
}

// render makes HTML of a page, and returns what search finds in it.
func render(root string, p *page, names map[string]string) ([]byte, []section, error) {
	from, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.File)))
	if err != nil {
		return nil, nil, err
	}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))
	context := parser.NewContext(parser.WithIDs(anchors{make(anchor.Page)}))
	tree := md.Parser().Parse(text.NewReader(from), parser.WithContext(context))
	found, err := collect(tree, from, p, names)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	err = md.Renderer().Render(&out, from, tree)
	return out.Bytes(), found, err
}

// collect turns links to files into links to pages, and returns the sections of a page.
func collect(tree ast.Node, from []byte, p *page, names map[string]string) (list []section, err error) {
	list = []section{{Page: p.Name, Title: p.Title}}
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		now := &list[len(list)-1]
		switch n := n.(type) {
		case *ast.Heading:
			id, _ := n.AttributeString("id")
			at, _ := id.([]byte)
			list = append(list, section{Page: p.Name, At: string(at), Title: p.Title + ": " + plain(n, from)})
		case *ast.Link:
			n.Destination = []byte(target(string(n.Destination), p, names))
		case *ast.Image:
			n.Destination = []byte(pictures + "/" + path.Base(string(n.Destination)))
		case *ast.Text:
			now.Text += string(n.Value(from)) + " "
		case *ast.CodeSpan:
			now.Text += plain(n, from) + " "
			return ast.WalkSkipChildren, nil
		case *ast.FencedCodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				now.Text += string(line.Value(from)) + " "
			}
		}
		return ast.WalkContinue, nil
	})
	return list, err
}

// plain returns the text of a node.
func plain(n ast.Node, from []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it has no error
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(from))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// target returns where a link leads on the site.
func target(to string, p *page, names map[string]string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "mailto:") {
		return to
	}
	file, anchor, has := strings.Cut(to, "#")
	if has {
		anchor = "#" + anchor
	}
	file = path.Join(path.Dir(p.File), file)
	if name, ok := names[file]; ok {
		return name + anchor
	}
	return source + file + anchor
}

// anchors are the names of headings.
type anchors struct{ anchor.Page }

// Generate implements parser.IDs.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte { return []byte(a.Name(string(value))) }

// Put implements parser.IDs.
func (a anchors) Put(value []byte) { a.Page[string(value)]++ }
