package use

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/signature"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
)

// An item is an entry of a list that a server has.
type item struct {
	name, line, about string
	schema, raw       json.RawMessage
}

// listCommand returns a command that shows what a server offers.
func listCommand(what, long, example string, get func(context.Context, *Session) ([]item, error)) *cobra.Command {
	u := &Target{Wants: Wanted{URIs: what == "resources"}}
	var schema bool
	c := &cobra.Command{
		Use:   what + " [TARGET] [NAME...] | [NAME...] -- command [args...]",
		Short: "Show the " + what + " of a server",
		Long:  long + "\n\n" + TargetHelp + "\nWithout one it is all of the running gateway.",
		Example: strings.ReplaceAll(`  dragoman LIST https://mcp.example.com/mcp
  dragoman LIST .mcp.json#files
`, "LIST", what) + example,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return u.do(c, args, nil, func(ctx context.Context, s *Session, names []string) error {
				items, err := get(ctx, s)
				if err != nil && !s.lacks(what, err) { // else there are none
					return err
				}
				if items, err = s.choose(items, names, strings.TrimSuffix(what, "s")); err != nil {
					return s.hidden(ctx, what, err)
				}
				if len(items) == 0 {
					if denied := u.denied(ctx, s.server.Name, what); denied != nil {
						return denied
					}
					if u.IsText() {
						fmt.Fprintln(c.ErrOrStderr(), u.nothing(ctx, s, what))
					}
				}
				s.introduce(c.ErrOrStderr(), len(items), what)
				return s.show(c.OutOrStdout(), what, items, schema)
			})
		},
	}
	u.Add(c)
	if what == "tools" {
		c.Flags().BoolVar(&schema, "schema", false, "show the schemas of arguments and results, too")
	}
	return c
}

// ToolsCommand is dragoman tools.
func ToolsCommand() *cobra.Command {
	return listCommand("tools", `Show the tools of a server and how they are called, as in read_file(path:str, limit:int?): what
has a question mark can be left out, and so can what has a default.`,
		`  dragoman tools echo --schema -- npx -y @modelcontextprotocol/server-everything`,
		func(ctx context.Context, s *Session) (list []item, err error) {
			tools, err := s.Tools(ctx)
			for _, t := range tools {
				list = append(list, item{t.Name, signature.New(t.Name, t.InputSchema).String(), t.Description, t.InputSchema, t.Raw})
			}
			return list, err
		})
}

// PromptsCommand is dragoman prompts.
func PromptsCommand() *cobra.Command {
	return listCommand("prompts", "Show the prompts of a server and what they want to know.",
		`  dragoman prompts -- npx -y @modelcontextprotocol/server-everything`,
		func(ctx context.Context, s *Session) (list []item, err error) {
			prompts, err := s.Prompts(ctx)
			for i := range prompts {
				p := &prompts[i]
				list = append(list, item{name: p.Name, line: promptLine(p), about: p.Description, raw: p.Raw})
			}
			return list, err
		})
}

// ResourcesCommand is dragoman resources.
func ResourcesCommand() *cobra.Command {
	return listCommand("resources", "Show the resources of a server, and the templates of those that it makes when they are read.",
		`  dragoman resources -- npx -y @modelcontextprotocol/server-everything`,
		func(ctx context.Context, s *Session) (list []item, err error) {
			resources, err := s.Resources(ctx)
			if err != nil {
				return nil, err
			}
			for _, r := range resources {
				list = append(list, item{name: r.URI, line: r.URI, about: describeResource(r.Name, r.Description, r.MIMEType), raw: r.Raw})
			}
			templates, err := s.Templates(ctx)
			if err != nil && len(list) > 0 {
				return list, nil //nolint:nilerr // some servers know resources and no templates
			}
			for _, t := range templates {
				list = append(list, item{name: t.URITemplate, line: t.URITemplate, about: describeResource(t.Name, t.Description, t.MIMEType), raw: t.Raw})
			}
			return list, err
		})
}

func describeResource(name, about, kind string) string {
	if about != "" {
		name = about
	}
	if kind != "" {
		name = strings.TrimSpace(term.Summary(name) + " (" + kind + ")")
	}
	return name
}

// choose returns the entries that are named; all if none is.
func (s *Session) choose(items []item, names []string, kind string) (list []item, err error) {
	if len(names) == 0 {
		return items, nil
	}
	for _, name := range names {
		i, err := s.find(items, name, kind)
		if err != nil {
			return nil, err
		}
		list = append(list, items[i])
	}
	return list, nil
}

// find returns the place of a name in a list. What a whole gateway has can go by the name that its
// server has for it, without that of the server before it, if there is but one.
func (s *Session) find(items []item, name, kind string) (int, error) {
	var found []item
	at, short := -1, items
	for i := range items {
		if items[i].name == name {
			return i, nil
		}
		if s.Use.gateway != "" && strings.HasSuffix(items[i].name, "_"+name) {
			at, found = i, append(found, items[i])
		}
	}
	switch {
	case len(found) == 1:
		return at, nil
	case len(found) > 1:
		short = found
	case s.Use.gateway != "": // a slip is looked for in the shorter names, too
		short = slices.Clone(items)
		for i := range items {
			if _, own, ok := strings.Cut(items[i].name, "_"); ok && kind != "resource" {
				short = append(short, item{name: own})
			}
		}
	}
	err, isNear := unknown(name, kind, s.Name(), short)
	if s.Use.gateway != "" {
		if hint := flags.CommandHint(s.Use.path, s.Use.Wants.Form, name); hint != "" && !isNear {
			return 0, &term.Failure{Status: term.ExitUsage, Err: fmt.Errorf("%q is neither a server nor a %s of the gateway", name, kind), Hint: hint}
		}
		err.Hint += "\nfor one server of the gateway write its name before that of the " + kind + ": " + few(s.Use.servers)
	}
	return 0, err
}

// unknown says that a server does not have something of that name, and what it has. isNear says that
// there are names that may have been meant.
func unknown(name, kind, server string, items []item) (f *term.Failure, isNear bool) {
	var names []string
	for _, it := range items {
		names = append(names, it.name)
	}
	f = &term.Failure{Status: term.ExitUsage, Err: fmt.Errorf("%s has no %s %q", server, kind, name)}
	if f.Hint = humanize.SuggestHint(name, slices.Values(names)); f.Hint != "" {
		return f, true
	}
	if len(names) > 0 {
		f.Hint = "it has " + few(names)
	}
	return f, false
}

// few lists some names.
func few(names []string) string {
	if len(names) > maxNames {
		return strings.Join(names[:maxNames], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// maxNames is how many names are listed in an error.
const maxNames = 12

// introduce says on standard error what was asked.
func (s *Session) introduce(w io.Writer, n int, what string) {
	if !s.Use.IsText() || !term.ToTerminal(w) {
		return
	}
	fmt.Fprintf(w, "%s  %s  MCP %s (%s)  %s  %s\n", redact.Printable(s.Name(), ""), s.How, s.Revision(), s.Era(), humanize.Count(n, strings.TrimSuffix(what, "s")), humanize.Duration(s.took))
}

// show writes entries of a list.
func (s *Session) show(w io.Writer, what string, items []item, schema bool) error {
	if !s.Use.IsText() {
		raw := make([]json.RawMessage, len(items))
		for i := range items {
			raw[i] = items[i].raw
		}
		return s.Use.List(w, what, raw)
	}
	rows := make([][2]string, len(items))
	for i := range items {
		rows[i] = [2]string{redact.Printable(items[i].line, ""), redact.Printable(term.Summary(items[i].about), "")}
	}
	if !schema {
		return term.Columns(w, rows)
	}
	for i := range items {
		if err := term.Columns(w, rows[i:i+1]); err != nil {
			return err
		}
		var full struct {
			InputSchema, OutputSchema json.RawMessage
		}
		_ = json.Unmarshal(items[i].raw, &full) // it was read before
		shown := map[string]json.RawMessage{"inputSchema": full.InputSchema}
		if full.OutputSchema != nil {
			shown["outputSchema"] = full.OutputSchema
		}
		text, err := json.MarshalIndent(shown, "  ", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %s\n", redact.Printable(string(text), "\n"))
	}
	return nil
}

// toolNamed returns a tool of the server.
func (s *Session) toolNamed(ctx context.Context, name string) (*client.Tool, error) {
	tools, err := s.Tools(ctx)
	if err != nil {
		return nil, s.without("tools", err)
	}
	tool, err := named(s, tools, func(t *client.Tool) string { return t.Name }, name, "tool")
	return tool, s.hidden(ctx, "tools", err)
}

// promptNamed returns a prompt of the server.
func (s *Session) promptNamed(ctx context.Context, name string) (*client.Prompt, error) {
	prompts, err := s.Prompts(ctx)
	if err != nil {
		return nil, s.without("prompts", err)
	}
	prompt, err := named(s, prompts, func(p *client.Prompt) string { return p.Name }, name, "prompt")
	return prompt, s.hidden(ctx, "prompts", err)
}

// named returns what goes by a name in a list, see find.
func named[T any](s *Session, list []T, nameOf func(*T) string, name, kind string) (*T, error) {
	items := make([]item, len(list))
	for i := range list {
		items[i].name = nameOf(&list[i])
	}
	i, err := s.find(items, name, kind)
	if err != nil {
		return nil, err
	}
	return &list[i], nil
}

// promptLine is how a prompt is shown: its name and what it wants to know.
func promptLine(p *client.Prompt) string {
	var names []string
	for _, a := range p.Arguments {
		name := a.Name
		if !a.Required {
			name += "?"
		}
		names = append(names, name)
	}
	return p.Name + "(" + strings.Join(names, ", ") + ")"
}
