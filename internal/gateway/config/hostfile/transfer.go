package hostfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hosts"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

// A Host is a program with a file for its servers.
type Host struct{ program *hosts.Program }

// An Entry is a server that is written into a file of a host.
type Entry = hosts.Entry

// Find returns the host with a name.
func Find(name string) (*Host, error) {
	if p := hosts.Find(name); p != nil {
		return &Host{p}, nil
	}
	hint := humanize.SuggestHint(name, slices.Values(IDs()))
	if hint == "" {
		hint = "there are " + strings.Join(IDs(), ", ")
	}
	return nil, fmt.Errorf("no host is called %q: %s", name, hint)
}

// IDs returns the names of all hosts.
func IDs() (ids []string) {
	for _, p := range hosts.Programs() {
		ids = append(ids, p.ID)
	}
	return ids
}

// Name returns what people call the host.
func (h *Host) Name() string { return h.program.Name }

// File returns where the host's file is on this machine: that of its user, or that of the
// project at hand.
func (h *Host) File(project bool) (string, error) {
	d, err := hosts.UserDirectories()
	if err != nil {
		return "", err
	}
	file := h.program.File(d, project)
	if file == "" {
		return "", fmt.Errorf("%s has no file for projects", h.Name())
	}
	return file, nil
}

// An Import is what becomes of our file if servers of a host are taken over.
type Import struct {
	Change
	Added, Replaced []string
	Same            []string // were there already
	Kept            []string // were there otherwise, and stay
	Notes           []string // what to know about it
}

// ImportFrom takes the servers of a host's file over into ours. only, if given, are their
// names. A URL that leads back to us, which ours knows, is no server to take over. Whether one
// takes the place of another with its name is asked replaces.
func (h *Host) ImportFrom(file, into string, only []string, ours, replaces func(string) bool) (*Import, error) {
	theirs, err := read(file)
	if err != nil {
		return nil, err
	}
	if theirs.Before == nil {
		return nil, fmt.Errorf("%s has no file %s; name the file", h.Name(), file)
	}
	src, err := syntax.Read(file, theirs.Before)
	if err != nil {
		return nil, err
	}
	if src.Path, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	target, err := read(into)
	if err != nil {
		return nil, err
	}
	im := &Import{Change: *target}
	src.Report = func(p syntax.Problem) {
		word := "error: "
		if p.Warning {
			word = ""
		}
		im.Notes = append(im.Notes, syntax.Printable(fmt.Sprintf("%s:%d: %s%s", file, p.At.Line, word, p.Message)))
	}
	where, err := filepath.Abs(into)
	if err != nil {
		return nil, err
	}
	servers := hosts.TranslateOf(src, config.Keys(), h.program).Servers(filepath.Dir(where))
	if servers, err = choose(servers, only, file); err != nil {
		return nil, err
	}
	for _, m := range servers {
		at := m.Value.Get("url")
		why := ""
		switch {
		case at == nil && m.Value.Get("command") == nil:
			why = "it has neither a command nor a URL"
		case len(only) > 0:
		case at != nil && ours(at.Text):
			why = "it leads to this gateway itself; --only " + m.Key + " takes it"
		case isOurs(m.Value):
			why = "it starts dragoman itself; --only " + m.Key + " takes it"
		}
		if why != "" {
			im.Notes = append(im.Notes, syntax.Printable(m.Key+" is left out: "+why))
			continue
		}
		if err := im.put(m, replaces); err != nil {
			return nil, err
		}
	}
	return im, nil
}

// isOurs reports whether a server is what Export has written for a URL.
func isOurs(server *syntax.Node) bool {
	command, args := server.Get("command"), server.Get("args")
	if command == nil || args == nil || len(args.Items) == 0 || args.Items[0].Text != "connect" {
		return false
	}
	base := strings.TrimSuffix(filepath.Base(command.Text), ".exe")
	self, err := os.Executable()
	return base == "dragoman" || err == nil && command.Text == self
}

// choose returns the servers with the names.
func choose(servers []syntax.Member, only []string, file string) ([]syntax.Member, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("there are no servers in %s", file)
	}
	var names []string
	for _, m := range servers {
		names = append(names, m.Key)
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no server %q in %s: there are %s", name, file, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(servers, func(m syntax.Member) bool { return len(only) > 0 && !slices.Contains(only, m.Key) }), nil
}

// put puts one server into our file.
func (im *Import) put(m syntax.Member, replaces func(string) bool) error {
	ours, err := syntax.Read(im.File, im.After)
	if err != nil {
		return err
	}
	if err := isForeign(im.File, ours); err != nil {
		return err
	}
	switch old := ours.Root.Get("servers").Get(m.Key); {
	case old == nil:
		im.Added = append(im.Added, m.Key)
	case syntax.Same(old, m.Value):
		im.Same = append(im.Same, m.Key)
		return nil
	case !replaces(m.Key):
		im.Kept = append(im.Kept, m.Key)
		return nil
	default:
		im.Replaced = append(im.Replaced, m.Key)
	}
	for _, path := range m.Value.Inline() {
		name := path[strings.LastIndexByte(path, '.')+1:]
		im.Notes = append(im.Notes, syntax.Printable(fmt.Sprintf("%s: %s holds a secret; better keep it in a variable or a file, and write ${%s} or ${file:PATH}", m.Key, path, variable(m.Key, name))))
	}
	im.After, err = syntax.Put(im.File, im.After, []string{"servers"}, m)
	return err
}

// variable returns a name for a variable that holds a secret.
func variable(server, key string) string {
	if strings.EqualFold(key, "Authorization") || strings.HasPrefix(key, "-") || key == "args" || key == "" {
		key = strings.TrimLeft(server+"_TOKEN", "-")
	}
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(key))
}

// Bridge returns the entry that the host needs for a server: the one that is wanted, or, if
// the host cannot use that or stdio is wanted, one that starts program to bring the URL to
// standard input and output.
func (h *Host) Bridge(e Entry, program string, stdio bool) Entry {
	if h.program.CanUse(&e) && (!stdio || len(e.Command) > 0) {
		return e
	}
	command := []string{program, "connect"}
	var names []string
	for name := range e.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		// Without a space: some hosts take arguments apart there.
		command = append(command, "--header", name+":"+e.Headers[name])
	}
	return Entry{Command: append(command, e.URL), Env: e.Env}
}

// ErrTaken means that a file has a server with that name.
var ErrTaken = errors.New("there is a server with that name")

// ExportTo puts a server into the host's file. It is ErrTaken if another has its name and
// replaces does not say that it may go.
func (h *Host) ExportTo(file, name string, e Entry, replaces func(name string) bool) (*Change, error) {
	c, root, table, err := h.servers(file)
	if err != nil {
		return nil, err
	}
	value := h.program.Spell(&e)
	switch old := table.Get(name); {
	case syntax.Same(old, value):
		return c, nil
	case old != nil && !replaces(name):
		return nil, fmt.Errorf("%w: %s in %s", ErrTaken, name, file)
	}
	c.After, err = syntax.Put(file, c.Before, root, syntax.Member{Key: name, Value: value})
	return c, err
}

// Snippet returns what would stand in the host's file.
func (h *Host) Snippet(name string, e Entry) (string, error) {
	file := "snippet.json"
	if h.program.ID == "codex" {
		file = "snippet.toml"
	}
	text, err := syntax.Put(file, nil, h.program.Root(nil), syntax.Member{Key: name, Value: h.program.Spell(&e)})
	return string(text), err
}
