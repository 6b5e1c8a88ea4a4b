package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// watched is the resource that update_resource changes if not told otherwise.
const watched = "test://watched-resource"

// addedResource is in the list only after test_trigger_resource_change.
const addedResource = "test://added-resource"

// A resource is a row of the table of resources.
type resource struct {
	uri         string
	name        string
	title       string
	description string
	mimeType    string
	read        func(ctx context.Context, c *call) (string, error) // base64 if binary
	binary      bool
}

// A template is a row of the table of resource templates. It has one variable.
type template struct {
	before, variable, after string
	name, title             string
	description             string
	mimeType                string
	read                    func(value string) string
}

func (t *template) uri() string { return t.before + "{" + t.variable + "}" + t.after }

// match returns the value of the variable in a URI of the template.
func (t *template) match(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, t.before)
	if !ok {
		return "", false
	}
	value, ok := strings.CutSuffix(rest, t.after)
	return value, ok && value != "" && !strings.Contains(value, "/")
}

// allResources returns the tables of resources and templates.
func allResources(numbered int) ([]*resource, []*template) {
	resources := []*resource{
		textResource("test://static-text", "static-text", "Text", "A text that never changes.",
			"This is the content of the static text resource."),
		{
			uri: "test://static-binary", name: "static-binary", title: "Image", binary: true,
			description: "An image that never changes.", mimeType: "image/png",
			read: func(context.Context, *call) (string, error) { return redPixel, nil },
		},
		{
			uri: watched, name: "watched-resource", title: "Watched text",
			description: "A text that update_resource changes.", mimeType: "text/plain",
			read: func(_ context.Context, c *call) (string, error) {
				return fmt.Sprintf("Watched resource content, version %d", c.server.version(watched)), nil
			},
		},
		{
			uri: "test://asking-resource", name: "asking-resource", title: "Text with a question",
			description: "A text that greets the user, who is asked for a name.", mimeType: "text/plain",
			read: func(ctx context.Context, c *call) (string, error) {
				result, err := greet(ctx, c)
				if err != nil {
					return "", err
				}
				return result.text, nil
			},
		},
		textResource(addedResource, "added-resource", "Added text", "Is there only after test_trigger_resource_change.",
			"This resource was added while the server ran."),
	}
	for i := range numbered {
		n := fmt.Sprint(i + 1)
		resources = append(resources, textResource("test://numbered/"+n, "numbered-"+n, "Text number "+n,
			"One of many, for lists of several pages.", "Resource number "+n))
	}
	return resources, []*template{{
		before: "test://template/", variable: "id", after: "/data",
		name: "template", title: "Data by id", description: "Data of whatever id is asked for.", mimeType: "application/json",
		read: func(id string) string {
			b, _ := json.Marshal(object{"id": id, "templateTest": true, "data": "Data for ID: " + id}) // strings always encode
			return string(b)
		},
	}, {
		before: "test://greeting/", variable: "name",
		name: "greeting", title: "Greeting by name", description: "A greeting for whoever is named.", mimeType: "text/plain",
		read: func(name string) string { return "Hello, " + name + "!" },
	}}
}

func textResource(uri, name, title, description, content string) *resource {
	return &resource{
		uri: uri, name: name, title: title, description: description, mimeType: "text/plain",
		read: func(context.Context, *call) (string, error) { return content, nil },
	}
}

func (s *Server) listedResources() []*resource {
	if s.hasAdded(protocol.MethodListResources) {
		return s.resources
	}
	return slices.DeleteFunc(slices.Clone(s.resources), func(r *resource) bool { return r.uri == addedResource })
}

// find returns the resource of a URI, which may be one of a template's, or nil.
func (s *Server) find(uri string) *resource {
	all := s.listedResources()
	if i := slices.IndexFunc(all, func(r *resource) bool { return r.uri == uri }); i >= 0 {
		return all[i]
	}
	for _, t := range s.templates {
		if value, ok := t.match(uri); ok {
			return &resource{
				uri: uri, mimeType: t.mimeType,
				read: func(context.Context, *call) (string, error) { return t.read(value), nil },
			}
		}
	}
	return nil
}

func (s *Server) knows(uri string) bool { return s.find(uri) != nil }

func listResources(_ context.Context, c *call) (any, error) {
	var all []object
	for _, r := range c.server.listedResources() {
		d := object{"uri": r.uri, "name": r.name, "description": r.description, "mimeType": r.mimeType}
		if c.rev.HasTitles() {
			d["title"] = r.title
		}
		all = append(all, d)
	}
	return page(c, "resources", all)
}

func listTemplates(_ context.Context, c *call) (any, error) {
	var all []object
	for _, t := range c.server.templates {
		d := object{"uriTemplate": t.uri(), "name": t.name, "description": t.description, "mimeType": t.mimeType}
		if c.rev.HasTitles() {
			d["title"] = t.title
		}
		all = append(all, d)
	}
	return page(c, "resourceTemplates", all)
}

func readResource(ctx context.Context, c *call) (any, error) {
	uri, err := c.knownURI()
	if err != nil {
		return nil, err
	}
	r := c.server.find(uri)
	if r == nil {
		return nil, c.noResource(uri) // taken away since
	}
	content, err := r.read(ctx, c)
	if err != nil {
		return nil, err
	}
	d := object{"uri": uri, "mimeType": r.mimeType}
	if r.binary {
		d["blob"] = content
	} else {
		d["text"] = content
	}
	return object{"contents": []object{d}}, nil
}

// uri returns the URI that the request is about.
func (c *call) uri() (string, error) {
	if uri := c.req.URI(); uri != "" {
		return uri, nil
	}
	return "", invalid("params.uri must be the URI of a resource; resources/list names those there are")
}

// knownURI is uri for requests that need the resource to exist.
func (c *call) knownURI() (string, error) {
	uri, err := c.uri()
	if err == nil && !c.server.knows(uri) {
		err = c.noResource(uri)
	}
	return uri, err
}

func (c *call) noResource(uri string) error {
	return failure(c.rev.CodeNoResource(), object{"uri": uri}, "resource not found: %s; resources/list names those there are", uri)
}
