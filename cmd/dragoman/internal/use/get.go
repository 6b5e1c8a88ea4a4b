package use

import (
	"context"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/cmd/dragoman/internal/say"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/spf13/cobra"
)

// ReadCommand is dragoman read.
func ReadCommand() *cobra.Command {
	u := &Target{Wants: Wanted{Least: 1, Only: true, What: "the resource", Form: "URI"}}
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
					return s.print(ctx, c, "resources/read", map[string]any{"uri": rest[0]})
				}
				parts, err := s.ReadResource(ctx, rest[0])
				for i := range parts {
					if err := showContents(c.OutOrStdout(), &parts[i], save); err != nil {
						return err
					}
				}
				return err
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
				if !u.IsText() {
					return s.print(ctx, c, "prompts/get", map[string]any{"name": rest[0], "arguments": values})
				}
				p, err := s.GetPrompt(ctx, rest[0], values)
				if err != nil {
					return s.without("prompts", err)
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
		Short: "Show how an argument of a prompt or of a template may go on",
		Long: `Show how the first argument may go on, one value a line. The others are those that are
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
					return say.Usage("%q is not of the form key=value", rest[1])
				}
				ref := client.Ref{Prompt: rest[0]}
				if strings.Contains(rest[0], ":") {
					ref = client.Ref{URI: rest[0]}
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
			return nil, say.Usage("%q is not of the form key=value", word)
		}
		values[name] = value
	}
	return values, nil
}
