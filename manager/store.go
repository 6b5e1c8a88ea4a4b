package manager

import (
	"encoding/json"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/walk"
)

// storeKind is the kind of our records in the store.
const storeKind = "lists"

// save writes the lists to the store.
func (u *Upstream) save() {
	text := []byte("{")
	u.lists.mu.Lock()
	for method, v := range u.lists.kept {
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(strconv.AppendQuote(text, method), ':')
		text = append(text, v.result...) // as it came, which json.Marshal would change
	}
	u.lists.mu.Unlock()
	if err := u.manager.opts.Store.Put(storeKind, u.name+"-"+u.digest, append(text, '}')); err != nil {
		u.log.Warn("the lists cannot be kept beyond the life of this process", "error", err)
	}
}

// load reads the lists from the store.
func (u *Upstream) load() {
	text, ok, err := u.manager.opts.Store.Get(storeKind, u.name+"-"+u.digest)
	if err != nil {
		u.log.Warn("the lists of an earlier process cannot be read", "error", err)
	}
	var record map[string]json.RawMessage
	if !ok || err != nil || json.Unmarshal(text, &record) != nil {
		return
	}
	u.lists.mu.Lock()
	defer u.lists.mu.Unlock()
	for method, result := range record {
		if !isKept(method) || !walk.IsObject(result) {
			continue
		}
		v := &offer{result: result}
		for _, k := range kinds {
			if k.method == method {
				for range walk.Elements(walk.Get(result, k.member)) {
					v.count++
				}
			}
		}
		u.lists.kept[method] = v
	}
}
