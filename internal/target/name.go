package target

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// A launcher is a program that runs what an argument names.
type launcher struct {
	words    []string // that may stand before that
	values   []string // options that the next argument belongs to
	named    []string // options whose argument is the name
	installs bool     // it may have to fetch what it runs first, which takes its time
}

var launchers = map[string]launcher{
	"npx":     {values: []string{"-c", "--call", "-w", "--workspace", "--registry", "--cache", "--prefix"}, named: []string{"-p", "--package"}, installs: true},
	"bunx":    {named: []string{"-p", "--package"}, installs: true},
	"uvx":     {values: uvValues, named: []string{"--from"}, installs: true},
	"npm":     {words: []string{"exec", "x", "run", "start"}, values: []string{"--prefix", "-w", "--workspace"}, named: []string{"-p", "--package"}, installs: true},
	"pnpm":    {words: []string{"dlx", "exec", "run"}, values: []string{"-C", "--dir"}, named: []string{"--package"}, installs: true},
	"yarn":    {words: []string{"dlx", "exec", "run"}, named: []string{"-p", "--package"}, installs: true},
	"uv":      {words: []string{"run", "tool"}, values: uvValues, named: []string{"--from", "-m", "--module"}, installs: true},
	"pipx":    {words: []string{"run"}, values: []string{"--python", "--pip-args"}, named: []string{"--spec"}, installs: true},
	"go":      {words: []string{"run"}, values: []string{"-C", "-tags", "-mod"}, installs: true},
	"docker":  {words: []string{"run", "container"}, values: dockerValues, installs: true},
	"podman":  {words: []string{"run", "container"}, values: dockerValues, installs: true},
	"nerdctl": {words: []string{"run", "container"}, values: dockerValues, installs: true},
	"deno":    {words: []string{"run"}, values: []string{"-c", "--config", "--import-map"}, installs: true},
	"bun":     {words: []string{"run", "x"}, values: []string{"--cwd", "-r", "--preload"}, installs: true},
	"node":    {values: []string{"-r", "--require", "--import", "--loader", "--env-file"}},
	"tsx":     {values: []string{"--tsconfig"}},
	"python":  {values: []string{"-W", "-X"}, named: []string{"-m"}},
	"java":    {values: []string{"-cp", "-classpath", "--class-path", "-p", "--module-path"}, named: []string{"-jar"}},
	"dotnet":  {words: []string{"run", "exec"}, named: []string{"--project"}, installs: true},
	"sh":      {}, "bash": {}, "zsh": {},
	"env":  {values: []string{"-u", "--unset", "-C", "--chdir"}},
	"nice": {values: []string{"-n", "--adjustment"}}, "timeout": {}, "sudo": {values: []string{"-u", "-g"}}, "exec": {}, "nohup": {}, "stdbuf": {values: []string{"-i", "-o", "-e"}},
}

var (
	uvValues = []string{"--with", "--python", "-p", "--directory", "--project", "--index-url", "-i", "--extra-index-url", "--index", "--with-requirements", "--env-file"}

	dockerValues = []string{
		"-e", "--env", "--env-file", "-v", "--volume", "--mount", "-p", "--publish", "--name", "--network", "--net", "-u", "--user", "-w", "--workdir", "-l", "--label",
		"--entrypoint", "-m", "--memory", "--cpus", "--platform", "--pull", "-h", "--hostname", "--add-host", "--dns", "--gpus", "--device", "--cap-add", "--cap-drop",
		"--security-opt", "--tmpfs", "--ulimit", "--log-driver", "--restart", "-H", "--host", "--context", "-c", "--config",
	}

	// wrappers run a command that follows them.
	wrappers = []string{"env", "nice", "timeout", "sudo", "exec", "nohup", "stdbuf"}

	shells = []string{"sh", "bash", "zsh"}
)

// plain are names that say nothing about a server; the folder does.
var plain = []string{"index", "main", "__main__", "server", "app", "dist", "build", "src", "bin", "lib", "cli"}

// programOf returns the name of the program of a command, as launchers has it.
func programOf(path string) string {
	if i := strings.LastIndexAny(path, `/\`); i >= 0 {
		path = path[i+1:]
	}
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		path = strings.TrimSuffix(path, ext)
	}
	if strings.HasPrefix(path, "python") && strings.Trim(path[len("python"):], "0123456789.") == "" {
		return "python"
	}
	return path
}

// unwrapped returns a command without programs before it that only change how it is run,
// such as env.
func unwrapped(command []string) []string {
	for len(command) > 1 {
		program := programOf(command[0])
		rest := command[1:]
		if slices.Contains(shells, program) && len(rest) > 1 && rest[0] == "-c" {
			words := strings.Fields(rest[1])
			if len(words) == 0 || strings.ContainsAny(rest[1], ";|&<>()`\n'\"") {
				return command // a script
			}
			command = words
			continue
		}
		if !slices.Contains(wrappers, program) {
			return command
		}
		for len(rest) > 0 && (strings.HasPrefix(rest[0], "-") || program == "env" && strings.Contains(rest[0], "=") || program == "timeout" && isDuration(rest[0])) {
			if slices.Contains(launchers[program].values, rest[0]) && len(rest) > 1 {
				rest = rest[1:]
			}
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return command
		}
		command = rest
	}
	return command
}

func isDuration(arg string) bool { return strings.Trim(arg, "0123456789.smhd") == "" }

// Installs reports whether a command may have to fetch the server before it runs it, as
// npx does.
func Installs(command []string) bool {
	if len(command) == 0 {
		return false
	}
	return launchers[programOf(unwrapped(command)[0])].installs
}

// NameOfCommand derives a name from a command: what npx runs, or the program.
// Like all names that are derived, it is one that every host accepts.
func NameOfCommand(command []string) string {
	command = unwrapped(command)
	program := programOf(command[0])
	l, known := launchers[program]
	if !known {
		return TidyName(program)
	}
	for args := command[1:]; len(args) > 0; args = args[1:] {
		arg, value, hasValue := args[0], "", false
		if strings.HasPrefix(arg, "--") {
			arg, value, hasValue = strings.Cut(arg, "=")
		}
		switch {
		case slices.Contains(l.named, arg) && hasValue:
			return nameOfPackage(value)
		case slices.Contains(l.named, arg) && len(args) > 1:
			return nameOfPackage(args[1])
		case slices.Contains(l.values, arg) && !hasValue && len(args) > 1:
			args = args[1:]
		case strings.HasPrefix(arg, "-"), slices.Contains(l.words, arg):
		case arg == "" || strings.ContainsAny(arg, " \t\n;"):
			return TidyName(program) // a script
		case slices.Contains(l.words, "container"):
			return nameOfImage(arg)
		default:
			return nameOfPackage(arg)
		}
	}
	return TidyName(program)
}

// nameOfImage derives a name from "registry:port/owner/image:tag@digest".
func nameOfImage(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		image = image[:colon]
	}
	return nameOfPackage(image)
}

// nameOfPackage derives a name from "@scope/name@version", or from a path.
func nameOfPackage(arg string) string {
	if at := strings.LastIndex(arg, "@"); at > 0 && !strings.ContainsAny(arg[at:], `/\`) {
		arg = arg[:at]
	}
	if i := strings.IndexAny(arg, "=<>[#"); i > 0 {
		arg = arg[:i] // a version, or extras
	}
	arg = strings.TrimSuffix(arg, ".git")
	parts := strings.FieldsFunc(arg, func(r rune) bool { return r == '/' || r == '\\' })
	for _, part := range slices.Backward(parts) {
		name := part
		if ext := filepath.Ext(part); slices.Contains([]string{".js", ".mjs", ".cjs", ".ts", ".py", ".go", ".jar", ".sh"}, ext) {
			name = strings.TrimSuffix(part, ext)
		}
		if !slices.Contains(plain, name) && strings.Trim(name, ".") != "" {
			return TidyName(name)
		}
	}
	return TidyName(strings.TrimSuffix(filepath.Base(arg), filepath.Ext(arg)))
}

// NameOfURL derives a name from the host of a URL, or from the name of its socket.
func NameOfURL(target string) string {
	if rest, ok := cutAny(target, "http+unix:", "unix://", "unix:"); ok {
		if i := strings.LastIndex(rest, ":/"); i >= 0 {
			rest = rest[:i]
		}
		base := filepath.Base(rest)
		return TidyName(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	if rest, ok := strings.CutPrefix(target, "tcp:"); ok {
		target = "tcp://" + strings.TrimPrefix(rest, "//")
	}
	u, err := url.Parse(target)
	if err != nil {
		return TidyName("")
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() {
		return "localhost"
	}
	return TidyName(u.Hostname())
}

// maxName is the longest name, which is what hosts take.
const maxName = 64

// TidyName keeps of a name what every host accepts in its configuration.
func TidyName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name, "-"); len(name) > maxName {
		name = name[:maxName]
	}
	if name == "" {
		return "server"
	}
	return name
}

// cutAny returns s without the first of the prefixes that it has.
func cutAny(s string, prefixes ...string) (string, bool) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest, true
		}
	}
	return s, false
}
