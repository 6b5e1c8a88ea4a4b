package aggregate

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/walk"
)

// Limits of pages. A list that fits on one has no cursor and is not kept.
const (
	// MaxPage and MaxPageBytes are how much one page has.
	MaxPage      = 1000
	MaxPageBytes = 4 << 20

	// MaxSnapshots and MaxSnapshotBytes are how much is kept of lists whose pages
	// are being fetched, and SnapshotTime is for how long. The oldest go first, and
	// their cursors are refused.
	MaxSnapshots     = 256
	MaxSnapshotBytes = 64 << 20
	SnapshotTime     = 5 * time.Minute
)

// A snapshot is a list as it was when its first page was asked for. It does not
// change.
type snapshot struct {
	kind     kind
	caller   string
	elements [][]byte
	ttl      int64
	public   bool
	meta     []byte

	id    string
	size  int
	until time.Time
}

// page returns where the page that begins at from ends.
func (s *snapshot) page(from int) int {
	size := 0
	for i := from; i < len(s.elements); i++ {
		if size += len(s.elements[i]); i > from && (size > MaxPageBytes || i-from == MaxPage) {
			return i
		}
	}
	return len(s.elements)
}

// answer answers a request by the page that begins at from.
func (s *snapshot) answer(r *request, from int) (*dragoman.Message, error) {
	to, cursor := s.page(from), ""
	if to < len(s.elements) {
		cursor = s.id + "." + strconv.Itoa(to)
	}
	return r.Reply(s.result(from, to, cursor))
}

// snapshots are those whose pages are being fetched, oldest first.
type snapshots struct {
	mu   sync.Mutex
	all  []*snapshot // guarded by mu
	size int         // guarded by mu
}

// first answers by the first page, and keeps the snapshot if there are more.
func (p *snapshots) first(r *request, s *snapshot) (*dragoman.Message, error) {
	if s.page(0) < len(s.elements) {
		s.id = rand.Text()
		s.until = time.Now().Add(SnapshotTime)
		for _, e := range s.elements {
			s.size += len(e)
		}
		p.mu.Lock()
		p.all = append(p.all, s)
		p.size += s.size
		for len(p.all) > 1 && (len(p.all) > MaxSnapshots || p.size > MaxSnapshotBytes || time.Now().After(p.all[0].until)) {
			p.size -= p.all[0].size
			p.all[0] = nil
			p.all = p.all[1:]
		}
		p.mu.Unlock()
	}
	return s.answer(r, 0)
}

// next answers by the page that a cursor means. It means one to who was given it,
// and in that list.
func (p *snapshots) next(r *request, k kind, caller string, cursor []byte) (*dragoman.Message, error) {
	text, _ := walk.Text(cursor)
	id, number, _ := strings.Cut(text, ".")
	from, err := strconv.Atoi(number)
	if s := p.find(id); err == nil && s != nil && s.kind == k && s.caller == caller && from > 0 && from < len(s.elements) {
		return s.answer(r, from)
	}
	return r.Fail(invalid("params.cursor is not one that this list gave, or it is too old; begin anew without a cursor")), nil
}

func (p *snapshots) find(id string) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		if s.id == id && time.Now().Before(s.until) {
			return s
		}
	}
	return nil
}
