package storetest

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/eventlog"
)

// Records tests a store of records. open returns an empty one, which is closed by t.Cleanup.
func Records(t *testing.T, open func(*testing.T) eventlog.Records) {
	run(t, open, []promise[eventlog.Records]{
		{"keys may be any text", anyKey},
		{"records are their callers' own", ownRecords},
		{"a write expects a revision", expectRevision},
		{"of writers that expect one revision one succeeds", countTogether},
	})
}

// RecordsExpiry tests that records, an empty store, forgets them. sleep lets them become too old.
func RecordsExpiry(t *testing.T, records eventlog.Records, sleep func()) {
	Put(t, records, "k/old", "1")
	_, old, _ := records.Get(t.Context(), "k/old")
	sleep()
	Put(t, records, "k/new", "2")
	if a, b := Get(t, records, "k/old"), Get(t, records, "k/new"); a != "absent" || b != "2" {
		t.Errorf("the old record is %q, the new one %q", a, b)
	}
	if _, err := records.Put(t.Context(), "k/old", []byte("3"), old); !errors.Is(err, eventlog.ErrConflict) {
		t.Errorf("replacing an expired record: %v", err)
	}
	if _, err := records.Put(t.Context(), "k/old", []byte("4"), 0); err != nil {
		t.Errorf("creating it again: %v", err)
	}
	if got := Get(t, records, "k/old"); got != "4" {
		t.Errorf("created again it is %q", got)
	}
}

// Put sets a record.
func Put(t *testing.T, records eventlog.Records, key, record string) {
	t.Helper()
	if _, err := records.Put(t.Context(), key, []byte(record), eventlog.AnyRevision); err != nil {
		t.Fatalf("Put(%q): %v", key, err)
	}
}

// Get returns a record, or "absent".
func Get(t *testing.T, records eventlog.Records, key string) string {
	t.Helper()
	record, revision, err := records.Get(t.Context(), key)
	switch {
	case err != nil:
		t.Fatalf("Get(%q): %v", key, err)
	case revision == 0:
		return "absent"
	}
	return string(record)
}

func anyKey(t *testing.T, records eventlog.Records) {
	odd := "../../x/\x00\n" + strings.Repeat("y", 300)
	var keys []string
	for _, kind := range []string{"lists", "", "..", "sessions", "Sessions", odd} {
		for _, key := range []string{"k", "K", "", ".", "a/b", odd} {
			keys = append(keys, kind+"/"+key)
		}
	}
	keys = append(keys, "lists", "k", "", "K")
	for _, key := range keys {
		if got := Get(t, records, key); got != "absent" {
			t.Errorf("%.20q, never put, is %q", key, got)
		}
		Put(t, records, key, "first")
		Put(t, records, key, key)
	}
	for _, key := range keys {
		if got := Get(t, records, key); got != key {
			t.Errorf("%.20q is %.40q", key, got)
		}
	}
	for range 2 {
		if err := records.Delete(t.Context(), "lists/k", eventlog.AnyRevision); err != nil {
			t.Error(err)
		}
	}
	if deleted, other := Get(t, records, "lists/k"), Get(t, records, "lists/K"); deleted != "absent" || other != "lists/K" {
		t.Errorf("the deleted record is %q, another %q", deleted, other)
	}
	Put(t, records, "lists/empty", "")
	if got := Get(t, records, "lists/empty"); got != "" {
		t.Errorf("an empty record is %q", got)
	}
}

func ownRecords(t *testing.T, records eventlog.Records) {
	record := []byte("abc")
	if _, err := records.Put(t.Context(), "k", record, 0); err != nil {
		t.Fatal(err)
	}
	record[0] = 'X'
	got, _, _ := records.Get(t.Context(), "k")
	got[1] = 'X'
	if again := Get(t, records, "k"); again != "abc" {
		t.Errorf("changed from outside to %q", again)
	}
}

func expectRevision(t *testing.T, records eventlog.Records) {
	ctx := t.Context()
	put := func(record string, expected uint64) uint64 {
		t.Helper()
		revision, err := records.Put(ctx, "k", []byte(record), expected)
		if err != nil || revision == 0 || revision == eventlog.AnyRevision {
			t.Fatalf("Put(%q): %d, %v", record, revision, err)
		}
		if _, got, err := records.Get(ctx, "k"); got != revision || err != nil {
			t.Fatalf("the revision is %d, %v, want %d", got, err, revision)
		}
		return revision
	}
	seen := []uint64{0}
	conflicts := func(want string) {
		t.Helper()
		for _, r := range seen {
			if _, err := records.Put(ctx, "k", []byte("x"), r); !errors.Is(err, eventlog.ErrConflict) {
				t.Errorf("Put at revision %d: %v", r, err)
			}
			if err := records.Delete(ctx, "k", r); !errors.Is(err, eventlog.ErrConflict) && want != "absent" {
				t.Errorf("Delete at revision %d: %v", r, err)
			}
		}
		if got := Get(t, records, "k"); got != want {
			t.Errorf("after conflicts the record is %q, want %q", got, want)
		}
	}
	first := put("1", 0)
	conflicts("1")
	seen = append(seen, first)
	second := put("2", first)
	conflicts("2")
	seen = append(seen, second)
	same := put("2", eventlog.AnyRevision)
	conflicts("2")
	if err := records.Delete(ctx, "k", same); err != nil {
		t.Errorf("Delete: %v", err)
	}
	seen = []uint64{first, second, same}
	conflicts("absent")
	if err := records.Delete(ctx, "k", same); !errors.Is(err, eventlog.ErrConflict) {
		t.Errorf("Delete of a record that is gone: %v", err)
	}
	if err := records.Delete(ctx, "k", 0); err != nil {
		t.Errorf("Delete of no record: %v", err)
	}
	put("3", 0)
	conflicts("3")
}

func countTogether(t *testing.T, records eventlog.Records) {
	const writers, each = 4, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				for {
					record, revision, err := records.Get(t.Context(), "k/count")
					if err == nil {
						_, err = records.Put(t.Context(), "k/count", append(record, 'x'), revision)
					}
					if errors.Is(err, eventlog.ErrConflict) {
						continue
					}
					if err != nil {
						t.Error(err)
					}
					break
				}
			}
		})
		wg.Go(func() {
			for i := range each {
				if _, err := records.Put(t.Context(), "k/shared", bytes.Repeat([]byte{byte(i)}, 1000), eventlog.AnyRevision); err != nil {
					t.Error(err)
				}
				if got, _, err := records.Get(t.Context(), "k/shared"); err != nil || len(got) != 1000 || bytes.Count(got, got[:1]) != 1000 {
					t.Errorf("what all write is %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if got := Get(t, records, "k/count"); got != strings.Repeat("x", writers*each) {
		t.Errorf("%d of %d writes are kept", len(got), writers*each)
	}
}
