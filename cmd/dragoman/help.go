package main

import "github.com/spf13/cobra"

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
		{"Bring clients and servers together:", []*cobra.Command{runCommand(), connectCommand(), serveCommand()}},
		{"Use a server:", []*cobra.Command{
			toolsCommand(), resourcesCommand(), promptsCommand(), callCommand(), readCommand(), promptCommand(), completeCommand(), pingCommand(), listenCommand(),
		}},
		{"Find out about a server:", []*cobra.Command{probeCommand(), checkCommand(), benchCommand(), tapCommand(), replayCommand()}},
		{"Look after a gateway:", []*cobra.Command{statusCommand(), logsCommand(), restartCommand(), reloadCommand(), auditCommand()}},
		{"Sign in, and let in:", []*cobra.Command{loginCommand(), logoutCommand(), authCommand(), tokenCommand(), policyCommand()}},
		{"Configuration:", []*cobra.Command{configCommand(), importCommand(), exportCommand()}},
		{"More:", []*cobra.Command{everythingCommand(), versionCommand(), manualCommand()}}, // and what cobra adds
	}
}

// addCommands adds the commands in their groups, and arranges the help.
func addCommands(c *cobra.Command) {
	for _, g := range groups() {
		c.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, sub := range g.commands {
			sub.GroupID = g.title
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
