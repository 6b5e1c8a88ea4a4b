package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

func TestFailuresAreCountedByTheirKind(t *testing.T) {
	for want, err := range map[string]error{
		"":             nil,
		"error -32602": fmt.Errorf("x: %w", &dragoman.Error{Code: -32602, Message: "secret"}),
		"timeout":      fmt.Errorf("x: %w", context.DeadlineExceeded),
		"failed":       errors.New("x"),
	} {
		if got := kindOf(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := errorsText(map[string]int{"timeout": 1, "error -1": 2}, 10); got != "3 (30.00 %)  error -1: 2, timeout: 1" {
		t.Error(got)
	}
	if !toolFailed(json.RawMessage(`{"isError":true}`)) || toolFailed(json.RawMessage(`{"isError":false,"x":"isError"}`)) {
		t.Error("a tool that has failed is not told from others")
	}
}
