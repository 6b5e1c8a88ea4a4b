package config

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// readSome reads a file up to a limit. It may be a pipe, so its size says nothing.
func readSome(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}

// envFile adds the variables of a file to those of a server that are not set. Values
// are taken as they are: references in them are not replaced.
func (r *reader) envFile(s *Server, at place) {
	data, err := r.readFile(s.EnvFile, MaxValueFile)
	if err != nil {
		r.fail(at, fmt.Sprintf("the env file %s cannot be read: %v", clip(s.EnvFile), err), "")
		return
	}
	for i, line := range strings.Split(string(data), "\n") {
		name, value, ok := parseEnvLine(line)
		switch {
		case !ok:
			// The line is not shown: it may hold a secret.
			r.fail(at, fmt.Sprintf("line %d of the env file %s is not NAME=value", i+1, clip(s.EnvFile)), "")
			return
		case name == "":
			continue
		}
		if _, set := s.Env[name]; set {
			continue
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[name] = value
	}
}

// parseEnvLine reads NAME=value. The name is empty for a line that says nothing.
func parseEnvLine(line string) (name, value string, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", "", true
	}
	line = strings.TrimPrefix(line, "export ")
	name, value, ok = strings.Cut(line, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || !variableName.MatchString(name) {
		return "", "", false
	}
	if value == "" {
		return name, "", true
	}
	switch quote := value[0]; quote {
	case '\'', '"':
		end := closing(value, quote)
		if end < 0 {
			return "", "", false
		}
		value = value[1:end]
		if quote == '"' {
			value = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\"`, `"`, `\\`, `\`, `\$`, `$`).Replace(value)
		}
	default:
		if comment := strings.Index(value, " #"); comment >= 0 {
			value = strings.TrimSpace(value[:comment])
		}
	}
	return name, value, true
}

// closing returns where the quote at the beginning is closed, or -1.
func closing(s string, quote byte) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote == '"':
			i++
		case s[i] == quote:
			return i
		}
	}
	return -1
}
