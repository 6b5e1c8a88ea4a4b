package gateway

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
)

// WatchInterval is how often files are looked at for changes.
const WatchInterval = time.Second

// A Reloaded is what came of reading the configuration again.
type Reloaded struct {
	At      time.Time        `json:"at"`
	Failed  bool             `json:"failed"` // the configuration before continues
	Error   string           `json:"error,omitempty"`
	Changes upstream.Changes `json:"changes,omitzero"`

	// LeftOut are the servers whose configuration has errors.
	LeftOut []LeftOut `json:"leftOut,omitempty"`

	// Later are the keys that differ from what is in force since the start of the
	// program, and take effect when it is restarted.
	Later []string `json:"later,omitempty"`
}

// A LeftOut is a server that a configuration names, with errors.
type LeftOut struct {
	Server string `json:"server"`
	Runs   bool   `json:"runs"` // as it was configured before
	Error  string `json:"error"`
}

// errNoFile says that there is nothing to reload.
var errNoFile = errors.New("gateway: there is no file to read again")

// Reload reads the configuration again. A server with errors continues as it was, or is
// left out if it was not there; other errors refuse the whole file, and the error says
// so. Reloads come one after another.
func (g *Gateway) Reload() (Reloaded, error) {
	if g.opts.Load == nil {
		return Reloaded{}, errNoFile
	}
	g.reloading.Lock()
	defer g.reloading.Unlock()
	if g.draining.Load() {
		return Reloaded{}, errors.New("gateway: shutting down, the configuration is not read again")
	}
	g.mu.Lock()
	before := g.file
	g.mu.Unlock()
	done, seen := Reloaded{At: time.Now()}, stamps(before.Files)
	file, report := g.opts.Load()
	err := report.Refused()
	if err == nil && len(file.Servers)+len(file.Broken) == 0 && g.opts.Root == nil {
		err = errors.New("gateway: the configuration names no server")
	}
	var who *access
	if err == nil {
		who, err = g.readAccess(file, g.access)
	}
	if err != nil {
		done.Failed, done.Error = true, err.Error()
		g.log.Error("configuration has errors, the previous one stays in force", "error", err)
	} else {
		g.setAccess(who) // first: nobody is let in by what does not hold any more
		g.apply(file, before, report, &done)
	}
	g.observeReload(&done)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.seen = done, seen
	if !slices.Equal(g.file.Files, before.Files) {
		g.seen = stamps(g.file.Files)
	}
	return done, err
}

// apply applies a configuration that was read again, as far as it has no errors.
func (g *Gateway) apply(file, before *config.File, report *config.Report, done *Reloaded) {
	restored := file.Restore(before)
	for _, name := range file.Broken {
		left := LeftOut{Server: name, Runs: slices.Contains(restored, name), Error: report.Of(name)}
		done.LeftOut = append(done.LeftOut, left)
		text := "server configuration has errors, the server is left out"
		if left.Runs {
			text = "server configuration has errors, the server continues as it was"
		}
		g.log.Error(text, "server", name, "error", left.Error)
	}
	done.Later = g.needsRestart(file)
	if g.opts.Applied != nil {
		g.opts.Applied(file)
	}
	done.Changes = g.Apply(file)
	g.log.Info("configuration reloaded", "added", done.Changes.Added, "replaced", done.Changes.Replaced,
		"removed", done.Changes.Removed, "kept", len(done.Changes.Kept), "left out", len(done.LeftOut), "needs a restart", done.Later)
}

// needsRestart returns the keys of a configuration that a running gateway cannot take over,
// as far as they are not in force.
func (g *Gateway) needsRestart(file *config.File) (keys []string) {
	for _, k := range []struct {
		key  string
		same bool
	}{
		{"listen", reflect.DeepEqual(g.first.Listen, file.Listen)},
		{"state", g.first.State == file.State},
		{"log.format", g.first.Log.Format == file.Log.Format},
		{"limits", g.first.Limits == file.Limits},
		{"audit.file", g.first.Audit.File == file.Audit.File},
	} {
		if !k.same {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// Watch reloads the configuration whenever one of its files has changed, until
// ctx ends.
func (g *Gateway) Watch(ctx context.Context) {
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g.mu.Lock()
		files, seen := g.file.Files, g.seen
		g.mu.Unlock()
		// A file that is being written changes again; it is read when it rests.
		now := stamps(files)
		if now != seen && now == last {
			_, _ = g.Reload() // which has told about errors
		}
		last = now
	}
}

// stamps returns what tells one state of files from another.
func stamps(files []string) string {
	var b strings.Builder
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			b.WriteString(info.ModTime().String())
			b.WriteByte(' ')
			b.WriteString(time.Duration(info.Size()).String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}
