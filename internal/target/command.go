package target

import (
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

func newCommand(s *Spec) (*Target, error) {
	switch {
	case s.Command[0] == "":
		return nil, &SpecError{"Command", "the command has no program; name it first, then its arguments"}
	case s.Transport != "" && s.Transport != "auto" && s.Transport != "stdio":
		return nil, &SpecError{"Transport", fmt.Sprintf("transport %q is for URLs, and the server is a command; leave it out", s.Transport)}
	case len(s.Header) > 0:
		return nil, &SpecError{"Header", "headers are for URLs, and the server is a command; to give it a secret use its environment"}
	}
	for i, entry := range s.Env {
		if strings.Index(entry, "=") < 1 {
			return nil, &SpecError{"Env", fmt.Sprintf("variable %d is not of the form NAME=value", i+1)}
		}
	}
	t := &Target{Name: s.Name, How: "command", ProbeTimeout: CommandProbeTimeout, Process: true}
	if t.Name == "" {
		t.Name = NameOfCommand(s.Command)
	}
	if Installs(s.Command) {
		t.ProbeTimeout = InstallProbeTimeout
	}
	t.Dialer = &stdio.Command{
		Path: s.Command[0], Args: s.Command[1:], Dir: s.Dir,
		Env: s.Env, InheritEnv: s.Inherit, User: s.User, Limits: s.Limits, Sandbox: s.Sandbox, Vet: s.Vet,
		Framing: s.Framing, MaxMessage: s.MaxMessage, OnStderr: s.OnStderr, OnText: s.OnText, Logger: s.Logger,
	}
	return t, nil
}
