package syncs_test

import (
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
)

func TestNoneIsAddedAfterTheEnd(t *testing.T) {
	var g syncs.Group
	var ran atomic.Int32
	for range 10 {
		if !g.Start(func() { ran.Add(1) }) {
			t.Fatal("it does not start")
		}
	}
	g.Wait()
	if ran.Load() != 10 {
		t.Errorf("%d have run when Wait returns, want 10", ran.Load())
	}
	if g.Start(func() { ran.Add(1) }) {
		t.Error("one starts after the end")
	}
	g.Wait()
	if ran.Load() != 10 {
		t.Error("one has run after the end")
	}
}
