package aggregate

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// read passes a request for a resource, a skill or a directory on to the member that has
// it. Where several may, they are asked in order until one does not say that there is no
// such resource.
func (a *Aggregate) read(ctx context.Context, r *request, k kind) (*dragoman.Message, error) {
	uri := r.URI()
	if uri == "" {
		return r.Fail(invalid("params.uri must be a string that is not empty; %s names those there are", lists[k].method)), nil
	}
	v := r.view(ctx)
	may, sure, err := a.holders(ctx, v, r, k, uri)
	if err != nil {
		return refused(r, err)
	}
	var (
		no     *dragoman.Message // the first refusal
		last   error
		silent = v.missing(r.group.members, resources, templates, k)
	)
	for _, m := range may {
		resp, err := m.Requests().Call(ctx, r.Message, r.from)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil && resp == nil {
			err = errNone
		}
		if sure || err == nil && !refuses(r, resp) {
			if !sure && last == nil && len(silent) == 0 { // nobody else has it
				v.learn(uri, m)
			}
			return resp, err
		}
		if err == nil && resp.RPCError().Code != protocol.CodeUnavailable {
			no = cmp.Or(no, resp)
			continue
		}
		if err != nil {
			last = err
		} else if !slices.Contains(silent, m) {
			silent = append(silent, m)
		}
		if r.group.plain {
			break // it may have it, so that nobody behind it counts
		}
	}
	switch {
	case last != nil:
		return nil, last
	case no != nil && len(silent) == 0:
		return no, nil
	case len(silent) > 0:
		return r.Fail(away(lists[k].noun, uri, silent)), nil
	}
	return r.Fail(noResource(uri)), nil
}

// holders returns the members that may have what a URI names, see candidates. Every member
// with skills may have one that is in no list, and directories are in none.
func (a *Aggregate) holders(ctx context.Context, v *view, r *request, k kind, uri string) (may []*member, sure bool, err error) {
	if k == resources {
		return a.candidates(ctx, v, r, uri)
	}
	if t, ok := v.indexed(k).byName[uri]; ok {
		return []*member{t.member}, true, nil
	}
	if err := a.refresh(ctx, v, r, r.group.members, k); err != nil {
		return nil, false, err
	}
	if t, ok := v.indexed(k).byName[uri]; ok {
		return []*member{t.member}, true, nil
	}
	likely, _, err := a.candidates(ctx, v, r, uri)
	if err != nil {
		return nil, false, err
	}
	for _, m := range slices.Concat(likely, r.group.members) {
		if f := m.facts.Load(); f != nil && f.has(k) && !slices.Contains(may, m) {
			may = append(may, m)
		}
	}
	return may, false, nil
}

// noResource is the error for a URI that means nothing.
func noResource(uri string) *dragoman.Error {
	e := failure(protocol.Latest.CodeNoResource(), "resource not found: %.200s; resources/list and resources/templates/list name those there are", uri)
	e.Data = join(`{"uri":`, dragoman.Quote(uri), `}`)
	return e
}

// refuses reports whether a member says that it does not have the resource, or cannot
// be asked. A request that is the next round of one that another member answered
// makes no sense to a member, so any complaint about it counts.
func refuses(r *request, resp *dragoman.Message) bool {
	if !resp.IsError() {
		return false
	}
	e := resp.RPCError()
	switch e.Code {
	case protocol.CodeResourceNotFound, protocol.CodeMethodNotFound, protocol.CodeUnavailable:
		return true
	case protocol.CodeInvalidParams:
		if r.Method() != protocol.MethodReadResource {
			return true // the one reason that skills have
		}
		_, names := dragoman.Text(dragoman.Member(e.Data, "uri"))
		text := strings.ToLower(e.Message)
		return names || r.Get("requestState") != nil || strings.Contains(text, "not found") || strings.Contains(text, "unknown resource")
	}
	return false
}

// candidates returns the members that may have a resource, the likeliest first: the
// one that lists it, the one that had it before, those with a template for it, and
// those that have resources of its scheme, since a tool may name a resource that is
// in no list. sure says that the first one is the one.
func (a *Aggregate) candidates(ctx context.Context, v *view, r *request, uri string) (may []*member, sure bool, err error) {
	if t, ok := v.indexed(resources).byName[uri]; ok {
		return []*member{t.member}, true, nil
	}
	known := v.recall(uri)
	if known == nil && (!v.current(resources) || !v.current(templates) || len(v.withTemplate(uri, (*pattern).matches)) == 0) {
		if err := a.refresh(ctx, v, r, r.group.members, resources, templates); err != nil {
			return nil, false, err
		}
		if t, ok := v.indexed(resources).byName[uri]; ok {
			return []*member{t.member}, true, nil
		}
	}
	count := min(v.indexed(resources).count, v.indexed(templates).count)
	add := func(members ...*member) {
		for _, m := range members {
			if m != nil && m.at < count && !slices.Contains(may, m) {
				may = append(may, m)
			}
		}
	}
	add(known)
	add(v.withTemplate(uri, (*pattern).matches)...)
	add(v.withTemplate(uri, (*pattern).mayMatch)...)
	add(v.sameScheme(uri)...)
	return may, false, nil
}

// withTemplate returns the members with a template that fits a URI, in their order.
func (v *view) withTemplate(uri string, fits func(*pattern, string) bool) (members []*member) {
	for i, o := range v.indexed(templates).offers {
		if o != nil && slices.ContainsFunc(o.patterns, func(p *pattern) bool { return fits(p, uri) }) {
			members = append(members, v.group.members[i])
		}
	}
	return members
}

// sameScheme returns the members with resources or templates of a URI's scheme.
func (v *view) sameScheme(uri string) (members []*member) {
	s := scheme(uri)
	if s == "" {
		return nil
	}
	is := func(key string) bool { return scheme(key) == s }
	listed, made := v.indexed(resources).offers, v.indexed(templates).offers
	for i, m := range v.group.members {
		if listed[i] != nil && slices.ContainsFunc(listed[i].keys, is) || made[i] != nil && slices.ContainsFunc(made[i].keys, is) {
			members = append(members, m)
		}
	}
	return members
}

// learn notes who had a resource that is in no list.
func (v *view) learn(uri string, m *member) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.learned[uri]; !known {
		if len(uri) > maxLearnedBytes {
			return // all members are asked each time
		}
		if len(v.learned) >= MaxLearned || v.learnedSize+len(uri) > maxLearnedBytes {
			clear(v.learned)
			v.learnedSize = 0
		}
		v.learnedSize += len(uri)
	}
	v.learned[uri] = m
}

func (v *view) recall(uri string) *member {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.learned[uri]
}

// A pattern tells which URIs a URI template (RFC 6570) may make.
type pattern struct {
	template string
	strict   *regexp.Regexp // as the template says; nil if it cannot be read
	loose    *regexp.Regexp // any text for each expression, as some servers have it
}

// maxTemplate is how long a template may be that is looked at, in bytes. Longer ones
// match nothing.
const maxTemplate = 4096

// compile returns the pattern of a template.
func compile(template string) *pattern {
	p := &pattern{template: template}
	if len(template) > maxTemplate {
		return p
	}
	var strict, loose strings.Builder
	strict.WriteString(`^`)
	loose.WriteString(`^`)
	for rest := template; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		strict.WriteString(regexp.QuoteMeta(text))
		loose.WriteString(regexp.QuoteMeta(text))
		if !found {
			break
		}
		expression, tail, closed := strings.Cut(after, "}")
		if !closed || expression == "" {
			return p
		}
		strict.WriteString(expressionPattern(expression))
		loose.WriteString(`.*`)
		rest = tail
	}
	strict.WriteString(`$`)
	loose.WriteString(`$`)
	// What is quoted cannot fail; (?s) lets . stand for line ends too.
	p.strict, _ = regexp.Compile(`(?s)` + strict.String())
	p.loose, _ = regexp.Compile(`(?s)` + loose.String())
	return p
}

// expressionPattern returns what an expression may become. The names of variables
// are not looked at, except that they stand in queries.
func expressionPattern(expression string) string {
	switch expression[0] {
	case '+':
		return `.+`
	case '#':
		return `(?:#.*)?`
	case '/':
		return `(?:/[^/?#]*)*`
	case '.':
		return `(?:\.[^/?#]*)?`
	case ';':
		return `(?:;[^/?#]*)*`
	case '?':
		return `(?:\?[^#]*)?`
	case '&':
		return `(?:&[^#]*)?`
	}
	return `[^/?#]+`
}

// scheme returns how the URIs of a template, or a URI, begin; "" if there is no
// telling.
func scheme(uri string) string {
	s, _, ok := strings.Cut(uri, ":")
	if !ok || strings.ContainsAny(s, "{}/?#") {
		return ""
	}
	return strings.ToLower(s)
}

func (p *pattern) matches(uri string) bool  { return p.strict != nil && p.strict.MatchString(uri) }
func (p *pattern) mayMatch(uri string) bool { return p.loose != nil && p.loose.MatchString(uri) }
