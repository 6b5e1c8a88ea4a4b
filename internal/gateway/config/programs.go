package config

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
	"github.com/dragoman-mcp/dragoman/internal/util/proc"
)

// Commands says which programs may be started.
type Commands struct {
	Allow    []string `key:"allow" short:"true" doc:"Programs that may be started, for servers and for tokens, by their absolute paths; * and ? stand for characters of one part of a path. [] allows none. See processes.md." default:"all"`
	Writable bool     `key:"writable" doc:"Whether programs may be started that others on this machine may replace, because they can write to the file or to its directory." default:"false"`
}

// policy returns which programs may be started.
func (f *File) policy() *proc.Policy {
	return &proc.Policy{Allow: f.Commands.Allow, Writable: f.Commands.Writable}
}

// Vet returns an error if a program must not be started for the server.
func (s *Server) Vet(cmd *exec.Cmd) error {
	if s.policy == nil {
		return nil // the server comes from a command line
	}
	return s.policy.Vet(cmd)
}

// Checked reports whether there is a policy, of which Vet is the judge.
func (s *Server) Checked() bool { return s.policy != nil }

// vet checks the program of a server, and that for its tokens, as far as they are known.
func (s *Server) vet(policy *proc.Policy) error {
	if s.Program != "" {
		if err := policy.Vet(s.cmd(s.Program, s.Args)); err != nil {
			return err
		}
	}
	if c := s.Auth.Command; len(c) > 0 && filepath.IsAbs(c[0]) {
		return policy.Vet(s.cmd(c[0], c[1:]))
	}
	return nil
}

// cmd returns what is started, as far as it matters for a policy.
func (s *Server) cmd(file string, args []string) *exec.Cmd {
	return &exec.Cmd{Path: file, Args: append([]string{file}, args...), Env: []string{"PATH=" + s.searchPath}, Dir: s.Cwd}
}

// checkCommands checks the list of programs. What is wrong there is an error of the
// whole file: a list that cannot be read must not become one that allows everything.
func (l *loader) checkCommands() {
	for _, r := range l.readers {
		if m, ok := r.in.Root.Get("commands").Member("allow"); ok && m.Value.Kind == syntax.Null {
			l.log.add(syntax.Problem{Source: r.src, At: m.At, Message: "commands.allow has no value", Hint: "write [] to allow nothing, or remove the key to allow everything"})
		}
	}
	list := l.file.Commands.Allow
	for i, pattern := range list {
		if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(pattern, "~/") {
			pattern = filepath.Join(home, pattern[2:])
		}
		plain, err := proc.Pattern(pattern)
		if err != nil {
			l.note(false, fmt.Sprintf("commands.allow[%d]: %q %v", i, syntax.Clip(pattern), err),
				"write the absolute path of a program, as in /usr/bin/node, or of those in a directory, as in /opt/mcp/*", "commands", "allow", i)
		}
		list[i] = plain
	}
}

// checkPrograms finds the program of each server, and checks whether it may be started.
// It follows when all files have been read, since each may say what is allowed.
func (l *loader) checkPrograms() {
	policy := l.file.policy()
	for _, name := range l.file.Names {
		s := l.file.Servers[name]
		s.policy = policy
		if s.searchPath, _ = l.lookup("PATH"); s.Command != "" && s.Env["PATH"] != "" {
			s.searchPath = s.Env["PATH"]
		}
		if l.broken[name] || s.Disabled {
			continue
		}
		if s.Command != "" {
			s.Program = l.find(s, s.Command, s.Args, "command")
		}
		if c := s.Auth.Command; len(c) > 0 {
			if file := l.find(s, c[0], c[1:], "auth", "command"); file != "" {
				s.Auth.Command = append([]string{file}, c[1:]...)
			}
		}
	}
}

// find returns the absolute path of a program, or "" if it is not there: it may be
// when it is started, and is checked then.
func (l *loader) find(s *Server, name string, args []string, steps ...any) string {
	pathExt, _ := l.lookup("PATHEXT")
	file, err := (&proc.Search{Dir: s.Cwd, Path: s.searchPath, PathExt: pathExt, Writable: s.policy.Writable}).Find(name)
	if err == nil {
		err = s.policy.Vet(s.cmd(file, args))
	}
	if err == nil {
		return file
	}
	refused := errors.Is(err, proc.ErrExposed) || errors.Is(err, proc.ErrNotAllowed)
	if !refused && s.policy.Allow == nil {
		return ""
	}
	l.noteProgram(s.Name, err, !refused, file, steps)
	return ""
}

// noteProgram reports what is wrong with a program. What a reference stands for is not
// shown.
func (l *loader) noteProgram(server string, err error, warning bool, file string, steps []any) {
	at := append([]any{"servers", server}, steps...)
	message, hint := err.Error(), proc.Advice(err)
	if errors.Is(err, proc.ErrExposed) {
		hint += "; commands.writable allows it all the same"
	}
	if warning {
		message = "it is not known whether this program is allowed: " + message
		hint += "; it is checked again when it is started"
	}
	for _, r := range l.readers {
		m, ok := find(syntax.Member{Value: r.in.Root}, at...)
		if ok && m.Value.Kind == syntax.List && len(m.Value.Items) > 0 {
			m.Value = m.Value.Items[0]
		}
		if ok && (strings.Contains(m.Value.Text, "${") || r.in.References != nil && strings.ContainsAny(m.Value.Text, "$%{")) {
			message = strings.ReplaceAll(message, file, m.Value.Show())
		}
	}
	l.noteServer(server, warning, joinSteps(at)+": "+message, hint, at...)
}

func joinSteps(steps []any) string {
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = fmt.Sprint(s)
	}
	return strings.Join(words, ".")
}

// confinement checks who the program of a server runs as, and what binds it.
func (c *check) confinement() {
	linux := runtime.GOOS == "linux"
	if c.Limits != (ChildLimits{}) && !linux {
		c.fail(c.at("limits"), c.path+".limits are available on Linux only", "remove them")
	}
	if c.Sandbox != nil && !linux {
		c.fail(c.at("sandbox"), c.path+".sandbox is available on Linux only", "remove it")
	}
	if c.Limits.Processes > 0 && linux && c.User == "" && os.Geteuid() == 0 {
		c.warn(c.at("limits", "processes"), c.path+".limits.processes does not bind root", "give the server a user of its own")
	}
	c.user()
	if c.Sandbox == nil || !linux {
		return
	}
	for key, list := range map[string][]string{"read": c.Sandbox.Read, "write": c.Sandbox.Write} {
		for i, path := range list {
			if _, err := os.Stat(path); path == "" || err != nil {
				c.warn(c.at("sandbox", key, i), fmt.Sprintf("%s.sandbox.%s[%d] does not exist, and the server is not started without it", c.path, key, i), "create it, or remove it from the list")
			}
		}
	}
	if c.Cwd == "/" {
		c.warn(c.at("cwd"), c.path+".cwd: a server in a sandbox can read its directory, which is everything", "name another directory")
	}
}

// user checks who the program of a server runs as.
func (c *check) user() {
	if c.User == "" {
		return
	}
	at, shown := c.value("user")
	if runtime.GOOS == "windows" {
		c.fail(at, c.path+".user cannot be changed on Windows", "remove it")
		return
	}
	name, group, hasGroup := strings.Cut(c.User, ":")
	who := isNumber(name)
	if u, err := user.Lookup(name); err == nil {
		name, who = u.Uid, true
	}
	if !who {
		c.fail(at, fmt.Sprintf("%s.user: there is no user %s", c.path, shown), "write the name of a user, name:group, or numbers")
		return
	}
	if _, err := user.LookupGroup(group); hasGroup && err != nil && !isNumber(group) {
		c.fail(at, fmt.Sprintf("%s.user: there is no such group: %s", c.path, shown), "write the name of a user, name:group, or numbers")
	}
	if os.Geteuid() > 0 && name != fmt.Sprint(os.Geteuid()) {
		c.warn(at, fmt.Sprintf("%s.user: only root can start a server as somebody else, and we are not", c.path), "run as root, or remove the user")
	}
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
