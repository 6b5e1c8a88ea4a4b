package upstream

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// eraKind is the kind of the records of eras.
	eraKind = "eras/"

	// eraAge is how long an era is remembered after it was found out. Then it is found
	// out again: the server may speak both by now.
	eraAge = 7 * 24 * time.Hour

	// maxTitle is how much is kept of what a server calls itself.
	maxTitle = 64
)

// A Memory is what is known of a server that is a command from earlier processes: its era
// and what it calls itself. It is a hint. What the server says now counts, and a server
// that has another version than it had is asked again the next time.
type Memory struct {
	store eventlog.Records
	log   *slog.Logger
	key   string // empty if nothing is kept

	writing sync.Mutex // held while the record is written, and taken before mu

	mu     sync.Mutex // never held while the disk is waited for
	record eraRecord
	known  bool // the record is from an earlier process, or has been kept
	stale  bool // it is of another version: nothing is kept before it was asked again

	doubted bool // what was kept is wrong
}

type eraRecord struct {
	Era     string    `json:"era"`
	Name    string    `json:"name,omitempty"`
	Version string    `json:"version,omitempty"`
	At      time.Time `json:"at"` // when the era was found out
}

// Remember returns what a store knows of a server. It is kept there until the caller closes
// the store.
func Remember(c *config.Server, store eventlog.Records, log *slog.Logger) *Memory {
	return remember(c, store, loadSalt(store, log), log)
}

func remember(c *config.Server, store eventlog.Records, salt []byte, log *slog.Logger) *Memory {
	m := &Memory{store: store, log: log}
	if c.Command == "" {
		return m
	}
	text, _ := json.Marshal([]any{c.Command, c.Args, c.Cwd, c.Env, c.Inherit, c.User, c.Framing}) // plain values encode
	sum := hmac.New(sha256.New, salt)
	_, _ = sum.Write(text) // it never fails
	m.key = hex.EncodeToString(sum.Sum(nil)[:16])
	record, revision, err := store.Get(context.Background(), eraKind+m.key)
	if revision == 0 || err != nil || json.Unmarshal(record, &m.record) != nil {
		return m
	}
	if age := time.Since(m.record.At); age >= 0 && age < eraAge {
		m.known = true
	}
	return m
}

// loadSalt returns the salt of digests: that of an earlier process, if there was one.
func loadSalt(store eventlog.Records, log *slog.Logger) []byte {
	const key = "manager/salt"
	ctx := context.Background()
	var own [sha256.Size]byte
	_, _ = rand.Read(own[:]) // it never fails
	for {
		salt, revision, err := store.Get(ctx, key)
		if err == nil && len(salt) >= sha256.Size {
			return salt
		}
		if _, err = store.Put(ctx, key, own[:], revision); errors.Is(err, eventlog.ErrConflict) {
			continue // another process was faster
		}
		if err != nil {
			log.Warn("the state cannot be written, so nothing outlives this process", "error", err)
		}
		return own[:]
	}
}

// Hint returns the era that is remembered, or nil.
func (m *Memory) Hint() *protocol.Era {
	if !m.known {
		return nil
	}
	for _, era := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		if m.record.Era == era.String() {
			return &era
		}
	}
	return nil
}

// Found notes the era of the server.
func (m *Memory) Found(era protocol.Era) {
	m.mu.Lock()
	news := !m.stale && !(m.known && m.record.Era == era.String() && era == protocol.Legacy) // a legacy server was not asked whether it is more than that
	if news {
		m.record.Era, m.record.At, m.known, m.doubted = era.String(), time.Now(), true, false
	}
	m.mu.Unlock()
	if news {
		m.keep()
	}
}

// Doubt forgets the era: the server that was thought to be of it has not answered.
func (m *Memory) Doubt() {
	m.mu.Lock()
	news := m.known
	m.known, m.doubted = false, true
	m.mu.Unlock()
	if news {
		m.keep()
	}
}

// Introduced notes what the server calls itself.
func (m *Memory) Introduced(name, version string) {
	name, version = tidyTitle(name), tidyTitle(version)
	m.mu.Lock()
	news := name != "" && (m.record.Name != name || m.record.Version != version)
	if news {
		if m.known && m.record.Name != "" && m.key != "" {
			m.known, m.stale = false, true
		}
		m.record.Name, m.record.Version = name, version
	}
	m.mu.Unlock()
	if news {
		m.keep()
	}
}

// keep writes what is known, or removes what no longer holds.
func (m *Memory) keep() {
	if m.key == "" {
		return
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	record, known, wrong := m.record, m.known, m.stale || m.doubted
	m.mu.Unlock()
	if !known {
		if wrong {
			_ = m.store.Delete(context.Background(), eraKind+m.key, eventlog.AnyRevision) // or it is too old one day
		}
		return
	}
	text, _ := json.Marshal(record) // plain values encode
	if _, err := m.store.Put(context.Background(), eraKind+m.key, text, eventlog.AnyRevision); err != nil {
		m.log.Debug("the era of the server is not remembered", "error", err)
	}
}

// tidyTitle returns what can be shown of a name.
func tidyTitle(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, name)
	return strings.TrimSpace(strings.ToValidUTF8(name[:min(len(name), maxTitle)], ""))
}

// title returns what the server calls itself, now or when it was last used, or "".
func (m *Memory) title() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.Name
}

// introduced notes what the server calls itself, by its serverInfo.
func (u *Upstream) introduced(info json.RawMessage) {
	u.memory.Introduced(dragoman.MemberText(info, "name"), dragoman.MemberText(info, "version"))
}

// Title returns what the server calls itself, now or when it was last used, or else its
// name here. It is for people.
func (u *Upstream) Title() string {
	if u.memory == nil {
		return u.name
	}
	title := u.memory.title()
	if title == "" {
		return u.name
	}
	return u.redact(nil, title)
}
