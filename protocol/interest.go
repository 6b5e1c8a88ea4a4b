package protocol

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// An Interest says of which changes somebody is told or wants to be told, as a
// listen and its acknowledgement spell it.
type Interest struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	Tasks     []string `json:"taskIds,omitempty"`
}

// ListsOf returns the lists whose changes a server tells of by its capabilities.
// What cannot be read promises nothing.
func ListsOf(capabilities json.RawMessage) Interest {
	var can struct{ Tools, Prompts, Resources struct{ ListChanged bool } }
	_ = json.Unmarshal(capabilities, &can)
	return Interest{Tools: can.Tools.ListChanged, Prompts: can.Prompts.ListChanged, Resources: can.Resources.ListChanged}
}

// Empty tells whether it is an interest in nothing.
func (i *Interest) Empty() bool {
	return !i.Tools && !i.Prompts && !i.Resources && len(i.URIs) == 0 && len(i.Tasks) == 0
}

// Wants tells whether the notification of a change is wanted. about is the URI of a
// resource, which may be a part of one that was named, or the id of a task.
func (i *Interest) Wants(method, about string) bool {
	switch method {
	case NoteToolsChanged:
		return i.Tools
	case NotePromptsChanged:
		return i.Prompts
	case NoteResourcesChanged:
		return i.Resources
	case NoteResourceUpdated:
		return slices.ContainsFunc(i.URIs, func(whole string) bool {
			rest, ok := strings.CutPrefix(about, whole)
			return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(whole, "/"))
		})
	case NoteTasks:
		return slices.Contains(i.Tasks, about)
	}
	return false
}

// And returns what both are interested in.
func (i *Interest) And(other *Interest) Interest {
	both := func(mine, theirs []string) []string {
		return slices.DeleteFunc(slices.Clone(mine), func(s string) bool { return !slices.Contains(theirs, s) })
	}
	return Interest{
		Tools: i.Tools && other.Tools, Prompts: i.Prompts && other.Prompts, Resources: i.Resources && other.Resources,
		URIs: both(i.URIs, other.URIs), Tasks: both(i.Tasks, other.Tasks),
	}
}

// Reminders returns a notification for each list and resource of it: what to tell
// somebody who may have missed changes.
func (i *Interest) Reminders() iter.Seq[*dragoman.Message] {
	return func(yield func(*dragoman.Message) bool) {
		for _, list := range [...]struct {
			of   bool
			note string
		}{{i.Tools, NoteToolsChanged}, {i.Prompts, NotePromptsChanged}, {i.Resources, NoteResourcesChanged}} {
			if list.of && !yield(reminder(list.note, nil)) {
				return
			}
		}
		for _, uri := range i.URIs {
			if !yield(reminder(NoteResourceUpdated, map[string]string{"uri": uri})) {
				return
			}
		}
	}
}

// reminder cannot fail: strings can always be written as JSON.
func reminder(method string, params any) *dragoman.Message {
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		panic(err)
	}
	return note
}

// EndOfListen is the answer to a listen that we end in good order.
func EndOfListen(req *dragoman.Message) *dragoman.Message {
	resp, err := req.Reply(map[string]any{
		"resultType": ResultComplete,
		"_meta":      map[string]any{MetaSubscriptionID: req.ID()},
	})
	if err != nil {
		return Failure(req, err)
	}
	return resp
}
