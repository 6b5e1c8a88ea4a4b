package use

import (
	"context"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/signature"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

// completeTime is how long a shell waits for us. Commands are not started for it.
const completeTime = 3 * time.Second

// completeArguments completes names of servers, and behind one those of its tools, prompts
// and resources, and their arguments.
func (u *Target) completeArguments(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	level := &term.LogLevel{}
	level.Set(term.LevelNone)
	u.Speak(term.NewConsole(level, term.FormatAuto)) // a shell completes a line: nothing is said, and nobody is asked
	u.quiet = true
	if len(args) == 0 {
		names := serverNames(ctx)
		if before, _, ok := strings.Cut(typed, "#"); ok {
			names = nil
			file, _ := config.Load(nil, before)
			for _, name := range file.Names {
				names = append(names, before+"#"+name)
			}
		}
		return names, cobra.ShellCompDirectiveDefault
	}
	live, _ := control.Live() // or none
	if !target.IsURL(args[0]) && !strings.Contains(args[0], "#") && u.Socket == "" && len(live) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	server, err := u.Find(ctx, args[0])
	if err != nil || server.URL == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := u.Open(ctx, server, &client.Options{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.End()
	return s.completions(ctx, c.Name(), args[1:], typed)
}

// completions returns how a word behind the target may continue.
func (s *Session) completions(ctx context.Context, command string, before []string, typed string) ([]string, cobra.ShellCompDirective) {
	var list []string
	switch {
	case command == "call" && len(before) > 0:
		tool, err := s.toolNamed(ctx, before[0])
		if err != nil {
			break
		}
		sig := signature.New(tool.Name, tool.InputSchema)
		if name, _, ok := strings.Cut(typed, "="); ok {
			for _, value := range sig.Values(name) {
				list = append(list, redact.Printable(name+"="+value, ""))
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		}
		for _, name := range sig.Names() {
			list = append(list, redact.Printable(name, "")+"=")
		}
		return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	case (command == "prompt" || command == "complete") && len(before) > 0:
		prompt, err := s.promptNamed(ctx, before[0])
		if err != nil {
			break
		}
		if name, value, ok := strings.Cut(typed, "="); ok {
			if found, err := s.Complete(ctx, client.Ref{Prompt: prompt.Name}, name, value, nil); err == nil {
				for _, v := range found.Values {
					list = append(list, redact.Printable(name+"="+v, ""))
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		}
		for _, a := range prompt.Arguments {
			list = append(list, redact.Printable(a.Name, "")+"=\t"+redact.Printable(term.Summary(a.Description), ""))
		}
		return list, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	case command == "tools" || command == "call":
		tools, _ := s.Tools(ctx) // or none
		for _, t := range tools {
			list = append(list, described(t.Name, t.Description))
		}
	case (command == "prompts" || command == "prompt" || command == "complete") && len(before) == 0:
		prompts, _ := s.Prompts(ctx) // or none
		for _, p := range prompts {
			list = append(list, described(p.Name, p.Description))
		}
	case command == "resources" || command == "read" || command == "listen":
		resources, _ := s.Resources(ctx) // or none
		for _, r := range resources {
			list = append(list, described(r.URI, r.Name))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// described is how a shell is given a name and what it stands for: the words of a server, which
// cannot play tricks on a terminal.
func described(name, about string) string {
	return redact.Printable(name, "") + "\t" + redact.Printable(term.Summary(about), "")
}

// serverNames returns the names of servers of running gateways and of the configuration here.
func serverNames(ctx context.Context) (names []string) {
	names = control.Names(ctx)
	if here, ok := config.Find("."); ok {
		file, _ := config.Load(nil, here)
		names = append(names, file.Names...)
	}
	return names
}

// flagValues are the values of flags that have but a few.
var flagValues = map[string][]string{
	"era": flags.Eras, "isolation": flags.Isolations, "framing": {"auto", "lines", "content-length"},
	"output": term.Formats, "transport": target.Orders, "log-level": term.LogLevels, "log-format": {term.FormatAuto, term.FormatText, term.FormatJSON},
	"level": protocol.LogLevels,
}

// CompleteFlags has shells complete the values of flags.
func CompleteFlags(c *cobra.Command) {
	local := c.LocalFlags()
	for name, values := range flagValues {
		if local.Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // or the command has done so itself
		}
	}
	for _, sub := range c.Commands() {
		CompleteFlags(sub)
	}
}
