package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A server has a list of tools, and others for clients with extensions.
type server struct {
	*Catalog
	tools    string // names, with blanks between
	attrs    string // further members of the result
	slow     time.Duration
	err      error // of lists for extensions
	asked    int   // for the shared list
	extended int   // for lists for extensions
	own      int   // for lists of callers' own

	mu        sync.Mutex
	announced []string // guarded by mu
}

// takeAnnounced returns the notifications since the last call.
func (s *server) takeAnnounced() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	announced := s.announced
	s.announced = nil
	return announced
}

func newServer(modern bool) *server {
	s := &server{tools: "a"}
	s.Catalog = New(&Options{
		Pages: func(context.Context, string) iter.Seq2[*dragoman.Message, error] {
			s.asked++
			return pageOf(s.result(""), nil)
		},
		Ask: func(req *dragoman.Message, _ time.Duration) (*dragoman.Message, error) {
			s.extended++
			time.Sleep(s.slow)
			if s.err != nil {
				return nil, s.err
			}
			var extra string
			for name := range dragoman.Members(dragoman.Member(req.Meta(metaCapabilities), "extensions")) {
				extra += " " + name
			}
			return s.result(extra), nil
		},
		Start: func(f func()) bool { go f(); return true }, // ends with the list
		Announce: func(note string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.announced = append(s.announced, note)
		},
		Store: store.NewMemory(nil), Key: "s", Log: slog.New(slog.DiscardHandler), Redact: error.Error,
	})
	s.Learn([]byte(`{"capabilities":{"tools":{}}}`), modern)
	return s
}

func (s *server) result(extra string) *dragoman.Message {
	return resultOf(s.tools+extra, s.attrs)
}

func resultOf(tools, attrs string) *dragoman.Message {
	var list []string
	for _, name := range strings.Fields(tools) {
		list = append(list, fmt.Sprintf(`{"name":%q}`, name))
	}
	m, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Join(list, ",") + `]` + attrs + `}}`))
	if err != nil {
		panic(err)
	}
	return m
}

func pageOf(m *dragoman.Message, err error) iter.Seq2[*dragoman.Message, error] {
	return func(yield func(*dragoman.Message, error) bool) { yield(m, err) }
}

// Call implements dragoman.Peer: it answers a caller's own request by its principal.
func (s *server) Call(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	s.own++
	if s.err != nil {
		return nil, s.err
	}
	return resultOf("of-"+dragoman.CallerOf(ctx).Principal, s.attrs), nil
}

func (s *server) Notify(context.Context, *dragoman.Message) error { return nil }

// refresh does what the owner of a catalog does when it is dirty.
func (s *server) refresh(t *testing.T) {
	t.Helper()
	select {
	case <-s.Dirty():
		s.Refresh(t.Context())
	default:
	}
}

// read returns the names of what a caller is offered; "?" says that the server is to be asked.
func (s *server) read(t *testing.T, caller *dragoman.Caller, extensions string) string {
	t.Helper()
	r := s.Read(caller, request(t, extensions), true)
	s.refresh(t)
	if r.Offer == nil {
		return "?"
	}
	offer, err := s.Extended(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if offer == nil {
		return "?"
	}
	return names(offer.List)
}

func request(t *testing.T, extensions string) *dragoman.Message {
	t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, map[string]any{"_meta": meta(extensions)})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func meta(extensions string) json.RawMessage {
	if extensions == "" {
		extensions = "{}"
	}
	return json.RawMessage(`{"` + metaCapabilities + `":{"extensions":` + extensions + `}}`)
}

func names(l *List) string {
	var all []string
	for _, e := range l.Elements {
		all = append(all, e.Key)
	}
	return strings.Join(all, " ")
}

var ada, bob = &dragoman.Caller{Principal: "ada"}, &dragoman.Caller{Principal: "bob"}

func TestSharedListIsFetchedWhenItHasChangedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(false)
		s.Begin()
		s.refresh(t)
		s.takeAnnounced()
		for range 3 {
			for _, c := range []*dragoman.Caller{ada, bob} {
				if got := s.read(t, c, ""); got != "a" {
					t.Errorf("%s is offered %q", c.Principal, got)
				}
			}
		}
		if s.asked != 1 {
			t.Errorf("the server was asked %d times", s.asked)
		}
		list := s.KnownTools(View{Caller: ada})
		time.Sleep(Age + time.Second)
		s.read(t, ada, "") // has it fetched again
		if announced := s.takeAnnounced(); s.asked != 2 || s.KnownTools(View{Caller: bob}) != list || len(announced) > 0 {
			t.Errorf("after %v: asked %d times, announced %q; the list that has not changed was parsed again: %t", Age, s.asked, announced, s.KnownTools(View{Caller: bob}) != list)
		}
		s.tools = "a b"
		s.Changed(true, nil, protocol.NoteToolsChanged)
		s.refresh(t)
		got, announced := s.read(t, ada, ""), s.takeAnnounced()
		if got != "a b" || s.asked != 3 || !slices.Equal(announced, []string{protocol.NoteToolsChanged}) {
			t.Errorf("after a notification: %q, asked %d times, announced %q", got, s.asked, announced)
		}
	})
}

func TestS30_ListOfACallersOwnIsGivenToNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		s.attrs = `,"ttlMs":60000,"cacheScope":"private"`
		s.Begin()
		s.refresh(t)
		inSession := ada.InSession("1")
		views := []View{{Caller: ada}, {Caller: bob}, {Caller: inSession}, {Caller: ada, Session: true}, {Caller: ada, Meta: meta(`{"ui":{}}`)}}
		for i, v := range views {
			if s.KnownTools(v) != nil {
				t.Fatalf("view %d: a list that it was not given is known", i)
			}
			for range 2 {
				list, err := s.Tools(dragoman.WithCaller(t.Context(), v.Caller), v, nil, s)
				if err != nil || names(list) != "of-"+v.Caller.Principal || s.own != i+1 {
					t.Fatalf("view %d: %v, %v, asked %d times", i, names(list), err, s.own)
				}
			}
		}
		if got := s.read(t, ada, ""); got != "of-ada" {
			t.Errorf("ada is offered %q", got)
		}
		s.Changed(false, inSession, protocol.NoteToolsChanged)
		for i, v := range views {
			if known := s.KnownTools(v) != nil; known == (v.Caller == inSession) {
				t.Errorf("view %d after a notification in a session: known is %t", i, known)
			}
		}
		s.Changed(false, nil, protocol.NoteToolsChanged)
		for i, v := range views {
			if s.KnownTools(v) != nil {
				t.Errorf("view %d is known after a notification for all", i)
			}
		}
	})
}

func TestCallersWhoseSessionHasChangedAListAskTheServer(t *testing.T) {
	s := newServer(false)
	s.Begin()
	s.refresh(t)
	s.Changed(true, ada, protocol.NoteToolsChanged)
	s.refresh(t)
	if a, b := s.read(t, ada, ""), s.read(t, bob, ""); a != "?" || b != "a" {
		t.Errorf("ada %q, bob %q", a, b)
	}
	for i := range maxChanged {
		s.Changed(true, &dragoman.Caller{Principal: fmt.Sprint(i)}, protocol.NoteToolsChanged)
	}
	if n := len(s.changed); n > maxChanged {
		t.Errorf("%d callers are known", n)
	}
	s.Begin()
	if got := s.read(t, bob, ""); got != "a" {
		t.Errorf("after a start: %q", got)
	}
}

func TestResponseFromBeforeANotificationIsNotKept(t *testing.T) {
	s := newServer(false)
	v := View{Caller: ada, Session: true}
	before := s.Changes()
	s.Changed(false, ada, protocol.NoteToolsChanged)
	s.Pass(v, before, request(t, ""), s.result(""))
	if s.KnownTools(v) != nil {
		t.Error("it is")
	}
	s.Pass(v, s.Changes(), request(t, ""), s.result(""))
	if s.KnownTools(v) == nil {
		t.Error("a newer one is not kept")
	}
	for name, resp := range map[string]*dragoman.Message{"a page": resultOf("x", `,"nextCursor":"2"`), "no list": resultOf("x", `,"tools":null`)} {
		s.Pass(View{Caller: bob}, s.Changes(), request(t, ""), resp)
		if l := s.KnownTools(View{Caller: bob}); l != nil && len(l.Elements) > 0 {
			t.Errorf("%s is kept as a list", name)
		}
	}
}

func TestOwnListThatCannotBeFetchedCountsForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(false)
		v := View{Caller: ada}
		ctx := dragoman.WithCaller(t.Context(), ada)
		if _, err := s.Tools(ctx, v, nil, s); err != nil {
			t.Fatal(err)
		}
		s.err = errors.New("away")
		time.Sleep(59 * time.Minute)
		if list, err := s.Tools(ctx, v, nil, s); err != nil || names(list) != "of-ada" || s.own != 2 {
			t.Errorf("%v, %v, asked %d times", list, err, s.own)
		}
		time.Sleep(time.Minute)
		if list, err := s.Tools(ctx, v, nil, s); err == nil {
			t.Errorf("after an hour: %v", names(list))
		}
		s.err = &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}
		s.own = 0
		for range 3 {
			if _, err := s.Tools(ctx, View{Caller: bob}, nil, s); err == nil {
				t.Error("a refusal is a list")
			}
		}
		if s.own != 1 {
			t.Errorf("a server that refuses was asked %d times", s.own)
		}
		time.Sleep(refusedFor)
		s.err = nil
		if _, err := s.Tools(ctx, View{Caller: bob}, nil, s); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

func TestOwnListsAreBounded(t *testing.T) {
	s := newServer(false)
	req := request(t, "")
	for i := range MaxCallers + 100 {
		s.Pass(View{Caller: &dragoman.Caller{Principal: fmt.Sprint(i)}}, 0, req, s.result(""))
	}
	if n := len(s.callers); n == 0 || n > MaxCallers {
		t.Errorf("lists of %d callers are kept", n)
	}
	long := resultOf(strings.Repeat("x", 12<<20), "")
	for i := range 10 {
		s.Pass(View{Caller: &dragoman.Caller{Principal: fmt.Sprint("long", i)}}, 0, req, long)
	}
	if s.size > MaxCallerBytes || len(s.callers) == 0 {
		t.Errorf("%d bytes of %d callers are kept", s.size, len(s.callers))
	}
	s.Begin()
	s.refresh(t)
	before := s.size
	s.Pass(View{Caller: ada, Session: true}, 0, req, s.result(""))
	if s.size != before {
		t.Error("a list that is the shared one is kept a second time")
	}
}

func TestDerivedListsAreMadeOnceAndBounded(t *testing.T) {
	l := newList(KindOf(protocol.MethodListTools), resultOf("a b c", `,"x":1`).Result())
	made := 0
	without := func(name string) *List {
		return l.Derived(name, func(e Element) Element {
			made++
			if e.Key == name {
				return Element{}
			}
			return e
		})
	}
	for range 3 {
		if d := without("b"); names(d) != "a c" || string(d.result()) != `{"tools":[{"name":"a"},{"name":"c"}],"x":1}` || d.Tools().Tool("b") != nil || d.Tools().Tool("c") == nil {
			t.Errorf("%s", d.result())
		}
	}
	if made != 3 {
		t.Errorf("%d elements were looked at, want 3", made)
	}
	for i := range 3 * maxDerived {
		without(fmt.Sprint(i))
	}
	if n := len(l.derived); n > maxDerived {
		t.Errorf("%d lists are kept", n)
	}
}

func TestListOfAnEarlierProcessIsKnown(t *testing.T) {
	s := newServer(true)
	s.attrs = `,"cacheScope":"public","n":12345678901234567890`
	s.Begin()
	s.refresh(t)
	next := New(&s.opts)
	next.Load()
	r := next.Read(ada, request(t, ""), false)
	if r.Offer == nil || !r.Offer.Cached || names(r.Offer.List) != "a" || string(dragoman.Member(r.Offer.result(), "n")) != "12345678901234567890" {
		t.Errorf("got %+v", r)
	}
	if n, known := next.Count(protocol.MethodListTools); n != 1 || known {
		t.Errorf("%d tools, of this life: %t", n, known)
	}
}
