package gosdk

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// markHeader says which question a request of the SDK is. It is on no wire, and no handler
// sees it.
const markHeader = "Dragoman-Question"

// marks know the questions that a server is at, so that what a handler tells and asks is
// seen to belong to the request that it answers.
type marks struct {
	mu   sync.Mutex
	last int64
	open map[string]*question // guarded by mu
}

// newMarks returns the marks of a server, whose handlers know their questions by them.
func newMarks(s *mcp.Server) *marks {
	m := &marks{open: make(map[string]*question)}
	s.AddReceivingMiddleware(m.related)
	return m
}

// relatedKey has the question that a context belongs to.
type relatedKey struct{}

// prefix begins the marks of m: a server may be that of several dialers.
func (m *marks) prefix() string { return fmt.Sprintf("%p ", m) }

// mark returns what goes with a question to the SDK: its mark, and who asks. The mark is good
// until unmark.
func (m *marks) mark(ctx context.Context, q *question) (extra *mcp.RequestExtra, unmark func()) {
	who := dragoman.CallerOf(ctx)
	m.mu.Lock()
	m.last++
	key := fmt.Sprint(m.prefix(), m.last)
	m.open[key] = q
	m.mu.Unlock()
	header := http.Header(maps.Clone(who.Header))
	if header == nil {
		header = make(http.Header)
	}
	header.Set(markHeader, key)
	extra = &mcp.RequestExtra{Header: header}
	if who.Principal != "" {
		extra.TokenInfo = &auth.TokenInfo{UserID: who.Principal, Scopes: who.Scopes}
	}
	return extra, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, key)
	}
}

// related is a middleware of the SDK that has the context of a handler know its question.
func (m *marks) related(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if extra := req.GetExtra(); extra != nil && strings.HasPrefix(extra.Header.Get(markHeader), m.prefix()) {
			m.mu.Lock()
			q := m.open[extra.Header.Get(markHeader)]
			m.mu.Unlock()
			extra.Header.Del(markHeader)
			if q != nil { // it is nil if the question is over
				ctx = context.WithValue(ctx, relatedKey{}, q)
			}
		}
		return next(ctx, method, req)
	}
}
