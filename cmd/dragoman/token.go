package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/policy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tokenFileUsage is what the flag of that name means.
const tokenFileUsage = "`file` of tokens that let clients in, from dragoman token new or with a token in each line; it is read again when it changes" // #nosec G101 -- the help of a flag

func tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make and revoke tokens that let clients in",
		Long: `Make and revoke tokens that let clients in to "dragoman run" and "dragoman serve". They are
kept as digests in a file that --token-file or auth.tokenFile names.`,
	}
	c.AddCommand(tokenNewCommand(), tokenListCommand(), tokenRevokeCommand())
	return c
}

func tokenNewCommand() *cobra.Command {
	var (
		file, expires string
		t             policy.Token
	)
	c := &cobra.Command{
		Use:   "new --name NAME [flags]",
		Short: "Make a token, and print it",
		Long: `Make a token, print it, and keep its digest. It is shown this once: give it to its holder,
who sends it as "Authorization: Bearer TOKEN". Whoever has it is let in as token:NAME.`,
		Example: `  dragoman token new --name alice
  dragoman token new --name ci --scope search:read --expires 90d --file tokens.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if t.Name == "" {
				return errors.New("a token needs a name: --name NAME")
			}
			path, err := tokenFile(file)
			if err != nil {
				return err
			}
			t.Created = time.Now().UTC().Truncate(time.Second)
			if expires != "" {
				life, err := parseDays(expires)
				if err != nil {
					return fmt.Errorf("--expires: %w", err)
				}
				t.Expires = t.Created.Add(life)
			}
			var secret string
			secret, t.Hash = policy.NewSecret()
			if err := policy.AddToken(c.Context(), path, &t); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "kept in %s; clients send it as Authorization: Bearer TOKEN\n", path)
			_, err = fmt.Fprintln(c.OutOrStdout(), secret)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&t.Name, "name", "", "`name` of who holds the token")
	f.StringArrayVar(&t.Scopes, "scope", nil, "`scope` that it grants (repeatable)")
	f.StringArrayVar(&t.Groups, "group", nil, "`group` that its holder belongs to (repeatable)")
	f.StringVar(&expires, "expires", "", "`time` that it is good for, such as 90d or 12h (default: for ever)")
	addTokenFile(f, &file)
	return c
}

func tokenListCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "list", Short: "List the tokens, without the tokens themselves", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := tokenFile(file)
			if err != nil {
				return err
			}
			list, err := policy.ReadTokens(path)
			if err != nil {
				return err
			}
			out := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(out, "NAME\tSCOPES\tGROUPS\tCREATED\tEXPIRES")
			for _, t := range list {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", t.Name, orDash(strings.Join(t.Scopes, " ")), orDash(strings.Join(t.Groups, " ")),
					orDash(day(t.Created)), orDash(day(t.Expires)))
			}
			return out.Flush()
		},
	}
	addTokenFile(c.Flags(), &file)
	return c
}

func tokenRevokeCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a token", Args: cobra.ExactArgs(1),
		Long: `Revoke a token. Programs that use the file let nobody in with it from then on, and end the
streams that its holder has open, within seconds.`,
		RunE: func(c *cobra.Command, args []string) error {
			path, err := tokenFile(file)
			if err != nil {
				return err
			}
			if err := policy.RemoveToken(c.Context(), path, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "revoked %s\n", args[0])
			return err
		},
	}
	addTokenFile(c.Flags(), &file)
	return c
}

func addTokenFile(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "file", "", "`file` of the tokens (default: tokens.json in the configuration directory of the user)")
}

// useTokenFile has clients let in by the tokens of a file that the command line names.
func useTokenFile(to *config.File, file string) {
	if file == "" {
		return
	}
	if path, err := filepath.Abs(file); err == nil {
		file = path
	}
	to.Auth.TokenFile = file
	to.Files = append(to.Files, file)
}

// tokenFile returns the full path of the file of tokens.
func tokenFile(file string) (string, error) {
	if file != "" {
		return filepath.Abs(file)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("name the file by --file: %w", err)
	}
	return filepath.Join(dir, "dragoman", "tokens.json"), nil
}

// parseDays reads a time that may be given in days.
func parseDays(text string) (time.Duration, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n <= 0 || n > 36500 {
			return 0, fmt.Errorf("%q is no number of days", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("a time above zero is expected")
	}
	return d, err
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}
