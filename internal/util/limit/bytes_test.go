package limit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/limit"
)

func TestBytesAreBoundInAllAndForEachKey(t *testing.T) {
	b := limit.NewBytes(100)
	for i, step := range []struct {
		key  string
		n    int64 // that are given back if negative
		want error
	}{
		{"a", 30, nil}, {"a", 20, nil}, {"a", 1, limit.ErrShare},
		{"b", 40, nil}, {"b", 20, limit.ErrShare},
		{"c", 11, limit.ErrRoom}, {"c", 10, nil}, {"d", 1, limit.ErrRoom}, {"d", 0, nil},
		{"a", -30, nil}, {"d", 30, nil}, {"a", 1, limit.ErrRoom},
		{"a", -20, nil}, {"b", -40, nil}, {"c", -10, nil}, {"d", -30, nil},
		{"e", 51, limit.ErrLarge}, {"e", 101, limit.ErrLarge}, {"e", 50, nil}, {"e", 51, limit.ErrLarge}, {"f", 50, nil}, {"g", 1, limit.ErrRoom},
	} {
		if step.n < 0 {
			b.Release(step.key, -step.n)
		} else if err := b.Take(step.key, step.n); !errors.Is(err, step.want) {
			t.Errorf("step %d, %s takes %d: %v, want %v", i, step.key, step.n, err, step.want)
		}
	}
	if none := limit.NewBytes(0); none.Take("a", 1<<60) != nil {
		t.Error("there is no bound, and it is reached")
	} else {
		none.Release("a", 1<<60)
	}
}

// Keys are not remembered when they hold nothing: who makes up keys fills nothing.
func TestBytesForgetKeysThatHoldNothing(t *testing.T) {
	b := limit.NewBytes(1 << 20)
	for i := range 1000 {
		key := fmt.Sprint(i)
		if err := b.Take(key, 1<<10); err != nil {
			t.Fatal(err)
		}
		b.Release(key, 1<<10)
	}
	if n := b.Keys(); n != 0 {
		t.Errorf("%d keys are remembered", n)
	}
}

// Callers choose their names, as far as their issuer lets them.
func TestLongKeysAreRememberedAsDigests(t *testing.T) {
	r := limit.NewRates(limit.Rate{Count: 1, Per: time.Hour}, 0)
	key := func(i int) string { return strings.Repeat("x", 8<<10) + fmt.Sprint(i) }
	for i := range 100 {
		if r.Take(key(i)) != 0 || r.Wait(key(i)) == 0 || r.Take(key(i)) == 0 {
			t.Fatalf("key %d is not told from others", i)
		}
	}
	if n := r.KeyBytes(); n > 100*128 {
		t.Errorf("%d bytes of keys are remembered", n)
	}
	if r.Return(key(7)); r.Take(key(7)) != 0 {
		t.Error("what was returned is not there")
	}
}
