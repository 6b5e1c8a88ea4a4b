package toollist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/toollist"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// replies is a Fetch that counts and answers with a result.
func replies(count *atomic.Int32, result string) toollist.Fetch {
	return func(_ context.Context, req *dragoman.Message) (*dragoman.Message, error) {
		count.Add(1)
		return req.Reply(json.RawMessage(result))
	}
}

func named(name string) *dragoman.Caller { return &dragoman.Caller{Principal: name} }

func TestOnlySoManyCallersAndBytesAreKept(t *testing.T) {
	var c toollist.Cache
	var count atomic.Int32
	for i := range 1500 {
		if _, err := c.Get(t.Context(), named(fmt.Sprint(i)), "", nil, replies(&count, `{"tools":[]}`)); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Len(); n == 0 || n > 1024 {
		t.Errorf("the lists of %d callers are kept", n)
	}
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil)
	if err != nil {
		t.Fatal(err)
	}
	long, err := req.Reply(json.RawMessage(`{"tools":[{"name":"` + strings.Repeat("x", 30<<20) + `"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.Learn(named(fmt.Sprint("long", i)), req, long)
	}
	if n := c.Len(); n != 1 {
		t.Errorf("%d lists of 30 MiB are kept, want 1", n)
	}
}

func TestRequestIsThatOfTheCallerWithoutItsProgress(t *testing.T) {
	for meta, want := range map[string]string{
		"":                            `"_meta":{"io.modelcontextprotocol/`,
		`{"a":1,"progressToken":"p"}`: `"_meta":{"a":1}`,
	} {
		var c toollist.Cache
		_, err := c.Get(t.Context(), nil, "", json.RawMessage(meta), func(_ context.Context, req *dragoman.Message) (*dragoman.Message, error) {
			if text := req.String(); !strings.Contains(text, want) || strings.Contains(text, "progressToken") {
				t.Errorf("asked with %s, want %s", text, want)
			}
			return req.Reply(json.RawMessage(`{"tools":[]}`))
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestListThatPassesByCountsIfItIsWhole(t *testing.T) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil)
	if err != nil {
		t.Fatal(err)
	}
	for result, want := range map[string]int32{
		`{"tools":[{"name":"seen"}]}`:                  0,
		`{"tools":[{"name":"seen"}],"nextCursor":"2"}`: 1,
		`{}`: 1,
	} {
		var c toollist.Cache
		var count atomic.Int32
		resp, err := req.Reply(json.RawMessage(result))
		if err != nil {
			t.Fatal(err)
		}
		c.Learn(named("a"), req, resp)
		list, err := c.Get(t.Context(), named("a"), "", nil, replies(&count, `{"tools":[{"name":"fetched"}]}`))
		if err != nil || count.Load() != want || (list.Tool("seen") != nil) != (want == 0) {
			t.Errorf("after %s: %d lists were fetched, %v", result, count.Load(), err)
		}
		c.Forget(named("a"))
		if _, err := c.Get(t.Context(), named("a"), "", nil, replies(&count, `{"tools":[]}`)); err != nil || count.Load() != want+1 {
			t.Errorf("when it is forgotten: %d lists were fetched, %v", count.Load(), err)
		}
	}
}

func TestOldListCountsForAnHourWhenThereIsNoNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := toollist.Cache{FailedFor: time.Second}
		var count atomic.Int32
		if _, err := c.Get(t.Context(), named("a"), "", nil, replies(&count, `{"cacheScope":"public","tools":[{"name":"t"}]}`)); err != nil {
			t.Fatal(err)
		}
		away := errors.New("away")
		fail := func(context.Context, *dragoman.Message) (*dragoman.Message, error) { return nil, away }
		time.Sleep(59 * time.Minute)
		for _, caller := range []string{"a", "b"} {
			if list, err := c.Get(t.Context(), named(caller), "", nil, fail); err != nil || list.Tool("t") == nil {
				t.Errorf("caller %s: %v", caller, err)
			}
			if _, err := c.Valid(t.Context(), named(caller), nil, fail); !errors.Is(err, away) {
				t.Errorf("caller %s: a valid list is %v", caller, err)
			}
		}
		time.Sleep(time.Minute)
		if _, err := c.Get(t.Context(), named("a"), "", nil, fail); !errors.Is(err, away) {
			t.Errorf("after an hour: %v", err)
		}
	})
}

func TestWhoLeavesDoesNotCostTheOthersTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c toollist.Cache
		ctx, leave := context.WithCancel(t.Context())
		slow := func(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
			select {
			case <-time.After(time.Second):
				return req.Reply(json.RawMessage(`{"tools":[]}`))
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		go func() { _, _ = c.Get(ctx, named("a"), "", nil, slow) }() // ends with the list
		synctest.Wait()
		leave()
		if _, err := c.Get(t.Context(), named("a"), "", nil, slow); err != nil {
			t.Error(err)
		}
	})
}
