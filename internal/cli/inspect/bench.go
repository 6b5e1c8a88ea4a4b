package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/cli/use"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/inspect/bench"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

// A benching is how a server is measured.
type benching struct {
	use.Target
	tool, args  string
	load        bench.Options
	connections int
	warmUp      time.Duration
	compare     string
	trusted     bool // the server to compare with

	minRatio, minRate float64
	maxP99            time.Duration
}

const (
	benchDuration = 10 * time.Second
	benchWarmUp   = time.Second

	// maxInFlight is how many calls one conversation may have in flight.
	maxInFlight = 1000
)

// BenchCommand is dragoman bench.
func BenchCommand() *cobra.Command {
	b := &benching{Target: use.Target{Wants: use.Wanted{Only: true, What: "--compare names a second one"}}}
	c := &cobra.Command{
		Use:   "bench [TARGET] | -- command [args...]",
		Short: "Measure how many calls a server answers, and how long it takes",
		Long: `Call a tool of a server over and over, or ping it, and show how many calls it answers in a second
and how long they take.

By default -c calls are in flight at any time. With --rate, so many are made a second, and the
time of each counts from when it should have begun: what a server that stalls would have kept
waiting counts too. -c bounds those in progress then.

With --compare, two servers take turns, with the same settings, and the ratio is how many times
as many calls the first one answers; with --rate it is how many times as long the second one
takes (p50). What -H, tokens and certificates prove is for the origin of the first one alone, unless
--compare-credentials is given. The exit status is 7 if a threshold is missed.

` + use.TargetHelp,
		Example: `  dragoman bench https://mcp.example.com/mcp
  dragoman bench files --tool read_file --args '{"path":"a"}' -c 32 -d 30s
  dragoman bench --rate 200 --max-p99 50ms -- npx -y some-server
  dragoman bench http://127.0.0.1:8808/mcp --compare http://127.0.0.1:9000/mcp --min-ratio 0.9`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error { return b.run(c, args) },
	}
	b.Add(c)
	f := c.Flags()
	f.StringVar(&b.tool, "tool", "", "`name` of the tool to call (default: ping)")
	f.StringVar(&b.args, "args", "", "its arguments, a `JSON` object, @FILE, or - for standard input")
	f.IntVarP(&b.load.InFlight, "concurrency", "c", 16, "number of concurrent calls")
	f.IntVar(&b.connections, "connections", 1, "conversations with the server that the calls are spread over")
	f.Float64Var(&b.load.Rate, "rate", 0, "calls to make a second (default: as many as there can be)")
	flags.AddDuration(f, &b.load.Duration, "duration", "d", benchDuration, "how long to make calls")
	f.IntVarP(&b.load.Count, "count", "n", 0, "how many calls to make, in place of -d")
	flags.AddDuration(f, &b.warmUp, "warm-up", "", benchWarmUp, "how long to make calls before that do not count")
	f.StringVar(&b.compare, "compare", "", "`target` to compare with, not a command")
	f.BoolVar(&b.trusted, "compare-credentials", false, "send -H, tokens and client certificates to the target of --compare, too, though it is of another origin")
	f.Float64Var(&b.minRatio, "min-ratio", 0, "least ratio, with --compare")
	f.Float64Var(&b.minRate, "min-rate", 0, "least number of calls a second")
	flags.AddDuration(f, &b.maxP99, "max-p99", "", 0, "longest time that 99 of 100 calls may take")
	return c
}

// checkBench refuses what makes no sense.
func (b *benching) checkBench(c *cobra.Command) error {
	given := c.Flags().Changed
	switch {
	case b.load.InFlight < 1 || b.connections < 1 || b.load.Rate < 0 || b.load.Count < 0 || b.load.Duration == 0:
		return term.Usage("-c and --connections are one at least, -d is longer than nothing, and nothing is negative")
	case b.load.InFlight > maxInFlight*b.connections:
		return term.Usage("-c is %d at most for each of the --connections", maxInFlight)
	case given("count") && given("duration"):
		return term.Usage("-n and -d are both given; choose one")
	case b.minRatio > 0 && b.compare == "":
		return term.Usage("--min-ratio needs --compare")
	case b.args != "" && b.tool == "":
		return term.Usage("--args needs --tool")
	}
	if b.load.Count > 0 {
		b.load.Duration = 0
	}
	return nil
}

func (b *benching) run(c *cobra.Command, args []string) error {
	if err := b.checkBench(c); err != nil {
		return err
	}
	server, _, err := b.Take(c, args)
	if err != nil {
		return err
	}
	ask := benchRequest{method: protocol.MethodPing}
	if b.tool != "" {
		given, err := use.ReadArguments(b.args, c.InOrStdin())
		if err != nil {
			return term.Usage("--args: %w", err)
		}
		if given == nil {
			given = json.RawMessage("{}")
		}
		params, _ := json.Marshal(map[string]any{"name": b.tool, "arguments": given}) // it is JSON
		ask = benchRequest{protocol.MethodCallTool, params}
	}
	ctx := c.Context()
	first, err := b.openSessions(func() (*use.Session, error) { return b.Open(ctx, server, &client.Options{}) })
	defer first.close()
	if err != nil {
		return err
	}
	if err := first.try(ctx, &ask); err != nil {
		return err
	}
	if b.compare == "" {
		return b.measure(ctx, c, first, ask)
	}
	other := b.other(server)
	against, err := other.Find(ctx, b.compare)
	if err != nil {
		return err
	}
	second, err := b.openSessions(func() (*use.Session, error) { return other.Open(ctx, against, &client.Options{}) })
	defer second.close()
	if err != nil {
		return err
	}
	if err := second.try(ctx, &ask); err != nil {
		return err
	}
	return b.measureTwo(ctx, c, first, second, ask)
}

// other returns the settings of the server to compare with: those of the first one. What proves
// who we are is for the origin of that alone, unless it is said that the other one may have it.
func (b *benching) other(first *config.Server) *use.Target {
	o := b.Target
	o.Command, o.URL, o.File = nil, "", ""
	if b.trusted || sameOrigin(b.compare, first.URL) {
		return &o
	}
	given := &b.SignIn
	o.Headers = nil
	o.SignIn = flags.SignInSettings{TLS: config.ServerTLS{CA: given.TLS.CA}, Proxy: given.Proxy, NoBrowser: given.NoBrowser, NoSignIn: given.NoSignIn, Timeout: given.Timeout}
	return &o
}

// sameOrigin reports whether two targets are URLs of one server.
func sameOrigin(a, b string) bool {
	x, err := url.Parse(a)
	y, bad := url.Parse(b)
	return err == nil && bad == nil && x.Host != "" && httpclient.SameOrigin(x, y)
}

// A benchRequest is what is asked over and over.
type benchRequest struct {
	method string
	params json.RawMessage
}

// sessions are conversations with one server, over which calls are spread.
type sessions []*use.Session

// openSessions opens the conversations. With an error it returns those that it has opened.
func (b *benching) openSessions(open func() (*use.Session, error)) (all sessions, err error) {
	for range b.connections {
		s, err := open()
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (all sessions) close() {
	for _, s := range all {
		s.End()
	}
}

// try makes one call, so that one which never works is not made a thousand times.
func (all sessions) try(ctx context.Context, ask *benchRequest) error {
	if ask.method == protocol.MethodPing {
		return all[0].Ping(ctx)
	}
	result, err := all[0].Request(ctx, ask.method, ask.params)
	if err == nil && toolFailed(result) {
		return &term.Failure{Status: term.ExitError, Err: fmt.Errorf("the tool fails: %s", redact.Value(result, maxShownValue))}
	}
	return err
}

// call returns what makes one call.
func (all sessions) call(ask benchRequest, count *atomic.Int64) bench.Call {
	return func(ctx context.Context, worker int) (sent, received int, failed string) {
		defer count.Add(1)
		s := all[worker%len(all)]
		if ask.method == protocol.MethodPing {
			return 0, 0, kindOf(s.Ping(ctx))
		}
		result, err := s.Request(ctx, ask.method, ask.params)
		if failed = kindOf(err); failed == "" && toolFailed(result) {
			failed = "tool error"
		}
		return len(ask.params), len(result), failed
	}
}

// toolFailed reports whether a result is that of a tool that has failed.
func toolFailed(result json.RawMessage) bool {
	if !bytes.Contains(result, []byte("isError")) {
		return false
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(result, &r) == nil && r.IsError
}

// kindOf returns in few words why a call failed, or "".
func kindOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*dragoman.Error](err); ok {
		return fmt.Sprintf("error %d", e.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return term.Codes[term.FailureOf(err).Status]
}

// warm makes calls that do not count.
func (b *benching) warm(ctx context.Context, calls ...bench.Call) {
	if b.warmUp == 0 {
		return
	}
	o := b.load
	o.Duration, o.Count = b.warmUp, 0
	for _, call := range calls {
		bench.Run(ctx, &o, call)
	}
}

// measure measures one server.
func (b *benching) measure(ctx context.Context, c *cobra.Command, all sessions, ask benchRequest) error {
	var count atomic.Int64
	call := all.call(ask, &count)
	b.warm(ctx, call)
	count.Store(0)
	bar := term.NewProgress(b.Console.On, all[0].Name())
	done := make(chan struct{})
	stopped := make(chan struct{})
	// Ends with done.
	go func() {
		defer close(stopped)
		b.watch(bar, &count, done)
	}()
	r := bench.Run(ctx, &b.load, call)
	close(done)
	<-stopped
	bar.Clear()
	if err := context.Cause(ctx); err != nil && r.Calls() == 0 {
		return err
	}
	one := b.describe(all[0], r)
	if err := b.show(c.OutOrStdout(), report{Servers: []measured{one}}); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // that is all there is
	}
	return b.judge(r, 0)
}

// watch shows how far it is.
func (b *benching) watch(bar *term.Progress, count *atomic.Int64, done <-chan struct{}) {
	tick := time.NewTicker(term.RedrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			n := float64(count.Load())
			at := client.Progress{Progress: n, Total: float64(b.load.Count)}
			if passed := time.Since(bar.Began); b.load.Count == 0 {
				at = client.Progress{Progress: passed.Round(term.RedrawEvery).Seconds(), Total: b.load.Duration.Seconds(), Message: fmt.Sprintf("%.0f calls", n)}
			}
			bar.Show(at)
		}
	}
}

// measureTwo measures two servers in turns.
func (b *benching) measureTwo(ctx context.Context, c *cobra.Command, first, second sessions, ask benchRequest) error {
	var count atomic.Int64
	one, two := first.call(ask, &count), second.call(ask, &count)
	b.warm(ctx, one, two)
	bar := term.NewProgress(b.Console.On, first[0].Name()+" and "+second[0].Name())
	x, y := bench.Compare(ctx, &b.load, one, two, func(done, of int) {
		bar.Show(client.Progress{Progress: float64(done), Total: float64(of)})
	})
	bar.Clear()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ratio := x.Rate() / max(y.Rate(), 1e-9)
	if b.load.Rate > 0 {
		ratio = float64(y.Latency.Quantile(0.5)) / float64(max(x.Latency.Quantile(0.5), 1))
	}
	if err := b.show(c.OutOrStdout(), report{Servers: []measured{b.describe(first[0], x), b.describe(second[0], y)}, Ratio: ratio}); err != nil {
		return err
	}
	if y.Latency.Count() == 0 {
		return &term.Failure{Status: term.ExitError, Err: errors.New("all calls of the server to compare with have failed")}
	}
	return b.judge(x, ratio)
}

// A report is what is shown of a measurement, for programs.
type report struct {
	Servers []measured `json:"servers"`
	Ratio   float64    `json:"ratio,omitempty"`
}

// measured is what was measured of one server. Times are in milliseconds.
type measured struct {
	Server    string         `json:"server"`
	How       string         `json:"transport"`
	What      string         `json:"request"`
	InFlight  int            `json:"concurrency"`
	Wanted    float64        `json:"wantedRate,omitempty"`
	Seconds   float64        `json:"seconds"`
	Calls     int            `json:"calls"`
	Rate      float64        `json:"rate"`
	Errors    map[string]int `json:"errors,omitempty"`
	NotBegun  int            `json:"notBegun,omitempty"` // calls that were due, and had to wait until the end
	P50       float64        `json:"p50"`
	P90       float64        `json:"p90"`
	P99       float64        `json:"p99"`
	Max       float64        `json:"max"`
	Mean      float64        `json:"mean"`
	Sent      int64          `json:"bytesSent"`
	Received  int64          `json:"bytesReceived"`
	Corrected bool           `json:"corrected"` // times count from when a call should have begun

	result *bench.Result
}

func (b *benching) describe(s *use.Session, r *bench.Result) measured {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	l := &r.Latency
	return measured{
		Server: s.Name(), How: s.How, What: cmp.Or(b.tool, protocol.MethodPing), InFlight: b.load.InFlight, Wanted: b.load.Rate, Seconds: r.Took.Seconds(),
		Calls: r.Calls(), Rate: r.Rate(), Errors: r.Failed, NotBegun: r.NotBegun, P50: ms(l.Quantile(0.5)), P90: ms(l.Quantile(0.9)), P99: ms(l.Quantile(0.99)), Max: ms(l.Max()), Mean: ms(l.Mean()),
		Sent: r.Sent, Received: r.Received, Corrected: b.load.Rate > 0, result: r,
	}
}

// show writes a report.
func (b *benching) show(w io.Writer, r report) error {
	if !b.IsText() {
		return b.Value(w, r)
	}
	for _, m := range r.Servers {
		head := fmt.Sprintf("%d in flight", m.InFlight)
		if m.Wanted > 0 {
			head = fmt.Sprintf("%g/s, %d in flight at most", m.Wanted, m.InFlight)
		}
		fmt.Fprintf(w, "%s (%s)  %s  %s  %s\n", redact.Printable(m.Server, ""), m.How, redact.Printable(m.What, ""), head, humanize.Duration(m.result.Took))
		l := &m.result.Latency
		fmt.Fprintf(w, "  calls    %d, %.1f/s\n", m.Calls, m.Rate)
		fmt.Fprintf(w, "  errors   %s\n", errorsText(m.Errors, m.Calls))
		note := ""
		if m.Corrected {
			note = "  (from when each should have begun)"
		}
		if n := m.result.Failures(); n > 0 {
			note += fmt.Sprintf("  (without %d that failed)", n)
		}
		fmt.Fprintf(w, "  latency  p50 %s  p90 %s  p99 %s  max %s%s\n", humanize.Duration(l.Quantile(0.5)), humanize.Duration(l.Quantile(0.9)), humanize.Duration(l.Quantile(0.99)), humanize.Duration(l.Max()), note)
		if m.NotBegun > 0 {
			fmt.Fprintf(w, "  missed   %d calls were due and not begun: the server answers %.1f/s, with %d in flight\n", m.NotBegun, m.Rate, m.InFlight)
		}
		if m.Sent+m.Received > 0 {
			fmt.Fprintf(w, "  bytes    %d sent, %d received\n", m.Sent, m.Received)
		}
	}
	if len(r.Servers) > 1 {
		fmt.Fprintf(w, "ratio %.3f\n", r.Ratio)
	}
	return nil
}

// errorsText returns how many calls failed, by kind.
func errorsText(failed map[string]int, calls int) string {
	n := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(failed)) {
		n += failed[kind]
		kinds = append(kinds, fmt.Sprintf("%s: %d", kind, failed[kind]))
	}
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%.2f %%)  %s", n, 100*float64(n)/float64(calls), strings.Join(kinds, ", "))
}

// judge returns an error if a threshold is missed, or nothing was answered at all.
func (b *benching) judge(r *bench.Result, ratio float64) error {
	var missed []string
	p99 := r.Latency.Quantile(0.99)
	if b.minRate > 0 && r.Rate() < b.minRate {
		missed = append(missed, fmt.Sprintf("%.1f calls a second are less than %g", r.Rate(), b.minRate))
	}
	if b.maxP99 > 0 && p99 > b.maxP99 {
		missed = append(missed, fmt.Sprintf("a p99 of %s is more than %s", humanize.Duration(p99), b.maxP99))
	}
	if due := r.Calls() + r.NotBegun; b.maxP99 > 0 && p99 <= b.maxP99 && r.NotBegun > due/100 {
		missed = append(missed, fmt.Sprintf("%d of %d calls were due and not begun, so the p99 is not known", r.NotBegun, due))
	}
	if b.minRatio > 0 && ratio < b.minRatio {
		missed = append(missed, fmt.Sprintf("a ratio of %.3f is less than %g", ratio, b.minRatio))
	}
	switch {
	case r.Latency.Count() == 0:
		return &term.Failure{Status: term.ExitError, Err: errors.New("all calls have failed")}
	case missed != nil:
		return &term.Failure{Status: term.ExitBelowThreshold, Err: errors.New(strings.Join(missed, "; "))}
	}
	return nil
}
