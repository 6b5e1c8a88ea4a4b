package use

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

// ReadCommand is dragoman read.
func ReadCommand() *cobra.Command {
	u := &Target{Wants: Wanted{Least: 1, Only: true, What: "the resource", Form: "URI", URIs: true}}
	var save string
	c := &cobra.Command{
		Use:   "read TARGET URI | URI -- command [args...]",
		Short: "Read a resource",
		Long: `Read a resource and print what it holds. What is no text is shown as a line, or saved.

` + TargetHelp,
		Example: `  dragoman read https://mcp.example.com/mcp docs://readme
  dragoman read .mcp.json#files file:///srv/logo.png --save .`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return u.do(c, args, nil, func(ctx context.Context, s *Session, rest []string) error {
				if !u.IsText() {
					return s.resourceNear(ctx, rest[0], s.print(ctx, c, "resources/read", map[string]any{"uri": rest[0]}))
				}
				parts, err := s.ReadResource(ctx, rest[0])
				for i := range parts {
					if err := showContents(c.OutOrStdout(), &parts[i], save); err != nil {
						return err
					}
				}
				return s.resourceNear(ctx, rest[0], err)
			})
		},
	}
	u.Add(c)
	c.Flags().StringVar(&save, "save", "", "`directory` to save what is no text in")
	return c
}

// PromptCommand is dragoman prompt.
func PromptCommand() *cobra.Command {
	u := &Target{Wants: Wanted{Least: 1, What: "the prompt", Form: "NAME …"}}
	c := &cobra.Command{
		Use:   "prompt TARGET NAME [key=value ...] | NAME [...] -- command [args...]",
		Short: "Show a prompt with its arguments filled in",
		Long: `Show the messages of a prompt with its arguments filled in.

` + TargetHelp,
		Example: `  dragoman prompt https://mcp.example.com/mcp review language=Go`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return u.do(c, args, nil, func(ctx context.Context, s *Session, rest []string) error {
				values, err := pairs(rest[1:])
				if err != nil {
					return err
				}
				wanted, err := s.promptNamed(ctx, rest[0])
				if err != nil {
					return err
				}
				if err := s.checkArguments(wanted, values); err != nil {
					return err
				}
				if !u.IsText() {
					return s.print(ctx, c, "prompts/get", map[string]any{"name": wanted.Name, "arguments": values})
				}
				p, err := s.GetPrompt(ctx, wanted.Name, values)
				if err != nil {
					return err
				}
				for i := range p.Messages {
					fmt.Fprintf(c.OutOrStdout(), "%s:\n", redact.Printable(p.Messages[i].Role, ""))
					if err := showContent(c.OutOrStdout(), &p.Messages[i].Content, ""); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	u.Add(c)
	return c
}

// CompleteCommand is dragoman complete.
func CompleteCommand() *cobra.Command {
	u := &Target{Wants: Wanted{Least: 2, What: "the prompt or template, and an argument and how it begins,", Form: "NAME key=value …"}}
	c := &cobra.Command{
		Use:   "complete TARGET PROMPT|TEMPLATE key=value [key=value ...] | ... -- command [args...]",
		Short: "Show how an argument of a prompt or of a template may continue",
		Long: `Show how the first argument may continue, one value a line. The others are those that are
known already. A template of resources is named by its URI.

` + TargetHelp,
		Example: `  dragoman complete https://mcp.example.com/mcp review language=py
  dragoman complete .mcp.json#repos 'repo://{owner}/{name}' name=dra owner=acme`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return u.do(c, args, nil, func(ctx context.Context, s *Session, rest []string) error {
				known, err := pairs(rest[2:])
				if err != nil {
					return err
				}
				name, value, ok := strings.Cut(rest[1], "=")
				if !ok || name == "" {
					return term.Usage("%q is not of the form key=value", rest[1])
				}
				ref := client.Ref{Prompt: rest[0]}
				if strings.Contains(rest[0], ":") {
					ref = client.Ref{URI: rest[0]}
				} else if u.gateway != "" {
					wanted, err := s.promptNamed(ctx, rest[0])
					if err != nil {
						return err
					}
					ref.Prompt = wanted.Name
				}
				found, err := s.Complete(ctx, ref, name, value, known)
				if err != nil {
					return s.without("completions", err)
				}
				if !u.IsText() {
					return u.Value(c.OutOrStdout(), found)
				}
				for _, v := range found.Values {
					fmt.Fprintln(c.OutOrStdout(), redact.Printable(v, ""))
				}
				return nil
			})
		},
	}
	u.Add(c)
	return c
}

// resourceNear adds to the error of a resource that is not there which one may be meant. Only the
// server knows: it may have more than it lists.
func (s *Session) resourceNear(ctx context.Context, uri string, err error) error {
	if e, ok := errors.AsType[*dragoman.Error](err); !ok || e.Code != protocol.CodeResourceNotFound && e.Code != protocol.CodeInvalidParams {
		return err
	}
	resources, failed := s.Resources(ctx)
	if failed != nil {
		return err
	}
	names := make([]string, len(resources))
	for i := range resources {
		names[i] = resources[i].URI
	}
	return &term.Failure{Status: term.ExitError, Hint: humanize.SuggestHint(uri, slices.Values(names)), Err: err}
}

// checkArguments returns an error if a prompt wants to know what is not given, and warns of what it
// does not know.
func (s *Session) checkArguments(p *client.Prompt, values map[string]string) error {
	var strange []string
	for name := range values {
		if !slices.ContainsFunc(p.Arguments, func(a client.PromptArgument) bool { return a.Name == name }) {
			strange = append(strange, name)
		}
	}
	slices.Sort(strange)
	for _, a := range p.Arguments {
		if _, ok := values[a.Name]; !ok && a.Required {
			and := ""
			if len(strange) > 0 {
				and = ", and there is no " + strings.Join(strange, ", ")
			}
			return term.Usage("%s is missing%s: %s", a.Name, and, promptLine(p))
		}
	}
	if len(strange) > 0 {
		s.Use.Console.Warnf("there is no argument %s, which the server may ignore: %s", strings.Join(strange, ", "), promptLine(p))
	}
	return nil
}

// print makes a request and writes its result as it is.
func (s *Session) print(ctx context.Context, c *cobra.Command, method string, params any) error {
	result, err := s.Request(ctx, method, params)
	if err != nil {
		return err
	}
	return s.Use.Value(c.OutOrStdout(), result)
}

// pairs reads key=value words.
func pairs(words []string) (map[string]string, error) {
	values := make(map[string]string, len(words))
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, term.Usage("%q is not of the form key=value", word)
		}
		values[name] = value
	}
	return values, nil
}
