package manager

import (
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Status is what there is to say about an upstream. It has no secrets in it, but
// tells how the server is run and what it said, which is for the owner alone: see
// Public. What is zero may be left out of its JSON.
type Status struct {
	Name      string `json:"name"`
	State     State  `json:"state"`
	Era       string `json:"era,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Transport string `json:"transport,omitempty"`
	Where     string `json:"where,omitempty"`

	Since       time.Time  `json:"since"` // when the state began
	LastError   string     `json:"lastError,omitempty"`
	LastStderr  string     `json:"lastStderr,omitempty"`
	NextAttempt *time.Time `json:"nextAttempt,omitempty"`
	Restarts    int        `json:"restarts,omitempty"`

	Tools     int  `json:"tools"`
	Prompts   int  `json:"prompts"`
	Resources int  `json:"resources"`
	Cached    bool `json:"cached"` // what is known of the lists is from before the server's last start

	Conversations int `json:"conversations,omitempty"` // with the server
	Sessions      int `json:"sessions,omitempty"`      // of clients
	Instances     int `json:"instances,omitempty"`     // sets of values that callers pass on
	InFlight      int `json:"inFlight,omitempty"`
	Waiting       int `json:"waiting,omitempty"`
}

// Public returns what of it everybody may know: who the server is, how it is, and how
// much it offers.
func (s *Status) Public() Status {
	return Status{
		Name: s.Name, State: s.State, Era: s.Era, Revision: s.Revision, Since: s.Since,
		Tools: s.Tools, Prompts: s.Prompts, Resources: s.Resources, Cached: s.Cached,
	}
}

// Status returns what there is to say about the upstream.
func (u *Upstream) Status() Status {
	c := u.conf.Load()
	s := Status{
		Name: u.name, State: u.State(), Transport: string(c.How()), Where: c.Where(),
		LastError: u.clean(nil, u.broken), LastStderr: u.logs.lastStderr(),
	}
	s.Since = u.since(s.State)
	s.InFlight, s.Waiting = u.admission.counts()
	var known bool
	s.Tools, known = u.lists.count(protocol.MethodListTools)
	s.Prompts, _ = u.lists.count(protocol.MethodListPrompts)
	s.Resources, _ = u.lists.count(protocol.MethodListResources)
	s.Cached = s.Tools > 0 && (!known || s.State != Ready && s.State != Degraded)
	for _, i := range u.all() {
		i.report(&s)
	}
	return s
}

// report adds what there is to say about an instance.
func (i *instance) report(s *Status) {
	s.Sessions += len(i.company())
	i.mu.Lock()
	if i.started {
		s.Era = i.era.String()
		if i.era == protocol.Modern {
			s.Revision = protocol.Latest.String()
		}
	}
	i.mu.Unlock()
	if i.passed != nil {
		s.Instances++
	}
	if s.Transport == string(config.Auto) {
		s.Transport = i.target.How
	}
	k := i.keeper
	if rev := k.rev.Load(); rev != nil {
		_ = json.Unmarshal(*rev, &s.Revision) // what is no text is no revision
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s.Conversations += len(k.open)
	s.Restarts += k.restarts
	if k.last != nil {
		s.LastError = k.explain(k.last)
	}
	if wait := k.due(time.Now()); wait > 0 {
		at := time.Now().Add(wait)
		if s.NextAttempt == nil || at.Before(*s.NextAttempt) {
			s.NextAttempt = &at
		}
	}
}
