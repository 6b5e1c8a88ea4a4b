package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hosts"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

var variableName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

const literally = "write $${ for the characters ${ themselves"

// expand replaces the references in a text, once: what they stand for is not looked
// at again. It returns false if one has no value, which it has reported then.
func (r *reader) expand(n *syntax.Node) (string, bool) {
	var b strings.Builder
	ok := true
	for rest := n.Text; rest != ""; {
		var ref []string // with what is around it, and in parts
		end := strings.IndexByte(rest, '}')
		switch {
		case strings.HasPrefix(rest, "$${"):
			b.WriteString("${")
			rest = rest[3:]
			continue
		case strings.HasPrefix(rest, "${") && end < 0:
			r.fail(n.At, "a reference has no closing }", literally)
			return "", false
		case strings.HasPrefix(rest, "${"):
			ref = []string{rest[:end+1], rest[2:end]}
		case r.in.References != nil:
			ref = r.in.References.FindStringSubmatch(rest)
		}
		if ref == nil {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		value, message, hint := r.resolve(strings.Join(ref[1:], ""))
		if message != "" {
			if n.Written != "" {
				hint = "set it" // there is no reference in the file that could have a default
			}
			r.fail(n.At, message, hint)
			ok = false
		}
		b.WriteString(value)
		rest = rest[len(ref[0]):]
	}
	return b.String(), ok
}

// resolve returns what a reference stands for, or why it stands for nothing.
func (r *reader) resolve(ref string) (value, message, hint string) {
	var err error
	switch ref {
	case "userHome":
		if value, err = os.UserHomeDir(); err != nil {
			return "", "${userHome} is not known here", "set HOME"
		}
		return value, "", ""
	case "cwd":
		if value, err = os.Getwd(); err != nil {
			return "", "${cwd} is not known here", ""
		}
		return value, "", ""
	case "workspaceFolder":
		return hosts.Folder(r.src.Path), "", ""
	case "workspaceFolderBasename":
		return filepath.Base(hosts.Folder(r.src.Path)), "", ""
	case "pathSeparator", "/":
		return string(filepath.Separator), "", ""
	}
	name, def, has := strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	kind, rest, ok := strings.Cut(ref, ":")
	switch {
	case kind == "file" && ok:
		data, err := r.readFile(r.absolute(rest), MaxValueFile)
		if err != nil {
			return "", fmt.Sprintf("${file:%s} cannot be read: %v", syntax.Clip(rest), err), ""
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), "", ""
	case kind == "input" && ok:
		return r.input(rest)
	case ok && kind != "env" && !strings.HasPrefix(rest, "-"):
		return "", fmt.Sprintf("${%s} is no reference that is known here", syntax.Clip(ref)),
			"use ${VAR}, ${VAR:-default}, ${file:PATH} or ${input:ID}; " + literally
	case !variableName().MatchString(name):
		return "", fmt.Sprintf("${%s} does not name a variable", syntax.Clip(ref)), literally
	case strings.Contains(def, "${"):
		return "", fmt.Sprintf("the default of ${%s is a reference itself", syntax.Clip(name)), "a default is plain text"
	}
	value, set := r.lookup(name)
	switch {
	case has && value == "":
		return def, "", ""
	case !set:
		return "", fmt.Sprintf("the variable %s is not set", syntax.Clip(name)), fmt.Sprintf("set it, or give a default: ${%s:-default}", syntax.Clip(name))
	}
	return value, "", ""
}

// input returns what stands for an input that a host would ask for.
func (r *reader) input(id string) (value, message, hint string) {
	name := hosts.InputVariable(id)
	if value, ok := r.lookup(name); ok {
		return value, "", ""
	}
	value, ok, ids := r.in.Input(id)
	if ok {
		return value, "", ""
	}
	hint = fmt.Sprintf("nobody is asked here: set the variable %s", name)
	if !slices.Contains(ids, id) {
		hint = cmp.Or(syntax.DidYouMean(id, ids), hint)
	}
	return "", fmt.Sprintf("the input %q has no value", syntax.Clip(id)), hint
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
	return filepath.Join(hosts.Folder(r.src.Path), path)
}

// readFile reads a file that is not too large, and notes that it was read. Its
// errors do not repeat the path.
func (l *loader) readFile(path string, limit int64) ([]byte, error) {
	if !slices.Contains(l.file.Files, path) {
		l.file.Files = append(l.file.Files, path)
	}
	data, err := readSome(path, limit)
	if inner := new(fs.PathError); errors.As(err, &inner) {
		err = inner.Err
	}
	return data, err
}

// readSome reads a file up to a limit. It may be a pipe, so its size says nothing.
func readSome(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("it is a directory")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}

// envFile adds the variables of a file to those of a server that are not set. Values
// are taken as they are: references in them are not replaced.
func (c *check) envFile() {
	data, err := c.readFile(c.EnvFile, MaxValueFile)
	if err != nil {
		c.fail(c.at("envFile"), fmt.Sprintf("the env file %s cannot be read: %v", c.EnvFile, err), "")
		return
	}
	vars, bad := parseEnv(data)
	if bad > 0 {
		c.fail(c.at("envFile"), fmt.Sprintf("line %d of the env file %s is not NAME=value", bad, c.EnvFile), "")
		return
	}
	if maps.Copy(vars, c.Env); len(vars) > 0 {
		c.Env = vars
	}
}

// ReadEnv returns the variables of a file with a NAME=value a line, as an EnvironmentFile of systemd
// is and the file of envFile.
func ReadEnv(path string) (map[string]string, error) {
	data, err := readSome(path, MaxValueFile)
	if err != nil {
		return nil, err
	}
	vars, bad := parseEnv(data)
	if bad > 0 {
		return nil, fmt.Errorf("line %d of %s is not NAME=value", bad, path)
	}
	return vars, nil
}

// parseEnv reads lines of NAME=value, or returns the number of the first that is none. It is not
// shown: it may hold a secret.
func parseEnv(data []byte) (vars map[string]string, bad int) {
	vars = map[string]string{}
	for i, line := range strings.Split(string(data), "\n") {
		name, value, ok := parseEnvLine(line)
		if !ok {
			return nil, i + 1
		}
		if _, twice := vars[name]; name != "" && !twice {
			vars[name] = value
		}
	}
	return vars, 0
}

// parseEnvLine reads NAME=value. The name is empty for a line that says nothing.
func parseEnvLine(line string) (name, value string, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' || line[0] == ';' {
		return "", "", true
	}
	name, value, ok = strings.Cut(strings.TrimPrefix(line, "export "), "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch {
	case !ok || !variableName().MatchString(name):
		return "", "", false
	case !strings.HasPrefix(value, "'") && !strings.HasPrefix(value, `"`):
		value, _, _ = strings.Cut(value, " #")
		return name, strings.TrimSpace(value), true
	}
	end := syntax.Quoted(value)
	if end < 0 {
		return "", "", false
	}
	double := value[0] == '"'
	if value = value[1 : end-1]; double {
		value = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\\`, `\`, `\$`, `$`).Replace(value)
	}
	return name, value, true
}
