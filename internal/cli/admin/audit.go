package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
)

// AuditCommand is dragoman audit.
func AuditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Check an audit log, or show what is in it",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(auditVerifyCommand(), auditShowCommand())
	return c
}

func auditVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "verify FILE...",
		Example: "  dragoman audit verify /var/log/dragoman/audit.jsonl",
		Short:   "Check that nobody has changed an audit log",
		Long: `Check that nobody has changed an audit log: that each record is as it was written, that
none is missing, and that they stand in their order.

FILE is the one that the configuration names; those that were put aside are found beside
it. Several files are taken as parts of one log. The last record is printed with its hash:
a user who can write the files can make all of them again, which shows only if that hash was
kept elsewhere before.

The exit status is 0 if nothing is wrong. Else it is 1, and the first line that is wrong
is named.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error { return verifyAudit(c.OutOrStdout(), files) },
	}
}

// verifyAudit checks a log, and says what is in it.
func verifyAudit(w io.Writer, files []string) error {
	s, err := audit.Verify(files...)
	if err != nil {
		return err
	}
	if s.Last == nil {
		_, err := fmt.Fprintln(w, "there are no records")
		return err
	}
	fmt.Fprintf(w, "%s in %s, nothing is wrong\n", humanize.Count(int(s.Records), "record"), humanize.Count(s.Files, "file"))
	fmt.Fprintf(w, "first: record %d of %s\n", s.First.Seq, s.First.When)
	fmt.Fprintf(w, "last:  record %d of %s, hash %s\n", s.Last.Seq, s.Last.When, s.Last.Hash)
	if s.Torn > 0 {
		fmt.Fprintf(w, "%s by a kill or a full disk, and marked\n", humanize.Count(s.Torn, "place")+" where a record was cut")
	}
	if s.Lost > 0 {
		fmt.Fprintf(w, "%s could not be written, as the log says itself\n", humanize.Count(int(s.Lost), "event"))
	}
	if s.Unfinished {
		fmt.Fprintln(w, "the last line is not whole: it is being written, or the process was killed")
	}
	return nil
}

// An auditFilter says which records are shown.
type auditFilter struct {
	who, server, outcome, since string
	json                        bool
	from                        time.Time
}

func auditShowCommand() *cobra.Command {
	f := &auditFilter{}
	c := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show what is in an audit log",
		Long: `Show what is in an audit log, a record a line, oldest first. The files that were put aside
are found beside FILE. Nothing is checked: see dragoman audit verify.`,
		Example: `  dragoman audit show audit.log --since 24h --outcome denied
  dragoman audit show audit.log --who ada --server files --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error { return f.show(c.OutOrStdout(), files) },
	}
	flags := c.Flags()
	flags.StringVar(&f.who, "who", "", "records of this principal, address, client or session alone")
	flags.StringVar(&f.server, "server", "", "records of this `server` alone")
	flags.StringVar(&f.outcome, "outcome", "", "records with this outcome alone: answered, error, denied, refused, cancelled or unknown")
	flags.StringVar(&f.since, "since", "", "records from this `time` on alone: 24h for a day ago, or 2026-01-31, or 2026-01-31T12:00:00Z")
	flags.BoolVar(&f.json, "json", false, "print the records as JSON, a line each")
	return c
}

// parseSince reads a time, or how long ago it is.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New("--since is no time: write 24h, 2026-01-31 or 2026-01-31T12:00:00Z")
}

// show prints the records that are wanted.
func (f *auditFilter) show(w io.Writer, files []string) (err error) {
	if f.from, err = parseSince(f.since, time.Now()); err != nil {
		return err
	}
	if all := []string{"", audit.Answered, audit.Failed, audit.Denied, audit.Refused, audit.Cancelled, audit.Unknown}; !slices.Contains(all, f.outcome) {
		return errors.New("--outcome is one of" + strings.Join(all, " "))
	}
	out := bufio.NewWriter(w)
	read := audit.Read(func(r *audit.Record) bool {
		if f.wants(r) {
			err = f.print(out, r)
		}
		return err == nil
	}, files...)
	return errors.Join(read, err, out.Flush())
}

func (f *auditFilter) wants(r *audit.Record) bool {
	return (f.who == "" || slices.Contains([]string{r.Principal, r.Address, r.Client, r.Session}, f.who)) &&
		(f.server == "" || r.Server == f.server) && (f.outcome == "" || r.Outcome == f.outcome) && !r.Time.Before(f.from)
}

func (f *auditFilter) print(w io.Writer, r *audit.Record) error {
	if f.json {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(append(redact.AppendEscaped(nil, text), '\n'))
		return err
	}
	_, err := fmt.Fprintln(w, describeRecord(r))
	return err
}

// describeRecord returns a record in a line: when, what, and the rest by names.
func describeRecord(r *audit.Record) string {
	words := []string{r.Time.UTC().Format("2006-01-02 15:04:05.000"), show(r.Kind)}
	add := func(name, value string) {
		if value != "" {
			words = append(words, name+"="+show(value))
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			words = append(words, name+"="+strconv.FormatInt(n, 10))
		}
	}
	if r.Outcome != "" {
		words = append(words, show(r.Outcome))
	}
	add("server", r.Server)
	add("method", r.Method)
	add("name", r.Name)
	add("principal", r.Principal)
	add("address", r.Address)
	add("client", r.Client)
	add("session", r.Session)
	add("transport", r.Transport)
	number("code", int64(r.Code))
	add("rule", r.Rule)
	add("reason", r.Reason)
	if r.Micros > 0 {
		add("took", r.Duration.String())
	}
	number("in", int64(r.In))
	number("out", int64(r.Out))
	number("count", int64(r.Count))
	add("request", r.Request)
	add("arguments", r.Arguments)
	return strings.Join(words, " ")
}

// show returns a text in quotes if it could be taken for something else.
func show(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || r == '"' || r == '=' || !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// showAuditStatus prints what is wrong with the audit log of a running gateway.
func showAuditStatus(w io.Writer, s *audit.Status) {
	if s == nil {
		return
	}
	if f := s.Failure; f != nil {
		fmt.Fprintf(w, "the audit log is not written since %s (%s lost): %s\n", f.Since.Format(time.TimeOnly), humanize.Count(int(s.Lost), "event"), f.Error)
	}
	if h := s.Webhook; h != nil && h.Error != "" {
		fmt.Fprintf(w, "the audit webhook was not told of %s: %s\n", humanize.Count(int(h.Dropped), "record"), h.Error)
	}
}
