package gateway

import (
	"crypto/sha256"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	// maxTaskTools is of how many tasks of one server, the newest, the tool is known. Of others, and of tasks of
	// before a restart, rules decide as if any tool could have made them.
	maxTaskTools = 10_000

	// maxTaskTool is the longest name of a tool that is kept, in bytes.
	maxTaskTool = 256
)

// taskTools are the tools whose calls have become tasks, by the ids that clients know.
type taskTools struct {
	mu    sync.Mutex
	tools map[taskKey]string
	order []taskKey // as long as maxTaskTools at most, then a ring
	next  int
}

// A taskKey stands for the id of a task, as JSON text, which a server chooses.
type taskKey [16]byte

func taskKeyOf(id []byte) taskKey {
	sum := sha256.Sum256(id)
	return taskKey(sum[:])
}

// learn keeps the tool of a call if the call has become a task.
func (t *taskTools) learn(tool string, req, resp *dragoman.Message) {
	var id []byte
	switch {
	case protocol.IsModern(req):
		if kind, _ := dragoman.Text(resp.Get("resultType")); kind == protocol.ResultTask {
			id = resp.Get(taskName)
		}
	case req.Get("task") != nil: // of revisions that have tasks in their core
		id = dragoman.Member(resp.Get("task"), taskName)
	}
	if empty(id) || len(tool) > maxTaskTool {
		return
	}
	key := taskKeyOf(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tools == nil {
		t.tools = make(map[taskKey]string)
	}
	if _, known := t.tools[key]; !known {
		if len(t.order) < maxTaskTools {
			t.order = append(t.order, key)
		} else {
			delete(t.tools, t.order[t.next])
			t.order[t.next] = key
			t.next = (t.next + 1) % maxTaskTools
		}
	}
	t.tools[key] = tool
}

// toolOf returns the tool of a task, or "" if it is not known.
func (t *taskTools) toolOf(id []byte) string {
	if empty(id) {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tools[taskKeyOf(id)]
}
