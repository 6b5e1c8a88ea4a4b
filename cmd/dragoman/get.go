package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/spf13/cobra"
)

func readCommand() *cobra.Command {
	u := &targetSettings{wants: wanted{least: 1, only: true, what: "the resource", form: "URI"}}
	var save string
	c := &cobra.Command{
		Use:   "read TARGET URI | URI -- command [args...]",
		Short: "Read a resource",
		Long: `Read a resource and print what it holds. What is no text is shown as a line, or saved.

` + targetHelp,
		Example: `  dragoman read https://mcp.example.com/mcp docs://readme
  dragoman read .mcp.json#files file:///srv/logo.png --save .`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return u.do(c, args, nil, func(ctx context.Context, s *session, rest []string) error {
				if !u.isText() {
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
	u.add(c)
	c.Flags().StringVar(&save, "save", "", "`directory` to save what is no text in")
	return c
}

func promptCommand() *cobra.Command {
	u := &targetSettings{wants: wanted{least: 1, what: "the prompt", form: "NAME …"}}
	c := &cobra.Command{
		Use:   "prompt TARGET NAME [key=value ...] | NAME [...] -- command [args...]",
		Short: "Show a prompt with its arguments filled in",
		Long: `Show the messages of a prompt with its arguments filled in.

` + targetHelp,
		Example: `  dragoman prompt https://mcp.example.com/mcp review language=Go`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return u.do(c, args, nil, func(ctx context.Context, s *session, rest []string) error {
				values, err := pairs(rest[1:])
				if err != nil {
					return err
				}
				if !u.isText() {
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
	u.add(c)
	return c
}

func completeCommand() *cobra.Command {
	u := &targetSettings{wants: wanted{least: 2, what: "the prompt or template, and an argument and how it begins,", form: "NAME key=value …"}}
	c := &cobra.Command{
		Use:   "complete TARGET PROMPT|TEMPLATE key=value [key=value ...] | ... -- command [args...]",
		Short: "Show how an argument of a prompt or of a template may go on",
		Long: `Show how the first argument may go on, one value a line. The others are those that are
known already. A template of resources is named by its URI.

` + targetHelp,
		Example: `  dragoman complete https://mcp.example.com/mcp review language=py
  dragoman complete .mcp.json#repos 'repo://{owner}/{name}' name=dra owner=acme`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return u.do(c, args, nil, func(ctx context.Context, s *session, rest []string) error {
				known, err := pairs(rest[2:])
				if err != nil {
					return err
				}
				name, value, ok := strings.Cut(rest[1], "=")
				if !ok || name == "" {
					return usage("%q is not of the form key=value", rest[1])
				}
				ref := client.Ref{Prompt: rest[0]}
				if strings.Contains(rest[0], ":") {
					ref = client.Ref{URI: rest[0]}
				}
				found, err := s.Complete(ctx, ref, name, value, known)
				if err != nil {
					return s.without("completions", err)
				}
				if !u.isText() {
					return u.value(c.OutOrStdout(), found)
				}
				for _, v := range found.Values {
					fmt.Fprintln(c.OutOrStdout(), redact.Printable(v, ""))
				}
				return nil
			})
		},
	}
	u.add(c)
	return c
}

// print makes a request and writes its result as it is.
func (s *session) print(ctx context.Context, c *cobra.Command, method string, params any) error {
	result, err := s.Request(ctx, method, params)
	if err != nil {
		return err
	}
	return s.use.value(c.OutOrStdout(), result)
}

// pairs reads key=value words.
func pairs(words []string) (map[string]string, error) {
	values := make(map[string]string, len(words))
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, usage("%q is not of the form key=value", word)
		}
		values[name] = value
	}
	return values, nil
}
