package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hosts"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

// New is what a configuration of ours begins with.
const New = `# The configuration of dragoman. Serve it: dragoman serve; check it: dragoman config check.
# All keys: https://github.com/dragoman-mcp/dragoman/blob/main/docs/config.md, or dragoman config schema.

# Clients connect here. This is the default.
# listen: 127.0.0.1:8808

# The servers by name, as dragoman add writes them. A server is a command or a URL:
#
#   files:
#     command: npx
#     args: [-y, '@modelcontextprotocol/server-filesystem', '${HOME}']
#   search:
#     url: https://mcp.example.com/mcp
#     headers:
#       Authorization: Bearer ${SEARCH_TOKEN}
servers: {}
`

// ErrName means that a server cannot have a name.
var ErrName = errors.New("cannot be the name of a server")

// Add puts a server into our configuration. It is ErrTaken if another has its name and replaces does not
// say that it may go. inherit are names of variables that a command gets of ours.
func Add(file, name string, e Entry, inherit []string, replaces bool) (*Change, error) {
	if !config.Keys().Name.MatchString(name) {
		return nil, fmt.Errorf("%q %w: it has 1 to %d of the characters A-Z a-z 0-9 _ . -", name, ErrName, config.MaxName)
	}
	c, servers, err := readOwn(file)
	if err != nil {
		return nil, err
	}
	value := spell(e, inherit)
	switch old := servers.Get(name); {
	case syntax.Same(old, value):
		return c, nil
	case old != nil && !replaces:
		return nil, fmt.Errorf("%w: %s in %s", ErrTaken, name, file)
	}
	text := c.Before
	if text == nil && IsYAML(file) {
		text = []byte(New)
	}
	c.After, err = syntax.Put(file, text, []string{"servers"}, syntax.Member{Key: name, Value: value})
	return c, err
}

// IsYAML reports whether a file is called like one of YAML.
func IsYAML(file string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(file)))
}

// spell returns a server as our configuration spells it.
func spell(e Entry, inherit []string) *syntax.Node {
	n := &syntax.Node{Kind: syntax.Table}
	put := func(key string, value *syntax.Node) {
		if value.Scalar() || len(value.Items)+len(value.Members) > 0 {
			n.Set(syntax.Member{Key: key, Value: value})
		}
	}
	if len(e.Command) > 0 {
		put("command", syntax.NewText(e.Command[0]))
		put("args", syntax.NewList(e.Command[1:]...))
	} else {
		put("url", syntax.NewText(e.URL))
		put("headers", syntax.NewTable(e.Headers))
	}
	put("env", syntax.NewTable(e.Env))
	put("inherit", syntax.NewList(inherit...))
	n.Mark("")
	return n
}

// Remove takes a server out of our configuration.
func Remove(file, name string) (*Change, error) {
	c, servers, err := readOwn(file)
	if err == nil {
		err = c.remove([]string{"servers"}, servers, name)
	}
	return c, err
}

// readOwn reads our configuration and the table of its servers. A file of another program is an error.
func readOwn(file string) (*Change, *syntax.Node, error) {
	c, err := read(file)
	if err != nil {
		return nil, nil, err
	}
	src, err := syntax.Read(file, c.Before)
	if err != nil {
		return nil, nil, err
	}
	if err := isForeign(file, src); err != nil {
		return nil, nil, err
	}
	return c, src.Root.Get("servers"), nil
}

// isForeign refuses a file that another program made.
func isForeign(file string, src *syntax.Source) error {
	if hosts.Translate(&syntax.Source{Name: file, Path: file, Root: src.Root, Report: func(syntax.Problem) {}}, config.Keys()).Foreign() {
		return fmt.Errorf("%s is a file of another program; name one of ours with -f", file)
	}
	return nil
}

// An UnknownError says that a file has no server of a name.
type UnknownError struct {
	File, Name string
	Known      []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("there is no server %q in %s", e.Name, e.File)
	if hint := humanize.SuggestHint(e.Name, slices.Values(e.Known)); hint != "" {
		return text + ": " + hint
	}
	if len(e.Known) > 0 {
		return text + ": there are " + strings.Join(e.Known, ", ")
	}
	return text
}

// remove takes a server out of the table at a path.
func (c *Change) remove(path []string, table *syntax.Node, name string) (err error) {
	if table.Get(name) == nil {
		return &UnknownError{File: c.File, Name: name, Known: keysOf(table)}
	}
	c.After, err = syntax.Remove(c.File, c.Before, path, name)
	return err
}

// keysOf returns the keys of a table, which may be nil.
func keysOf(table *syntax.Node) (keys []string) {
	if table == nil {
		return nil
	}
	for _, m := range table.Members {
		keys = append(keys, m.Key)
	}
	return keys
}

// RemoveFrom takes a server out of the host's file.
func (h *Host) RemoveFrom(file, name string) (*Change, error) {
	c, path, table, err := h.servers(file)
	if err == nil {
		err = c.remove(path, table, name)
	}
	return c, err
}

// servers reads the host's file, and returns the table of the servers in it, which may be nil.
func (h *Host) servers(file string) (c *Change, path []string, table *syntax.Node, err error) {
	if c, err = read(file); err != nil {
		return nil, nil, nil, err
	}
	src, err := syntax.Read(file, c.Before)
	if err != nil {
		return nil, nil, nil, err
	}
	path, table = h.program.Root(src.Root), src.Root
	for _, key := range path {
		table = table.Get(key)
	}
	return c, path, table, nil
}

// A Found is a file of a host on this machine.
type Found struct {
	Host    *Host
	File    string
	Project bool // it is that of the project in this directory
}

// Servers returns the names of the servers in the file.
func (f *Found) Servers() ([]string, error) {
	_, _, table, err := f.Host.servers(f.File)
	return keysOf(table), err
}

// Discover returns the files of hosts on this machine, in the order of the hosts.
func Discover() (list []Found, err error) {
	d, err := hosts.UserDirectories()
	if err != nil {
		return nil, err
	}
	for _, p := range hosts.Programs() {
		for _, project := range []bool{false, true} {
			file := p.File(d, project)
			if info, err := os.Stat(file); file != "" && err == nil && info.Mode().IsRegular() && !slices.ContainsFunc(list, func(f Found) bool { return f.File == file }) {
				list = append(list, Found{&Host{p}, file, project})
			}
		}
	}
	return list, nil
}

// ID returns what the host is called on a command line.
func (h *Host) ID() string { return h.program.ID }

// Create writes a configuration of ours that is not there yet.
func Create(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	_, err = f.WriteString(New)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// Save is Write, and keeps no copy of the file: the change is what the user has asked for.
func (c *Change) Save() error {
	_, err := c.write(func(string, []byte, fs.FileMode) (string, error) { return "", nil })
	return err
}
