package catalog

import (
	"github.com/dragoman-mcp/dragoman"
)

// maxCursor is how long a cursor may be whose page is counted.
const maxCursor = 1024

// An observed is how long a list is that clients have received.
type observed struct {
	count int
	known bool   // count is that of a whole list
	sum   int    // elements of the pages before next
	next  string // cursor of the page that follows them
}

// Observe counts the elements of a list that a client has received. Pages are added up as long as they
// come one after another.
func (c *Catalog) Observe(req, resp *dragoman.Message) {
	k := KindOf(req.Method())
	if k == nil || resp == nil || resp.IsError() {
		return
	}
	array, n := resp.Get(k.Array), 0
	if array == nil {
		return
	}
	for range dragoman.Items(array) {
		n++
	}
	cursor, _ := dragoman.Text(req.Get("cursor"))
	next, more := dragoman.Text(resp.Get("nextCursor"))
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.seen[k.Method]
	if o == nil {
		o = &observed{}
		c.seen[k.Method] = o
	}
	switch {
	case cursor == "":
		o.sum = n
	case cursor == o.next:
		o.sum += n
	default:
		return
	}
	o.next = next
	if len(next) > maxCursor {
		o.next = "" // its next page is not counted
	}
	if !more {
		o.count, o.known = o.sum, true
	}
}

// CountObserved returns how many elements a list has that clients have received, and whether one has.
func (c *Catalog) CountObserved(method string) (n int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.seen[method]; o != nil && o.known {
		return o.count, true
	}
	return 0, false
}
