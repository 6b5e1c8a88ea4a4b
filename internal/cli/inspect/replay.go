package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/cli/use"
	"github.com/dragoman-mcp/dragoman/internal/inspect/replay"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
)

// ReplayCommand is dragoman replay.
func ReplayCommand() *cobra.Command {
	u := &use.Target{Wants: use.Wanted{Least: 1, Only: true, What: "the recording", Form: "FILE"}}
	var speed float64
	var ignore []string
	var of string
	c := &cobra.Command{
		Use:   "replay FILE TARGET | FILE -- command [args...]",
		Short: "Send the requests of a recording to a server, and compare the answers",
		Long: `Send the requests of a recording of "dragoman tap --record" to a server, in a conversation of
our own, and show where the answers differ from the recorded ones. The exit status is 6 if
any do.

Requests are sent in their order, each when the one before is answered; with --speed they are sent
at the times of the recording. What the server asks is answered as it was then. Values that were
masked in the recording differ from nothing.

` + use.TargetHelp,
		Example: `  dragoman replay session.ndjson https://mcp.example.com/mcp
  dragoman replay session.ndjson --ignore 'result.content[*].text' -- npx -y some-server@next
  dragoman replay session.ndjson files --speed 10`,
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() == 0 || len(args) == 0 {
				return term.Usage("name the recording before the server: %s", c.UseLine())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if speed < 0 {
				return term.Usage("--speed is not negative")
			}
			rec, err := readRecording(args[0], of)
			if err != nil {
				return err
			}
			opts := rec.Options()
			if !c.Flags().Changed("era") {
				u.Era, opts.Revision = rec.Era.String(), rec.Version
			}
			if rec.Masked > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "secrets were masked in %s; they are sent as the mask\n", humanize.Count(rec.Masked, "request"))
			}
			if rec.Dropped > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "%s passed too fast to be recorded; what they were is not sent, and not compared\n", humanize.Count(rec.Dropped, "message"))
			}
			if c.ArgsLenAtDash() < 0 && len(args) > 1 {
				args[0], args[1] = args[1], args[0] // the target goes before
			}
			server, _, err := u.Take(c, args)
			if err != nil {
				return err
			}
			s, err := u.Open(c.Context(), server, opts)
			if err != nil {
				return err
			}
			defer s.End()
			return replayAll(c, s, rec, speed, ignore)
		},
	}
	u.Add(c)
	c.ValidArgsFunction = nil // a file comes first
	c.Flags().Float64Var(&speed, "speed", 0, "send at the times of the recording, so many times as fast: 1 is as fast as it was (default: each after the other)")
	c.Flags().StringArrayVar(&ignore, "ignore", nil, "`path` of an answer that may differ, such as result.content[0].text; * and ? stand for any characters (repeatable)")
	c.Flags().StringVar(&of, "server", "", "`name` of the server, in a recording of several of a gateway")
	return c
}

func readRecording(file, server string) (*replay.Recording, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, term.Usage("%w", err)
	}
	defer f.Close()
	rec, err := replay.Read(f, server)
	if err != nil {
		return nil, term.Usage("%s: %w", file, err)
	}
	return rec, nil
}

// replayed is what came of a step, for programs.
type replayed struct {
	Line        int                 `json:"line"`
	Method      string              `json:"method"`
	Name        string              `json:"name,omitempty"`
	Ms          float64             `json:"ms"`
	Differences []replay.Difference `json:"differences,omitempty"`
	Error       string              `json:"error,omitempty"`
}

// replayAll sends a recording, and shows what came of it.
func replayAll(c *cobra.Command, s *use.Session, rec *replay.Recording, speed float64, ignore []string) error {
	out := c.OutOrStdout()
	different, failed, written := 0, 0, error(nil)
	err := rec.Run(c.Context(), s, speed, ignore, func(r replay.Result) {
		switch {
		case r.Err != nil:
			failed++
		case len(r.Differences) > 0:
			different++
		}
		if !s.Use.IsText() {
			one := replayed{Line: r.Line, Method: r.Method, Name: r.Name, Ms: float64(r.Took.Microseconds()) / 1000, Differences: r.Differences}
			if r.Err != nil {
				one.Error = redact.Text(r.Err.Error())
			}
			written = errors.Join(written, s.Use.Value(out, one))
			return
		}
		if r.Err == nil && len(r.Differences) == 0 {
			return
		}
		fmt.Fprintf(out, "line %d: %s %s\n", r.Line, redact.Printable(r.Method, ""), redact.Printable(redact.URI(r.Name), ""))
		if r.Err != nil {
			fmt.Fprintf(out, "  no answer: %s\n", redact.Printable(redact.Text(r.Err.Error()), ""))
		}
		for _, d := range r.Differences {
			fmt.Fprintf(out, "  %s\n    - %s\n    + %s\n", redact.Printable(d.Path, ""), shown(d.Want), shown(d.Got))
		}
	})
	switch {
	case err != nil:
		return err
	case written != nil:
		return written
	}
	if s.Use.IsText() {
		fmt.Fprintf(c.ErrOrStderr(), "%s sent: %d answered otherwise, %d not at all\n", humanize.Count(len(rec.Steps), "request"), different, failed)
	}
	if different+failed > 0 {
		return &term.Failure{Status: term.ExitFindings, Err: fmt.Errorf("%d of %d answers differ from the recording", different+failed, len(rec.Steps))}
	}
	return nil
}

// maxShownValue is how much of a value is shown that differs.
const maxShownValue = 200

// shown returns a value that differs for people.
func shown(value json.RawMessage) string {
	if value == nil {
		return "(nothing)"
	}
	return redact.Printable(redact.Value(value, maxShownValue), "")
}
