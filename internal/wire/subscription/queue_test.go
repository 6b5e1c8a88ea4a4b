package subscription_test

import (
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func version(t *testing.T, uri, what string) *dragoman.Message {
	t.Helper()
	note, err := dragoman.NewNotification(protocol.NoteResourceUpdated, map[string]any{"uri": uri, "what": what})
	if err != nil {
		t.Fatal(err)
	}
	return note
}

func TestQueueHoldsTheNewestOfEachChangeUpToItsLimit(t *testing.T) {
	var q subscription.Queue
	for i := range 2 * subscription.MaxWaiting {
		room := q.Put(version(t, fmt.Sprint(i), "first"))
		if want := i < subscription.MaxWaiting; room != want {
			t.Fatalf("change %d: room %v, want %v", i, room, want)
		}
		if !q.Put(version(t, "0", fmt.Sprint(i))) {
			t.Fatalf("a change that waits finds no room")
		}
	}
	notes := q.Take()
	if len(notes) != subscription.MaxWaiting || q.Dropped() != subscription.MaxWaiting {
		t.Errorf("%d wait, %d dropped", len(notes), q.Dropped())
	}
	if got, want := string(notes[0].Get("what")), fmt.Sprintf("%q", fmt.Sprint(2*subscription.MaxWaiting-1)); got != want {
		t.Errorf("of a change that came often %s is told, want %s", got, want)
	}
	if rest := q.Take(); rest != nil {
		t.Errorf("%d are there twice", len(rest))
	}
}
