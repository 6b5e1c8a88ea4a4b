package cli

import (
	"cmp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/admin"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/inspect"
	"github.com/dragoman-mcp/dragoman/internal/cli/serve"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/cli/use"
	"github.com/spf13/cobra"
)

// helpTemplate has the examples first: most who ask for help want to see one.
const helpTemplate = `{{.Short}}.

{{if .HasExample}}Examples:
{{.Example}}

{{end}}{{if .Runnable}}Usage:
  {{.UseLine}}

{{end}}{{if .Long}}{{.Long | trimTrailingWhitespaces}}

{{end}}{{if .HasAvailableSubCommands}}{{$all := .Commands}}{{if .Groups}}{{range $g := .Groups}}{{$g.Title}}
{{range $all}}{{if and (eq .GroupID $g.ID) .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}
{{end}}{{else}}Commands:
{{range $all}}{{if .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}
{{end}}{{end}}{{if .HasAvailableLocalFlags}}Flags:
{{.LocalFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}

{{end}}{{if .HasAvailableSubCommands}}"{{.CommandPath}} COMMAND --help" tells more about a command.
{{end}}`

// A group is commands for one thing that people want to do.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups returns all commands, in the order of the help.
func groups() []group {
	return []group{
		{"Bring clients and servers together:", []*cobra.Command{serve.RunCommand(), serve.ConnectCommand(), serve.ServeCommand()}},
		{"Use a server:", []*cobra.Command{
			use.ToolsCommand(), use.ResourcesCommand(), use.PromptsCommand(), use.CallCommand(), use.ReadCommand(), use.PromptCommand(), use.CompleteCommand(), use.PingCommand(), use.ListenCommand(),
		}},
		{"Find out about a server:", []*cobra.Command{inspect.ProbeCommand(), inspect.CheckCommand(), inspect.BenchCommand(), inspect.TapCommand(), inspect.ReplayCommand()}},
		{"Look after a gateway:", []*cobra.Command{admin.StatusCommand(), admin.LogsCommand(), admin.RestartCommand(), admin.ReloadCommand(), admin.AuditCommand()}},
		{"Sign in, and let in:", []*cobra.Command{admin.LoginCommand(), admin.LogoutCommand(), admin.AuthCommand(), admin.TokenCommand(), admin.PolicyCommand()}},
		{"Configuration:", []*cobra.Command{admin.InitCommand(), admin.AddCommand(), admin.RemoveCommand(), admin.ConfigCommand(), admin.HostsCommand(), admin.ImportCommand(), admin.ExportCommand()}},
		{"More:", []*cobra.Command{serve.EverythingCommand(), versionCommand(), manualCommand()}}, // and what cobra adds
	}
}

// addCommands adds the commands in their groups, and arranges the help.
func addCommands(c *cobra.Command) {
	for _, g := range groups() {
		c.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, sub := range g.commands {
			sub.GroupID = g.title
			sub.Example = cmp.Or(sub.Example, examplesBelow(sub))
			c.AddCommand(sub)
		}
		c.SetHelpCommandGroupID(g.title)
		c.SetCompletionCommandGroupID(g.title) // the last one
	}
	c.InitDefaultCompletionCmd()
	c.InitDefaultHelpCmd()
	c.SetHelpTemplate(helpTemplate)
	c.SetUsageTemplate(helpTemplate)
}

// examplesBelow returns an example of each command below one.
func examplesBelow(c *cobra.Command) string {
	var list []string
	for _, sub := range c.Commands() {
		first, _, _ := strings.Cut(sub.Example, "\n")
		list = append(list, first)
	}
	return strings.Join(list, "\n")
}

// markUsage has what cobra finds wrong with a command line end with the status of that.
func markUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return term.Usage("%w", flags.ExplainFlag(c, err)) })
	if check := c.Args; check != nil {
		c.Args = flags.ArgumentsChecked(check)
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}
