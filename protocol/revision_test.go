package protocol_test

import (
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// The questions a revision can be asked, and the revisions that say yes, by the
// changelogs of the specification.
func TestWhatEachRevisionAllows(t *testing.T) {
	type revision = protocol.Revision
	const (
		v1 = protocol.V20241105
		v2 = protocol.V20250326
		v3 = protocol.V20250618
		v4 = protocol.V20251125
		v5 = protocol.V20260728
	)
	questions := []struct {
		name string
		ask  func(revision) bool
		yes  []revision
	}{
		{"HasSessions", revision.HasSessions, []revision{v1, v2, v3, v4}},
		{"HasBatch", revision.HasBatch, []revision{v2}},
		{"HasStreamableHTTP", revision.HasStreamableHTTP, []revision{v2, v3, v4, v5}},
		{"NeedsVersionHeader", revision.NeedsVersionHeader, []revision{v3, v4, v5}},
		{"ResumesStreams", revision.ResumesStreams, []revision{v2, v3, v4}},
		{"PrimesStreams", revision.PrimesStreams, []revision{v4}},
		{"ServerMayAsk", revision.ServerMayAsk, []revision{v1, v2, v3, v4}},
		{"HasInputRounds", revision.HasInputRounds, []revision{v5}},
		{"HasListen", revision.HasListen, []revision{v5}},
		{"HasElicitation", revision.HasElicitation, []revision{v3, v4, v5}},
		{"HasURLElicitation", revision.HasURLElicitation, []revision{v4, v5}},
		{"HasAudio", revision.HasAudio, []revision{v2, v3, v4, v5}},
		{"HasResourceLinks", revision.HasResourceLinks, []revision{v3, v4, v5}},
		{"HasStructuredContent", revision.HasStructuredContent, []revision{v3, v4, v5}},
		{"HasAnyStructuredContent", revision.HasAnyStructuredContent, []revision{v5}},
		{"HasProgressMessage", revision.HasProgressMessage, []revision{v2, v3, v4, v5}},
		{"HasToolAnnotations", revision.HasToolAnnotations, []revision{v2, v3, v4, v5}},
		{"HasCompletions", revision.HasCompletions, []revision{v2, v3, v4, v5}},
		{"HasTitles", revision.HasTitles, []revision{v3, v4, v5}},
		{"HasIcons", revision.HasIcons, []revision{v4, v5}},
		{"HasRichForms", revision.HasRichForms, []revision{v4, v5}},
		{"HasCoreTasks", revision.HasCoreTasks, []revision{v4}},
		{"TagsResults", revision.TagsResults, []revision{v5}},
		{"a missing resource is an invalid parameter", func(r revision) bool { return r.CodeNoResource() == protocol.CodeInvalidParams }, []revision{v5}},
		{"a missing resource has a code of its own", func(r revision) bool { return r.CodeNoResource() == protocol.CodeResourceNotFound }, []revision{v1, v2, v3, v4}},
		{"Since(2025-06-18)", func(r revision) bool { return r.Since(v3) }, []revision{v3, v4, v5}},
		{"Modern", func(r revision) bool { return r.Era() == protocol.Modern }, []revision{v5}},
	}
	for _, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			for _, r := range protocol.Revisions() {
				if got, want := q.ask(r), slices.Contains(q.yes, r); got != want {
					t.Errorf("%v says %t, want %t", r, got, want)
				}
			}
		})
	}
}

func TestRevisionNames(t *testing.T) {
	want := []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	var got []string
	for _, r := range protocol.Revisions() {
		got = append(got, r.String())
		if protocol.ParseRevision(r.String()) != r {
			t.Errorf("%v is read as %v", r, protocol.ParseRevision(r.String()))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("revisions are %q, want %q", got, want)
	}
	for _, name := range []string{"", "2025-06-19", "2025-6-18", " 2025-06-18", "2025-06-18x", "latest"} {
		if r := protocol.ParseRevision(name); r != protocol.Unknown {
			t.Errorf("%q is read as %v", name, r)
		}
	}
	if protocol.Latest != protocol.Revisions()[0] || protocol.LatestLegacy.Era() != protocol.Legacy || protocol.Latest.Era() != protocol.Modern {
		t.Error("the newest revisions are not what they should be")
	}
}

func TestUnknownRevisionAllowsLeast(t *testing.T) {
	r := protocol.Unknown
	if r.String() != "" || r.Era() != protocol.Legacy || r.HasBatch() || r.HasStreamableHTTP() || r.HasElicitation() || r.Since(protocol.V20241105) || !r.HasSessions() {
		t.Error("an unknown revision allows something")
	}
}

func TestEraOfNames(t *testing.T) {
	for name, want := range map[string]protocol.Era{
		"2024-11-05": protocol.Legacy,
		"2025-11-25": protocol.Legacy,
		"2026-07-28": protocol.Modern,
		"":           protocol.Legacy,
		"1.0":        protocol.Legacy,
		"2023-01-01": protocol.Legacy,
		"2026-07-27": protocol.Legacy,
		"2026-07-29": protocol.Modern,
		"2099-01-01": protocol.Modern,
		"DRAFT-2027": protocol.Modern,
	} {
		if got := protocol.EraOf(name); got != want {
			t.Errorf("%q is %v, want %v", name, got, want)
		}
	}
	for _, r := range protocol.Revisions() {
		if protocol.EraOf(r.String()) != r.Era() {
			t.Errorf("%v is %v by name", r, protocol.EraOf(r.String()))
		}
	}
	if protocol.Legacy.String() != "legacy" || protocol.Modern.String() != "modern" {
		t.Error("the eras have other names")
	}
}

func TestE03_InitializeIsAnsweredWithARevisionThatIsServed(t *testing.T) {
	all := protocol.Revisions()
	old := []protocol.Revision{protocol.V20241105, protocol.V20250618}
	cases := []struct {
		asked  string
		served []protocol.Revision
		want   protocol.Revision
	}{
		{"2024-11-05", all, protocol.V20241105},
		{"2025-03-26", all, protocol.V20250326},
		{"2025-06-18", all, protocol.V20250618},
		{"2025-11-25", all, protocol.V20251125},
		{"2026-07-28", all, protocol.V20251125}, // it has no initialize
		{"2099-01-01", all, protocol.V20251125},
		{"", all, protocol.V20251125},
		{"1.0", all, protocol.V20251125},
		{"2025-06-18", old, protocol.V20250618},
		{"2025-03-26", old, protocol.V20250618},
		{"2025-11-25", old, protocol.V20250618},
		{"2025-11-25", []protocol.Revision{protocol.V20260728}, protocol.Unknown},
		{"2025-11-25", nil, protocol.Unknown},
	}
	for _, c := range cases {
		if got := protocol.NegotiateLegacy(c.asked, c.served); got != c.want {
			t.Errorf("asked for %q with %v served: %v, want %v", c.asked, c.served, got, c.want)
		}
	}
}
