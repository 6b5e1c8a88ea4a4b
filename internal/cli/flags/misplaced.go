package flags

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/spf13/cobra"
)

// CheckCommand refuses a server's command that is a whole command line in a single word, or a
// configuration file. path is the command of ours that is used, and form what it takes beside the
// server.
func CheckCommand(path, form string, command []string) error {
	word := command[0]
	if file, _, _ := strings.Cut(word, "#"); isConfiguration(file) {
		use := "to use its servers: " + joinWords(path, word, form)
		switch path {
		case "dragoman run":
			use = "to serve it: dragoman serve " + file
		case "dragoman connect":
			use = "to serve it on standard input and output: dragoman serve --stdio " + file
		}
		return term.Usage("%s is a configuration file, not a command; %s", file, use)
	}
	if len(command) > 1 || !strings.ContainsAny(word, " \t") || isFile(word) {
		return nil
	}
	if _, err := SplitCommand(word); err != nil {
		return term.Usage("%q is a single word, and is not split: %w", word, err)
	}
	return term.Usage("%q is a single word; write the command and its arguments as separate words: %s", word, joinWords(path, form, "--", strings.TrimSpace(word)))
}

// CommandHint returns how a word is written that is a server's command and stands where no command
// can stand; empty if it does not look like a command.
func CommandHint(path, form, word string) string {
	if !IsCommand(word) {
		return ""
	}
	return "for a command write -- before it: " + AsCommand(path, form, word)
}

// AsCommand returns the command line that has a word as the server's command, with the interpreter
// of a script that is not executable.
func AsCommand(path, form, word string) string {
	if info, err := os.Stat(word); err == nil && !info.IsDir() {
		if interpreter := interpreters[filepath.Ext(word)]; interpreter != "" && info.Mode()&0o111 == 0 {
			word = interpreter + " " + word
		} else if filepath.Base(word) == word {
			word = "." + string(filepath.Separator) + word
		}
	}
	return joinWords(path, form, "--", strings.TrimSpace(word))
}

// interpreters are the programs that run scripts, by the extension of these.
var interpreters = map[string]string{".py": "python3", ".js": "node", ".mjs": "node", ".cjs": "node", ".sh": "sh", ".rb": "ruby"}

// IsCommand reports whether a word looks like a server's command: a path, a program of PATH, or a
// whole command line.
func IsCommand(word string) bool {
	if word == "" || target.IsURL(word) {
		return false
	}
	_, err := exec.LookPath(word)
	return err == nil || strings.ContainsAny(word, " \t/"+string(filepath.Separator)) || isFile(word)
}

// IsConfigurationName reports whether a file is called like a configuration.
func IsConfigurationName(file string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json", ".jsonc", ".toml"}, strings.ToLower(filepath.Ext(file)))
}

func isConfiguration(file string) bool { return IsConfigurationName(file) && isFile(file) }

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// isProgram reports whether a file can be executed.
func isProgram(name string) bool {
	path, err := exec.LookPath(name)
	return err == nil && path != ""
}

func joinWords(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

// CheckFiles refuses arguments that are no configuration files: a URL, a command, or a server of a
// file.
func CheckFiles(c *cobra.Command, files []string) error {
	what := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
	if dash := c.ArgsLenAtDash(); dash >= 0 && dash < len(files) && (!isFile(files[dash]) || isProgram(files[dash])) {
		return term.Usage("%s takes configuration files, not a command; to serve one server: dragoman run -- %s", what, strings.Join(files[dash:], " "))
	}
	for _, file := range files {
		name, _, ofFile := strings.Cut(file, "#")
		_, err := exec.LookPath(file)
		switch {
		case isFile(file):
		case target.IsURL(file):
			return term.Usage("%s takes configuration files, not a URL; to serve one server: dragoman run %s", what, file)
		case ofFile && isFile(name):
			return term.Usage("%s takes whole configuration files: %s %s", what, c.CommandPath(), name)
		case err == nil:
			return term.Usage("%s takes configuration files, not a command; to serve one server: dragoman run -- %s", what, strings.Join(files, " "))
		}
	}
	return nil
}
