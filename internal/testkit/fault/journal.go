package fault

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// A Journal is a file in which servers write down what they do. Any number of
// processes may write to it at once. The empty Journal takes nothing.
type Journal string

// What is written down.
const (
	Started   = "started"   // a process began
	Ran       = "ran"       // a call was carried out
	Ended     = "ended"     // it was answered
	Cancelled = "cancelled" // it was cancelled meanwhile
	Released  = "released"  // a call that is held may end; the test writes it
	Descended = "descended" // a grandchild was started; the key is its number
)

// An Entry is one line of a Journal.
type Entry struct {
	At   time.Time `json:"at"`
	PID  int       `json:"pid"`
	What string    `json:"what"`
	Key  string    `json:"key,omitempty"`
}

// Write appends a line.
func (j Journal) Write(what, key string) {
	if j == "" {
		return
	}
	line, err := json.Marshal(Entry{time.Now(), os.Getpid(), what, key})
	if err != nil {
		return // strings and numbers always encode
	}
	f, err := os.OpenFile(string(j), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // #nosec G703 -- a file of the test
	if err != nil {
		return // the reader will report it
	}
	_, _ = f.Write(append(line, '\n')) // one write, so lines of several processes do not mix
	_ = f.Close()
}

// Read returns all lines. A file that is not there yet has none.
func (j Journal) Read() []Entry { return j.with("") }

// with returns the lines that hold a text. Only those are decoded, since journals are
// looked at again and again until something stands there.
func (j Journal) with(part string) (all []Entry) {
	text, _ := os.ReadFile(string(j))
	for line := range strings.Lines(string(text)) {
		var e Entry
		if strings.Contains(line, part) && json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

// Of returns the lines that say what of a key, or of any key if it is "".
func (j Journal) Of(what, key string) []Entry {
	part, _ := json.Marshal(cmp.Or(key, what)) // strings always encode
	return slices.DeleteFunc(j.with(string(part)), func(e Entry) bool { return e.What != what || key != "" && e.Key != key })
}

// PIDs returns the processes that wrote, each once, in the order of their first
// lines.
func (j Journal) PIDs() (pids []int) {
	for _, e := range j.Read() {
		if !slices.Contains(pids, e.PID) {
			pids = append(pids, e.PID)
		}
	}
	return pids
}

// Duplicates returns the keys of calls that were carried out more than once.
func (j Journal) Duplicates() (keys []string) {
	seen := map[string]int{}
	for _, e := range j.Of(Ran, "") {
		if seen[e.Key]++; seen[e.Key] == 2 {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// MaxCount returns how many calls ran at the same time at most, of those whose keys
// begin with a prefix. A call that was lost with its process ran forever.
func (j Journal) MaxCount(prefix string) (most int) {
	running := map[string]bool{}
	for _, e := range j.Read() {
		switch {
		case !strings.HasPrefix(e.Key, prefix):
		case e.What == Ran:
			running[e.Key] = true
			most = max(most, len(running))
		case e.What == Ended, e.What == Cancelled:
			delete(running, e.Key)
		}
	}
	return most
}
