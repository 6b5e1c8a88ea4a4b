package protocol

import "slices"

// A Revision is one published revision of the protocol. The zero value is
// Unknown: nothing has been negotiated yet.
type Revision uint8

// The revisions, oldest first.
const (
	Unknown Revision = iota
	V20241105
	V20250326
	V20250618
	V20251125
	V20260728
)

// Latest is the newest revision, LatestLegacy the newest with a handshake.
const (
	Latest       = V20260728
	LatestLegacy = V20251125
)

// An Era tells revisions with a handshake and a session from those in which
// every request stands for itself.
type Era uint8

// The eras.
const (
	Legacy Era = iota
	Modern
)

// String returns the era's name.
func (e Era) String() string { return [...]string{"legacy", "modern"}[e&1] }

// facts is what a revision allows and demands.
type facts struct {
	name            string
	era             Era
	batch           bool // arrays of messages
	streamableHTTP  bool // else HTTP+SSE
	versionHeader   bool // MCP-Protocol-Version after the handshake
	resumes         bool // Last-Event-ID
	primes          bool // an empty event first, and retry
	elicits         bool
	elicitsURL      bool
	audio           bool
	resourceLinks   bool
	structured      bool // structuredContent and outputSchema
	structuredAny   bool // of any JSON type
	progressMessage bool
	toolAnnotations bool // hints about what a tool does
	completions     bool // completion is a capability of its own
	titles          bool // names for people beside names for programs
	icons           bool // and pictures, descriptions, web sites
	richForms       bool // elicitation forms have defaults and titled or several choices
	coreTasks       bool
}

var table = [...]facts{
	V20241105: {name: "2024-11-05"},
	V20250326: {
		name: "2025-03-26", batch: true, streamableHTTP: true, resumes: true,
		audio: true, progressMessage: true, toolAnnotations: true, completions: true,
	},
	V20250618: {
		name: "2025-06-18", streamableHTTP: true, versionHeader: true, resumes: true,
		elicits: true, audio: true, resourceLinks: true, structured: true, progressMessage: true,
		toolAnnotations: true, completions: true, titles: true,
	},
	V20251125: {
		name: "2025-11-25", streamableHTTP: true, versionHeader: true, resumes: true, primes: true,
		elicits: true, elicitsURL: true, audio: true, resourceLinks: true, structured: true,
		progressMessage: true, toolAnnotations: true, completions: true, titles: true, icons: true,
		richForms: true, coreTasks: true,
	},
	V20260728: {
		name: "2026-07-28", era: Modern, streamableHTTP: true, versionHeader: true,
		elicits: true, elicitsURL: true, audio: true, resourceLinks: true,
		structured: true, structuredAny: true, progressMessage: true, toolAnnotations: true,
		completions: true, titles: true, icons: true, richForms: true,
	},
}

// ParseRevision returns the revision of that name, or Unknown.
func ParseRevision(name string) Revision {
	for r := V20241105; r <= Latest; r++ {
		if table[r].name == name {
			return r
		}
	}
	return Unknown
}

// Revisions returns all revisions, newest first.
func Revisions() []Revision {
	return []Revision{V20260728, V20251125, V20250618, V20250326, V20241105}
}

// Names returns the names of revisions.
func Names(list []Revision) []string {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = r.String()
	}
	return names
}

// NamesOf returns the names of the revisions of an era, newest first.
func NamesOf(e Era) []string {
	return Names(slices.DeleteFunc(Revisions(), func(r Revision) bool { return r.Era() != e }))
}

// EraOf returns the era that a revision name claims, also one that we do not
// know: names are dates, and whatever sorts behind the first modern one is
// modern.
func EraOf(name string) Era {
	if name >= table[V20260728].name {
		return Modern
	}
	return Legacy
}

// NegotiateLegacy returns the revision to answer to an initialize that asks for name:
// that one if it is served, else the newest of them. Only legacy revisions
// have an initialize; it is Unknown if none is served.
func NegotiateLegacy(name string, served []Revision) Revision {
	best := Unknown
	for _, r := range served {
		if r.Era() != Legacy {
			continue
		}
		if table[r].name == name {
			return r
		}
		best = max(best, r)
	}
	return best
}

// String returns the revision's name, a date.
func (r Revision) String() string { return table[r].name }

// Era returns the revision's era. Unknown is legacy.
func (r Revision) Era() Era { return table[r].era }

// Since reports whether the revision is other or newer.
func (r Revision) Since(other Revision) bool { return r >= other }

// HasSessions reports whether a conversation begins with initialize.
func (r Revision) HasSessions() bool { return table[r].era == Legacy }

// HasBatch reports whether a frame may hold an array of messages.
func (r Revision) HasBatch() bool { return table[r].batch }

// HasStreamableHTTP reports whether the revision's HTTP transport is Streamable
// HTTP rather than HTTP+SSE.
func (r Revision) HasStreamableHTTP() bool { return table[r].streamableHTTP }

// NeedsVersionHeader reports whether HTTP requests after the handshake must
// carry MCP-Protocol-Version.
func (r Revision) NeedsVersionHeader() bool { return table[r].versionHeader }

// ResumesStreams reports whether event streams have ids and Last-Event-ID.
func (r Revision) ResumesStreams() bool { return table[r].resumes }

// PrimesStreams reports whether an event stream may begin with an empty event
// and carry retry.
func (r Revision) PrimesStreams() bool { return table[r].primes }

// ServerMayAsk reports whether a server sends requests to its client.
func (r Revision) ServerMayAsk() bool { return table[r].era == Legacy }

// HasInputRounds reports whether a server asks by an input_required result.
func (r Revision) HasInputRounds() bool { return table[r].era == Modern }

// HasListen reports whether changes are subscribed to by subscriptions/listen.
func (r Revision) HasListen() bool { return table[r].era == Modern }

// HasElicitation reports whether a server may ask the user.
func (r Revision) HasElicitation() bool { return table[r].elicits }

// HasURLElicitation reports whether it may send the user to a URL.
func (r Revision) HasURLElicitation() bool { return table[r].elicitsURL }

// HasAudio reports whether content may be audio.
func (r Revision) HasAudio() bool { return table[r].audio }

// HasResourceLinks reports whether content may be a link to a resource.
func (r Revision) HasResourceLinks() bool { return table[r].resourceLinks }

// HasStructuredContent reports whether tools have structured output.
func (r Revision) HasStructuredContent() bool { return table[r].structured }

// HasAnyStructuredContent reports whether it may be other than an object.
func (r Revision) HasAnyStructuredContent() bool { return table[r].structuredAny }

// HasProgressMessage reports whether progress may carry a text.
func (r Revision) HasProgressMessage() bool { return table[r].progressMessage }

// HasToolAnnotations reports whether a tool may carry hints about what it does.
func (r Revision) HasToolAnnotations() bool { return table[r].toolAnnotations }

// HasCompletions reports whether a server announces that it completes arguments.
func (r Revision) HasCompletions() bool { return table[r].completions }

// HasTitles reports whether tools, prompts, resources and implementations may
// have a title.
func (r Revision) HasTitles() bool { return table[r].titles }

// HasIcons reports whether they may have icons, and implementations a
// description and a web site.
func (r Revision) HasIcons() bool { return table[r].icons }

// HasRichForms reports whether forms of an elicitation may have defaults of any
// type, choices with titles by oneOf and anyOf, and several choices at once.
func (r Revision) HasRichForms() bool { return table[r].richForms }

// HasCoreTasks reports whether tasks are part of the core protocol.
func (r Revision) HasCoreTasks() bool { return table[r].coreTasks }

// TagsResults reports whether every result carries resultType.
func (r Revision) TagsResults() bool { return table[r].era == Modern }

// CodeNoResource returns the code for a resource that does not exist.
func (r Revision) CodeNoResource() int {
	if r.Era() == Modern {
		return CodeInvalidParams
	}
	return CodeResourceNotFound
}
