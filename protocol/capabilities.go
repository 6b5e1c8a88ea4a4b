package protocol

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
)

// Abilities are what a client can be asked.
type Abilities struct {
	Form, URL               bool // elicitation
	Sampling, SamplingTools bool
	Roots                   bool
}

// AbilitiesOf reads the capabilities of a client, as far as they can be read; the error
// says what cannot.
func AbilitiesOf(capabilities json.RawMessage) (a Abilities, err error) {
	var c struct {
		Roots    json.RawMessage `json:"roots"`
		Sampling *struct {
			Tools json.RawMessage `json:"tools"`
		} `json:"sampling"`
		Elicitation *struct {
			Form json.RawMessage `json:"form"`
			URL  json.RawMessage `json:"url"`
		} `json:"elicitation"`
	}
	err = json.Unmarshal(capabilities, &c)
	a.Roots, a.Sampling = dragoman.IsObject(c.Roots), c.Sampling != nil
	a.SamplingTools = a.Sampling && dragoman.IsObject(c.Sampling.Tools)
	if e := c.Elicitation; e != nil {
		a.URL = dragoman.IsObject(e.URL)
		a.Form = dragoman.IsObject(e.Form) || !a.URL // {} stands for forms
	}
	return a, err
}

// Any reports whether there is something to be asked.
func (a Abilities) Any() bool { return a.Form || a.URL || a.Sampling || a.Roots }

// Answers reports whether a question can be asked. url says of an elicitation that it
// sends the user to a web site, tools of sampling that it has tools.
func (a Abilities) Answers(method string, url, tools bool) bool {
	switch method {
	case MethodListRoots:
		return a.Roots
	case MethodCreateMessage:
		return a.Sampling && (a.SamplingTools || !tools)
	case MethodElicit:
		return url && a.URL || !url && a.Form
	}
	return false
}

// MissingCapability is the error for a request whose client would have to be asked a
// question and cannot be, with the capability that it must declare for that. url and tools
// are as those of [Abilities.Answers].
func MissingCapability(method string, url, tools bool) *dragoman.Error {
	need := `{"elicitation":{}}`
	switch {
	case method == MethodListRoots:
		need = `{"roots":{}}`
	case method == MethodCreateMessage && tools:
		need = `{"sampling":{"tools":{}}}`
	case method == MethodCreateMessage:
		need = `{"sampling":{}}`
	case url:
		need = `{"elicitation":{"url":{}}}`
	}
	return &dragoman.Error{
		Code:    CodeMissingCapability,
		Message: "this needs a client capability that was not declared; declare " + need + " and call again",
		Data:    json.RawMessage(`{"requiredCapabilities":` + need + `}`),
	}
}

// An Interest says of which changes somebody is told or wants to be told, as a
// listen and its acknowledgement spell it.
type Interest struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	Tasks     []string `json:"taskIds,omitempty"`
}

// InterestOf returns the interest that a listen or its acknowledgement names. What
// cannot be read is an interest in nothing.
func InterestOf(m *dragoman.Message) (i Interest) {
	if json.Unmarshal(m.Get("notifications"), &i) != nil {
		return Interest{}
	}
	return i
}

// ListsOf returns the lists whose changes a server tells of by its capabilities.
// What cannot be read promises nothing.
func ListsOf(capabilities json.RawMessage) Interest {
	var can struct{ Tools, Prompts, Resources struct{ ListChanged bool } }
	_ = json.Unmarshal(capabilities, &can)
	return Interest{Tools: can.Tools.ListChanged, Prompts: can.Prompts.ListChanged, Resources: can.Resources.ListChanged}
}

// Empty reports whether it is an interest in nothing.
func (i *Interest) Empty() bool {
	return !i.Tools && !i.Prompts && !i.Resources && len(i.URIs) == 0 && len(i.Tasks) == 0
}

// Wants reports whether the notification of a change is wanted. about is the URI of a
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

// ChangeNotes returns a notification for each list and resource of it: what to tell
// somebody who may have missed changes.
func (i *Interest) ChangeNotes() iter.Seq[*dragoman.Message] {
	return func(yield func(*dragoman.Message) bool) {
		for _, list := range [...]struct {
			of   bool
			note string
		}{{i.Tools, NoteToolsChanged}, {i.Prompts, NotePromptsChanged}, {i.Resources, NoteResourcesChanged}} {
			if list.of && !yield(changeNote(list.note, nil)) {
				return
			}
		}
		for _, uri := range i.URIs {
			if !yield(changeNote(NoteResourceUpdated, map[string]string{"uri": uri})) {
				return
			}
		}
	}
}

// changeNote cannot fail: strings can always be written as JSON.
func changeNote(method string, params any) *dragoman.Message {
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
