package interop_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"testing"
)

// look runs dragoman probe or dragoman check on a server, and reads what it says.
func look(t *testing.T, into any, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), dragomanProgram.in(t), args...).Output()
	if _, findings := errors.AsType[*exec.ExitError](err); err != nil && !findings {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// probed has dragoman probe look at a server, and compares what it speaks and its problems.
func probed(t *testing.T, server []string, verdict string, revisions int, problems ...string) {
	t.Helper()
	var r struct {
		Verdict   string
		Revisions []struct{ Spoken bool }
		Lines     []struct{ Topic, State, Text string }
	}
	look(t, &r, append([]string{"probe", "-o", "json"}, server...)...)
	spoken := 0
	for _, v := range r.Revisions {
		if v.Spoken {
			spoken++
		}
	}
	var found []string
	for _, l := range r.Lines {
		if l.State == "problem" {
			found = append(found, l.Topic)
		}
	}
	if r.Verdict != verdict || spoken != revisions || !slices.Equal(found, problems) {
		t.Errorf("%q: %s, %d revisions, problems of %q; want %s, %d, %q\n%+v", server, r.Verdict, spoken, found, verdict, revisions, problems, r.Lines)
	}
}

// checked has dragoman check look at a server, and compares the rules that it breaks, notes
// left out.
func checked(t *testing.T, server []string, broken ...string) {
	t.Helper()
	var r struct {
		Results []struct {
			ID, State, Level string
			Findings         []struct{ Text string }
		}
	}
	look(t, &r, append([]string{"check", "-o", "json"}, server...)...)
	var found []string
	for _, x := range r.Results {
		if x.State == "fail" && x.Level != "note" {
			found = append(found, x.ID)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, broken) {
		t.Errorf("%q breaks %q, want %q\n%+v", server, found, broken, r.Results)
	}
}

func TestGoSDKServerIsProbedAndChecked(t *testing.T) {
	t.Parallel()
	server := []string{"--", goSDKProgram.in(t)}
	probed(t, server, "works", 5)
	checked(t, server, "log-level", "modern-log-level", "rpc-batch", "rpc-garbage", "stdio-blank", "tool-schema-union")
}
