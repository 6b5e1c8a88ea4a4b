package main

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
)

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
