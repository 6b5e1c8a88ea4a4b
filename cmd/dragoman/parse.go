package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// variable is a reference to the environment in the value of a header.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// headerName is what the name of a header may be made of.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// parseHeaders reads "Name: value" lines. Errors do not repeat values, which may
// be secrets.
func parseHeaders(lines []string, lookup func(string) (string, bool)) (http.Header, error) {
	h := make(http.Header)
	for i, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !headerName.MatchString(name) {
			return nil, fmt.Errorf("header %d is not of the form 'Name: value'", i+1)
		}
		var err error
		if value, err = expand(value, lookup); err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("header %s: its value has characters that no header may have", name)
		}
		h.Add(name, value)
	}
	return h, nil
}

// expand replaces ${VAR}.
func expand(value string, lookup func(string) (string, bool)) (string, error) {
	var err error
	value = variable.ReplaceAllStringFunc(value, func(ref string) string {
		name := variable.FindStringSubmatch(ref)[1]
		v, ok := lookup(name)
		if !ok {
			err = errors.Join(err, fmt.Errorf("the variable %s is not set", name))
		}
		return v
	})
	return value, err
}

// maxHeaderFile is the largest file of headers that is read.
const maxHeaderFile = 1 << 20

// readHeaderFile returns the headers in a file, one a line. Empty lines and
// those that begin with # are left out.
func readHeaderFile(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxHeaderFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxHeaderFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// assignment is a word that sets a variable, to a shell.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// splitCommand splits a command into words as a shell does, by white space and
// quotes. What only a shell could do is an error, because none is started.
func splitCommand(line string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
		quote  rune // the quote that we are in
		escape bool // the next character stands for itself
	)
	backslash := runtime.GOOS != "windows" // where it is part of paths
	for _, r := range line {
		switch {
		case escape:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escape = false
		case r == '\\' && quote != '\'' && backslash:
			escape, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(r)
		case r == '$' || r == '`' || quote == 0 && strings.ContainsRune("|&;<>()", r) || quote == 0 && r == '~' && !inWord:
			return nil, needsShell(string(r))
		case quote == '"':
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\r\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	switch {
	case quote != 0 || escape:
		return nil, errors.New("a quote is not closed")
	case len(words) == 0:
		return nil, errors.New("the command is empty")
	case assignment.MatchString(words[0]):
		name, _, _ := strings.Cut(words[0], "=")
		return nil, fmt.Errorf("%s= sets a variable, which takes a shell, and none is started; use -e %s=value", name, name)
	}
	return words, nil
}

func needsShell(what string) error {
	return fmt.Errorf(`%s means something to a shell, and none is started; put it in single quotes, or start the shell yourself: dragoman run -- sh -c '...'`, what)
}
