package aggregate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// find returns what a name means to a caller. If it is not known, those members are
// asked that may have it. The error is a *dragoman.Error if the name means nothing.
func (a *Aggregate) find(ctx context.Context, r *request, k kind, name string) (target, error) {
	g := r.group
	b := g.book(callerOf(ctx))
	if t, ok := b.indexed(k).byName[name]; ok {
		return t, nil
	}
	may := slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return !strings.HasPrefix(name, m.start) })
	if err := a.refresh(ctx, b, r, may, k); err != nil {
		return target{}, err
	}
	x := b.indexed(k)
	if t, ok := x.byName[name]; ok {
		return t, nil
	}
	silent := b.missing(k, may)
	if t, ok := g.guess(k, name, silent); ok {
		return t, nil
	}
	if len(silent) > 0 {
		return target{}, away(lists[k].noun, name, silent)
	}
	return target{}, unknown(k, name, x)
}

// away is the error for something that a member may have that does not answer.
func away(noun, name string, silent []*member) *dragoman.Error {
	names := make([]string, len(silent))
	for i, m := range silent {
		names[i] = m.Name()
	}
	return protocol.Unavailable(fmt.Errorf("no server that answers has the %s %.200q, and there is no answer from %s; try again later",
		noun, name, strings.Join(names, ", ")))
}

// guess returns what a name must mean if one of the members that do not say what
// they have has it: the prefix tells. The member itself will know whether that is
// so.
func (g *group) guess(k kind, name string, silent []*member) (target, bool) {
	for _, m := range silent {
		own, ok := strings.CutPrefix(name, clean(m.prefix))
		if !ok || own == "" || m.prefix == "" || g.isForeign(m, name) {
			continue
		}
		if k != tools {
			return target{m, own}, true
		}
		for theirs, ours := range m.offers.Rename {
			if clean(ours) == own && m.offers.Offers(theirs) {
				return target{m, theirs}, true
			}
		}
		if m.offers.Rename[own] == "" && m.offers.Offers(own) {
			return target{m, own}, true
		}
	}
	return target{}, false
}

// unknown is the error for a name that means nothing.
func unknown(k kind, name string, x *index) *dragoman.Error {
	hint := ""
	if near := nearest(name, x); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	const longest = 200
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return invalid("unknown %s: %q%s; %s names those there are", lists[k].noun, name, hint, lists[k].method)
}

// Limits of the search for names that may have been meant.
const (
	maxNear     = 3
	maxDistance = 2
	maxCompared = 2000
)

// nearest returns a few names that may have been meant: those that are the name with
// a prefix, then those that differ by little.
func nearest(name string, x *index) []string {
	if name == "" || len(name) > MaxName+maxDistance {
		return nil
	}
	type near struct {
		distance int
		name     string
	}
	var found []near
	compared := 0
	for n := range x.byName {
		if strings.HasSuffix(n, "_"+name) {
			found = append(found, near{0, n})
			continue
		}
		if diff := len(n) - len(name); diff > maxDistance || diff < -maxDistance || compared == maxCompared {
			continue
		}
		compared++
		if d := distance(name, n); d <= min(maxDistance, len(name)/2) {
			found = append(found, near{d, n})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	var names []string
	for _, f := range found[:min(len(found), maxNear)] {
		names = append(names, fmt.Sprintf("%q", f.name))
	}
	return names
}

// distance returns how many bytes must be changed, added or dropped to make a b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := left
			if a[i] != b[j] {
				d = 1 + min(left, row[j], row[j+1])
			}
			left, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

// refused returns the answer to a request about something that means nothing, or the
// error itself if it is another one.
func refused(r *request, err error) (*dragoman.Message, error) {
	if e, ok := errors.AsType[*dragoman.Error](err); ok {
		return r.Fail(e), nil
	}
	return nil, err
}
