package hosts

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// TranslateOf is Translate for a file of which it is known whose it is.
func TranslateOf(src *syntax.Source, ours Keys, p *Program) *Translation {
	return translate(src, ours, p.reader)
}

// Servers returns the servers of a host's file as a file of ours says the same that lies
// in dir. Servers with mistakes are left out; they have been reported. It is nil if the
// file is no host's.
func (t *Translation) Servers(dir string) []syntax.Member {
	if t.host == nil {
		return nil
	}
	var out []syntax.Member
	translated := t.Root.Members[len(t.Root.Members)-1].Value // where Translate puts them
	for _, m := range translated.Members {
		if m.Value.Kind != syntax.Table || m.Value.Broken {
			continue
		}
		p := plain{Translation: t}
		if folder := Folder(t.src.Path); folder != dir {
			p.folder = folder
		}
		value := p.value(m.Value, "")
		p.anchor(value)
		value.Mark("")
		out = append(out, syntax.Member{Key: m.Key, At: m.At, Value: value})
	}
	return out
}

// plain makes values that need nothing of the file that they stood in.
type plain struct {
	*Translation
	folder string // where relative paths start; empty if that is the same for our file
}

func (p *plain) value(n *syntax.Node, key string) *syntax.Node {
	c := &syntax.Node{Kind: n.Kind, Text: n.Text}
	for _, item := range n.Items {
		c.Items = append(c.Items, p.value(item, ""))
	}
	for _, m := range n.Members {
		value := p.value(m.Value, m.Key)
		if m.Key == "disabled" && value.Text == "false" {
			continue // as it is anyway
		}
		c.Set(syntax.Member{Key: m.Key, Value: value})
	}
	switch number, err := strconv.ParseFloat(n.Text, 64); {
	case n.Unit != 0 && n.Scalar() && err == nil:
		c.Kind, c.Text = syntax.Text, duration(time.Duration(number*float64(n.Unit)))
	case n.Not && n.Kind == syntax.Boolean:
		c.Text = strconv.FormatBool(n.Text != "true")
	case n.Kind == syntax.Text && key == "transport":
		if word := Transport(n.Text); word != "" {
			c.Text = word
		}
	case n.Kind == syntax.Text:
		c.Text = p.text(n.Text)
	}
	return c
}

// duration returns a time as we write it: 10m, not 10m0s.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// text writes references as ours are written, those to variables alone.
func (p *plain) text(text string) string {
	var b strings.Builder
	for text != "" {
		end := strings.IndexByte(text, '}')
		var ref []string
		switch {
		case strings.HasPrefix(text, "$${"):
			b.WriteString("$${")
			text = text[3:]
			continue
		case strings.HasPrefix(text, "${") && end > 0:
			ref = []string{text[:end+1], text[2:end]}
		case p.References != nil:
			ref = p.References.FindStringSubmatch(text)
		}
		if ref == nil {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		b.WriteString(p.reference(strings.Join(ref[1:], "")))
		text = text[len(ref[0]):]
	}
	return b.String()
}

// reference returns what stands for a reference in our file.
func (p *plain) reference(ref string) string {
	kind, rest, _ := strings.Cut(ref, ":")
	switch {
	case ref == "workspaceFolder" && p.folder != "":
		return p.folder
	case ref == "workspaceFolderBasename":
		return filepath.Base(Folder(p.src.Path))
	case kind == "file" && p.folder != "":
		return "${file:" + p.absolute(rest) + "}"
	case kind == "env" && variableName().MatchString(rest):
		return "${" + rest + "}"
	case kind == "input":
		if def, ok, _ := p.Input(rest); ok && !strings.ContainsAny(def, "{}") {
			return "${" + InputVariable(rest) + ":-" + def + "}"
		}
		return "${" + InputVariable(rest) + "}"
	}
	return "${" + ref + "}"
}

func (p *plain) absolute(path string) string {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "~") || strings.HasPrefix(path, "${") || p.folder == "" {
		return path
	}
	return filepath.Join(p.folder, path)
}

// anchor makes the paths of a server absolute that would start elsewhere otherwise.
func (p *plain) anchor(server *syntax.Node) {
	for _, key := range []string{"cwd", "envFile", "command"} {
		n := server.Get(key)
		if n == nil || n.Kind != syntax.Text || key == "command" && (server.Has("cwd") || !strings.ContainsAny(n.Text, `/\`)) {
			continue
		}
		n.Text = p.absolute(n.Text)
	}
}

// InputVariable returns the variable that stands for an input that a host would ask for.
func InputVariable(id string) string {
	return "DRAGOMAN_INPUT_" + strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(id))
}

// Foreign reports whether the file is another program's.
func (t *Translation) Foreign() bool { return t.host != nil }
