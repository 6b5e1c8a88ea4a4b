package probe

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Options say which server is looked at, and how patiently.
type Options struct {
	// Subject is the server. A Grace of zero means 2 s, and a Glance of zero 3 s, which is how long a
	// transport is waited for that need not be there.
	rawclient.Subject

	// How is how the server is reached, for people.
	How string

	// Progress is told what is looked at next; nil tells nobody.
	Progress func(stage string)

	// Found is told each problem as it is found; nil tells nobody.
	Found func(Line)

	// SignIn is how to sign in, of which no use is made but to find out how; nil if nobody can.
	// Login is the command that signs in.
	SignIn *oauth.Config
	Login  string
}

// Run looks at a server.
func Run(ctx context.Context, given *Options) *Report {
	own := *given // what is learnt of the server is for this run only
	o := &own
	p := &prober{Options: o, conversations: map[protocol.Revision]*conversation{}, expect: func(int) {}, Report: &Report{Target: o.Name, How: o.How}, grace: cmp.Or(o.Grace, 2*time.Second), glance: cmp.Or(o.Glance, 3*time.Second)}
	switch {
	case len(o.Spec.Command) > 0:
		p.command(ctx)
	case target.IsLines(o.Spec.URL):
		p.socket(ctx)
	default:
		p.url(ctx)
	}
	p.conclude()
	return p.Report
}

// stage says what is looked at next.
func (p *prober) stage(format string, args ...any) {
	if p.Progress != nil {
		p.Progress(fmt.Sprintf(format, args...))
	}
}

// problem adds a problem to the report, and tells it.
func (p *prober) problem(topic, advice, format string, args ...any) {
	p.Report.problem(topic, advice, format, args...)
	if p.Found != nil {
		p.Found(p.Lines[len(p.Lines)-1])
	}
}

// A prober makes one report.
type prober struct {
	*Options
	*Report
	grace, glance time.Duration
	told          map[string]bool // problems of messages that are in the report

	// expect is told how many conversations will be opened, and conversations are those that are used further.
	expect        func(int)
	conversations map[protocol.Revision]*conversation

	// first is the conversation that a command was greeted in, which ends last; nil elsewhere. able is
	// one of its newest legacy revision with a client that can do everything: it is asked for other
	// revisions, too, since a process takes its time to start. renegotiates says that it answers
	// that as a new process would.
	first        rawclient.Wire
	able         *conversation
	ableTools    *rawclient.Pages // that it is offered; nil if it was not asked
	renegotiates bool
}

// client makes a client of the newest legacy revision that can do nothing for the server.
func (p *prober) client(w rawclient.Wire) *rawclient.Client {
	return p.Client(w, protocol.LatestLegacy)
}
