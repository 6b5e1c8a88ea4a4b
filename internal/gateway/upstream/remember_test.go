package upstream

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// recall returns the memory of a command as a new process has it.
func recall(store eventlog.Records, args ...string) *Memory {
	return Remember(&config.Server{Name: "x", Command: "server", Args: args, Env: map[string]string{"TOKEN": "hush-hush"}}, store, slog.New(slog.DiscardHandler))
}

func hintOf(m *Memory) string {
	if h := m.Hint(); h != nil {
		return h.String()
	}
	return ""
}

func TestEraOfACommandIsRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := store.NewMemory(nil)
		first := recall(store, "a")
		first.Found(protocol.Legacy)
		first.Introduced("some\x1b server", "1")
		if got := hintOf(recall(store, "a")); got != "legacy" {
			t.Errorf("the era is remembered as %q", got)
		}
		if got := hintOf(recall(store, "b")); got != "" {
			t.Errorf("that of another command is %q", got)
		}
		if got := recall(store, "a").title(); got != "some server" {
			t.Errorf("it is called %q", got)
		}
		time.Sleep(eraAge - time.Hour)
		recall(store, "a").Found(protocol.Legacy) // nobody asked whether it is more than that
		time.Sleep(2 * time.Hour)
		if got := hintOf(recall(store, "a")); got != "" {
			t.Errorf("after a week the era is %q", got)
		}
	})
}

func TestServerOfAnotherVersionIsAskedAgain(t *testing.T) {
	store := store.NewMemory(nil)
	first := recall(store)
	first.Found(protocol.Legacy)
	first.Introduced("s", "1")
	same := recall(store)
	same.Found(protocol.Legacy)
	same.Introduced("s", "1")
	if got := hintOf(recall(store)); got != "legacy" {
		t.Errorf("of the same version: %q", got)
	}
	other := recall(store)
	other.Found(protocol.Legacy)
	other.Introduced("s", "2")
	other.Found(protocol.Legacy)
	if got := hintOf(recall(store)); got != "" {
		t.Errorf("of another version: %q", got)
	}
	other = recall(store)
	other.Found(protocol.Modern)
	if got := hintOf(recall(store)); got != "modern" {
		t.Errorf("asked again: %q", got)
	}
	other = recall(store)
	other.Found(protocol.Legacy)
	if got := hintOf(recall(store)); got != "legacy" {
		t.Errorf("what it says counts: %q", got)
	}
}

func TestEraThatIsDoubtedIsFoundOutAgain(t *testing.T) {
	store := store.NewMemory(nil)
	recall(store).Found(protocol.Legacy)
	m := recall(store)
	m.Doubt()
	if got := hintOf(recall(store)); got != "" {
		t.Errorf("after a doubt: %q", got)
	}
	m.Doubt()
	m.Found(protocol.Legacy)
	m.Introduced("s", "1")
	if got := hintOf(recall(store)); got != "legacy" {
		t.Errorf("when it has answered: %q", got)
	}
}

func TestEraOfAServerThatDoesNotAnswerIsForgotten(t *testing.T) {
	for name, breaks := range map[string]func(*fake){
		"silent": func(f *fake) { f.setMute(true) },
		"ends":   func(f *fake) { f.endsAt("") },
		"well":   func(*fake) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, f := store.NewMemory(nil), legacyServer()
				conf := &config.Server{Name: "s", Command: "memory", ConnectTimeout: 10 * time.Second, Retry: config.Retry{Min: time.Hour, Max: time.Hour}}
				opts := &Options{Store: store}
				manage(t, opts, map[string]*fake{"s": f}).Apply([]*config.Server{conf})
				time.Sleep(time.Minute)
				hint := func() string { return hintOf(Remember(conf, store, slog.New(slog.DiscardHandler))) }
				if hint() != "legacy" {
					t.Fatalf("remembered is %q", hint())
				}
				again := legacyServer()
				breaks(again)
				manage(t, opts, map[string]*fake{"s": again}).Apply([]*config.Server{conf})
				time.Sleep(15 * time.Second)
				if got := hint(); (got == "legacy") != (name == "well") {
					t.Errorf("remembered is %q", got)
				}
				if again.saw(protocol.MethodInitialize) == 0 || again.saw(protocol.MethodPing) > 0 {
					t.Errorf("it was asked %q", again.asked)
				}
			})
		})
	}
}

func TestDamagedMemoryIsNone(t *testing.T) {
	store := store.NewMemory(nil)
	m := recall(store)
	for _, record := range []string{"", "{", `{"era":"stone","at":"2999-01-01T00:00:00Z"}`, `{"era":"legacy","at":"2999-01-01T00:00:00Z"}`} {
		if _, err := store.Put(t.Context(), eraKind+m.key, []byte(record), eventlog.AnyRevision); err != nil {
			t.Fatal(err)
		}
		if got := hintOf(recall(store)); got != "" {
			t.Errorf("%s: %q", record, got)
		}
	}
}

func TestComplaintsAboutTheProbeAreTakenForThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := one(t, modernServer(), nil)
		synctest.Wait()
		before := len(u.Logs())
		o := &output{up: u}
		say := func(lines ...string) {
			for _, line := range lines {
				o.stderr(line)
			}
		}
		say("method not found, but nobody has asked")
		o.probe()
		say("started", "Failed to validate request: 31 validation errors for ClientRequest", "PingRequest.method",
			"  Input should be 'ping' [type=literal_error, input_value='server/discover', input_type=str]",
			"    For further information visit https://errors.pydantic.dev/2.14/v/literal_error", "listening", "  on a pipe")
		o.answered()
		say("Error: Unknown method server/discover", "    at handle (x.js:1)", "ready")
		time.Sleep(2 * probeEcho)
		say("method not found")
		var got []string
		for _, l := range u.Logs()[before:] {
			got = append(got, l.Text)
		}
		if want := "method not found, but nobody has asked|started|listening|  on a pipe|ready|method not found"; strings.Join(got, "|") != want {
			t.Errorf("shown are %q", got)
		}
	})
}

// A slowStore is a disk that somebody waits for.
type slowStore struct {
	eventlog.Records
	begun, resume chan struct{}
}

func (s *slowStore) Put(ctx context.Context, key string, record []byte, expected uint64) (uint64, error) {
	if strings.HasPrefix(key, eraKind) {
		close(s.begun)
		<-s.resume
	}
	return s.Records.Put(ctx, key, record, expected)
}

func TestNobodyWaitsForTheDiskToKnowAName(t *testing.T) {
	store := &slowStore{Records: store.NewMemory(nil), begun: make(chan struct{}), resume: make(chan struct{})}
	m := recall(store)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Found(protocol.Legacy)
	}()
	<-store.begun
	named := make(chan string, 1)
	go func() { named <- m.title() }()
	select {
	case name := <-named:
		if name != "" {
			t.Errorf("it is called %q", name)
		}
	case <-time.After(30 * time.Second):
		t.Error("its name waits for the disk")
	}
	close(store.resume)
	<-done
	if got := hintOf(recall(store.Records)); got != "legacy" {
		t.Errorf("remembered is %q", got)
	}
}
