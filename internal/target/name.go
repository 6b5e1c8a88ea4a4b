package target

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// launchers are programs that run what an argument names, and the words that
// stand before that.
var launchers = map[string][]string{
	"npx": nil, "bunx": nil, "uvx": nil, "node": nil, "deno": {"run"}, "bun": {"run", "x"}, "tsx": nil,
	"npm": {"exec", "x"}, "pnpm": {"dlx", "exec"}, "yarn": {"dlx"}, "uv": {"run", "tool"}, "pipx": {"run"},
	"python": nil, "python3": nil, "go": {"run"}, "java": nil, "sh": nil, "bash": nil,
}

// plain are names that say nothing about a server; the folder does.
var plain = []string{"index", "main", "__main__", "server", "app", "dist", "build", "src", "bin", "lib"}

// NameOfCommand derives a name from a command: what npx runs, or the program.
// Like all names that are derived, it is one that every host accepts.
func NameOfCommand(command []string) string {
	program := strings.TrimSuffix(filepath.Base(command[0]), ".exe")
	skip, launcher := launchers[program]
	if !launcher {
		return tidyName(program)
	}
	for _, arg := range command[1:] {
		switch {
		case strings.HasPrefix(arg, "-") || slices.Contains(skip, arg):
		case strings.ContainsAny(arg, " \t\n;"):
			return tidyName(program) // a script
		default:
			return nameOfPackage(arg)
		}
	}
	return tidyName(program)
}

// nameOfPackage derives a name from "@scope/name@version", or from a path.
func nameOfPackage(arg string) string {
	if at := strings.LastIndex(arg, "@"); at > 0 && !strings.ContainsAny(arg[at:], `/\`) {
		arg = arg[:at]
	}
	parts := strings.FieldsFunc(arg, func(r rune) bool { return r == '/' || r == '\\' })
	for _, part := range slices.Backward(parts) {
		name := part
		if ext := filepath.Ext(part); slices.Contains([]string{".js", ".mjs", ".cjs", ".ts", ".py", ".go", ".jar", ".sh"}, ext) {
			name = strings.TrimSuffix(part, ext)
		}
		if !slices.Contains(plain, name) && strings.Trim(name, ".") != "" {
			return tidyName(name)
		}
	}
	return tidyName(strings.TrimSuffix(filepath.Base(arg), filepath.Ext(arg)))
}

// NameOfURL derives a name from the host of a URL, or from the name of its socket.
func NameOfURL(target string) string {
	if rest, ok := cutAny(target, "http+unix:", "unix://", "unix:"); ok {
		if i := strings.LastIndex(rest, ":/"); i >= 0 {
			rest = rest[:i]
		}
		base := filepath.Base(rest)
		return tidyName(strings.TrimSuffix(base, filepath.Ext(base)))
	}
	if rest, ok := strings.CutPrefix(target, "tcp:"); ok {
		target = "tcp://" + strings.TrimPrefix(rest, "//")
	}
	u, err := url.Parse(target)
	if err != nil {
		return tidyName("")
	}
	return tidyName(u.Hostname())
}

// maxName is the longest name, which is what hosts take.
const maxName = 64

// tidyName keeps of a name what every host accepts in its configuration.
func tidyName(name string) string {
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
