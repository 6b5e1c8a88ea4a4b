package protocol_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestInterestWantsWhatItNames(t *testing.T) {
	all := protocol.Interest{Tools: true, Prompts: true, Resources: true, URIs: []string{"file:///a", "file:///d/"}, Tasks: []string{"t1"}}
	for _, c := range []struct {
		method, about string
		interest      protocol.Interest
		want          bool
	}{
		{protocol.NoteToolsChanged, "", all, true},
		{protocol.NotePromptsChanged, "", all, true},
		{protocol.NoteResourcesChanged, "", all, true},
		{protocol.NoteToolsChanged, "", protocol.Interest{Prompts: true, Resources: true}, false},
		{protocol.NotePromptsChanged, "", protocol.Interest{Tools: true, Resources: true}, false},
		{protocol.NoteResourcesChanged, "", protocol.Interest{Tools: true, Prompts: true}, false},
		{protocol.NoteResourceUpdated, "file:///a", all, true},
		{protocol.NoteResourceUpdated, "file:///a/part", all, true},
		{protocol.NoteResourceUpdated, "file:///d/part", all, true},
		{protocol.NoteResourceUpdated, "file:///another", all, false},
		{protocol.NoteResourceUpdated, "", all, false},
		{protocol.NoteTasks, "t1", all, true},
		{protocol.NoteTasks, "t2", all, false},
		{protocol.NoteMessage, "", all, false},
	} {
		if got := c.interest.Wants(c.method, c.about); got != c.want {
			t.Errorf("%s %s is wanted: %v, want %v", c.method, c.about, got, c.want)
		}
	}
}

func TestChangeNotesAreOfWhatBothNameAndTheServerPromises(t *testing.T) {
	promised := protocol.ListsOf(json.RawMessage(`{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":true,"subscribe":true}}`))
	promised.URIs = []string{"a:1", "a:2"}
	both := promised.And(&protocol.Interest{Tools: true, Prompts: true, URIs: []string{"a:2", "a:3"}})
	var got []string
	for note := range both.ChangeNotes() {
		got = append(got, note.Method()+" "+note.URI())
		if !both.Wants(note.Method(), note.URI()) {
			t.Errorf("%s is not wanted", note.Method())
		}
	}
	if want := []string{protocol.NoteToolsChanged + " ", protocol.NoteResourceUpdated + " a:2"}; !slices.Equal(got, want) {
		t.Errorf("the reminders are %q, want %q", got, want)
	}
	for _, unreadable := range []string{``, `7`, `{"tools":7}`} {
		if none := protocol.ListsOf(json.RawMessage(unreadable)); !none.Empty() {
			t.Errorf("capabilities %q promise %+v", unreadable, none)
		}
	}
}

func TestInterestOfWhatCannotBeReadIsInNothing(t *testing.T) {
	for text, want := range map[string]protocol.Interest{
		`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}}`: {Tools: true, URIs: []string{"a:b"}},
		`{"notifications":{"toolsListChanged":true,"promptsListChanged":"yes"}}`:      {},
		`{"notifications":7}`: {},
		`{}`:                  {},
	} {
		note, err := dragoman.NewNotification(protocol.NoteAcknowledged, json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := protocol.InterestOf(note); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}
