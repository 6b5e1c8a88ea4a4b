package protocol

import (
	"encoding/json"

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
