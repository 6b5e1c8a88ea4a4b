package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// MaxValueFile is the largest file that ${file:PATH} or envFile may name, in bytes.
const MaxValueFile = 1 << 20

// inputVariable is the start of the variables that stand for a host's inputs.
const inputVariable = "DRAGOMAN_INPUT_"

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	bareVariable = regexp.MustCompile(`^(?:\$([A-Za-z_][A-Za-z0-9_]*)|%([A-Za-z_][A-Za-z0-9_]*)%)`)
	braceOnly    = regexp.MustCompile(`^\{((?:env|file):[^{}]*)\}`)
)

// expand replaces the references in a text, once: what they stand for is not looked
// at again. It returns false if one has no value, which it has reported then.
func (r *reader) expand(n *node) (string, bool) {
	var b strings.Builder
	ok := true
	take := func(ref string) {
		value, message, hint := r.resolve(ref)
		if message != "" {
			r.fail(n.at, message, hint)
			ok = false
		}
		b.WriteString(value)
	}
	for rest := n.text; rest != ""; {
		end := strings.IndexByte(rest, '}')
		bare := r.host.bareVariables && bareVariable.MatchString(rest)
		brace := r.host.braces && braceOnly.MatchString(rest)
		switch {
		case strings.HasPrefix(rest, "$${"):
			b.WriteString("${")
			rest = rest[3:]
		case strings.HasPrefix(rest, "${") && end < 0:
			r.fail(n.at, "a reference has no closing }", "write $${ for the characters ${ themselves")
			return "", false
		case strings.HasPrefix(rest, "${"):
			take(rest[2:end])
			rest = rest[end+1:]
		case bare:
			m := bareVariable.FindStringSubmatch(rest)
			take(m[1] + m[2])
			rest = rest[len(m[0]):]
		case brace:
			m := braceOnly.FindStringSubmatch(rest)
			take(m[1])
			rest = rest[len(m[0]):]
		default:
			b.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	return b.String(), ok
}

// refers tells whether a text has references, so that its kind is not known before
// they are replaced.
func (r *reader) refers(n *node) bool {
	return n.kind == text && (strings.Contains(n.text, "${") || r.host.bareVariables || r.host.braces)
}

// resolve returns what a reference stands for, or why it stands for nothing.
func (r *reader) resolve(ref string) (value, message, hint string) {
	switch ref {
	case "userHome":
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "${userHome} is not known here", "set HOME"
		}
		return home, "", ""
	case "workspaceFolder":
		return r.src.base(), "", ""
	case "workspaceFolderBasename":
		return filepath.Base(r.src.base()), "", ""
	case "cwd":
		dir, err := os.Getwd()
		if err != nil {
			return "", "${cwd} is not known here", ""
		}
		return dir, "", ""
	case "pathSeparator", "/":
		return string(filepath.Separator), "", ""
	}
	kind, rest, ok := strings.Cut(ref, ":")
	switch {
	case !ok:
		return r.variable(ref, ref, "", false)
	case kind == "env":
		name, def, has := strings.Cut(rest, ":-")
		return r.variable(ref, name, def, has)
	case kind == "file":
		return r.valueFile(rest)
	case kind == "input":
		return r.input(rest)
	case strings.HasPrefix(rest, "-"):
		return r.variable(ref, kind, rest[1:], true)
	}
	return "", fmt.Sprintf("${%s} is no reference that is known here", clip(ref)),
		"use ${VAR}, ${VAR:-default}, ${file:PATH} or ${input:ID}; write $${ for the characters ${ themselves"
}

func (r *reader) variable(ref, name, def string, has bool) (value, message, hint string) {
	if !variableName.MatchString(name) {
		return "", fmt.Sprintf("${%s} does not name a variable", clip(ref)), "write $${ for the characters ${ themselves"
	}
	value, set := r.opts.lookup(name)
	switch {
	case strings.Contains(def, "${"):
		return "", fmt.Sprintf("the default of ${%s is a reference itself", clip(name)), "a default is plain text"
	case has && value == "":
		return def, "", ""
	case !set:
		return "", fmt.Sprintf("the variable %s is not set", clip(name)), fmt.Sprintf("set it, or give a default: ${%s:-default}", clip(name))
	}
	return value, "", ""
}

// valueFile returns what is in a file, without the line end behind it.
func (r *reader) valueFile(path string) (value, message, hint string) {
	data, err := r.readFile(r.absolute(path), MaxValueFile)
	if err != nil {
		return "", fmt.Sprintf("${file:%s} cannot be read: %v", clip(path), err), ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), "", ""
}

// input returns what stands for an input that a host would ask for.
func (r *reader) input(id string) (value, message, hint string) {
	name := inputVariable + strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(id))
	if value, ok := r.opts.lookup(name); ok {
		return value, "", ""
	}
	var ids []string
	if r.inputs != nil {
		for _, in := range r.inputs.items {
			known := in.get("id")
			if known == nil {
				continue
			}
			if known.text == id {
				if def := in.get("default"); def != nil && def.scalar() {
					return def.text, "", ""
				}
			}
			ids = append(ids, known.text)
		}
	}
	hint = fmt.Sprintf("nobody is asked here: set the variable %s", name)
	if near := nearest(id, ids); near != "" && near != id {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return "", fmt.Sprintf("the input %q has no value", clip(id)), hint
}

// absolute returns a path of the file as one that does not depend on our working
// directory.
func (r *reader) absolute(path string) string {
	if home, err := os.UserHomeDir(); err == nil && (path == "~" || strings.HasPrefix(path, "~/")) {
		return filepath.Join(home, path[1:])
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.src.base(), path)
}

// readFile reads a file that is not too large, and notes that it was read. Its
// errors do not repeat the path.
func (l *loader) readFile(path string, limit int64) ([]byte, error) {
	if !slices.Contains(l.file.Files, path) {
		l.file.Files = append(l.file.Files, path)
	}
	info, err := os.Stat(path)
	if err == nil {
		switch {
		case info.IsDir():
			return nil, errors.New("it is a directory")
		case info.Mode().IsRegular() && info.Size() > limit:
			return nil, fmt.Errorf("it is larger than %d bytes", limit)
		}
		var data []byte
		if data, err = readSome(path, limit); err == nil {
			return data, nil
		}
	}
	if path := new(fs.PathError); errors.As(err, &path) {
		err = path.Err
	}
	return nil, err
}
