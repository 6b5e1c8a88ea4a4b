package down

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A task is looked at this often if the server does not say how often, and never more
// or less often than that.
const taskPoll, minTaskPoll, maxTaskPoll = time.Second, 50 * time.Millisecond, 10 * time.Second

// taskTools are the tools that the server runs as tasks only.
type taskTools struct {
	loading ctxLock

	mu      sync.Mutex
	names   map[string]bool // nil if not known
	changes int             // how often the list has changed
}

func newTaskTools() taskTools { return taskTools{loading: newCtxLock()} }

// forget is called when the list of tools has changed.
func (t *taskTools) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names = nil
	t.changes++
}

func (t *taskTools) get() (names map[string]bool, changes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names, t.changes
}

func (t *taskTools) set(names map[string]bool, changes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes == changes {
		t.names = names
	}
}

// run makes a call. A tool that the server runs as a task only is made one, and
// followed to its end: modern clients know nothing of it.
func (ss *session) run(ctx context.Context, up *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	ss.running.Add(1)
	defer ss.running.Add(-1)
	if up.Method() == protocol.MethodCallTool {
		ss.stateful.Store(true)
	}
	if ss.serves.Tasks.Requests.Tools.Call == nil || up.Method() != protocol.MethodCallTool || !ss.needsTask(ctx, up.Name()) {
		return ss.conn.Call(ctx, up, from)
	}
	return ss.follow(ctx, up, from)
}

// needsTask reports whether the server runs a tool as a task only.
func (ss *session) needsTask(ctx context.Context, tool string) bool {
	if names, _ := ss.tools.get(); names != nil {
		return names[tool]
	}
	if ss.tools.loading.lock(ctx) != nil {
		return false
	}
	defer ss.tools.loading.unlock()
	names, changes := ss.tools.get()
	if names != nil {
		return names[tool]
	}
	names = make(map[string]bool)
	req, err := dragoman.NewRequest(ss.server.newID(), protocol.MethodListTools, struct{}{})
	if err != nil {
		return false
	}
	for resp, err := range protocol.Pages(req, func(req *dragoman.Message) (*dragoman.Message, error) {
		return ss.conn.Call(ctx, req, quietCaller{ss})
	}) {
		var page struct {
			Tools []struct {
				Name      string
				Execution struct{ TaskSupport string }
			}
		}
		if err != nil || !decodes(resp, &page) {
			return false // the server itself will say what it cannot do
		}
		for _, t := range page.Tools {
			if t.Execution.TaskSupport == "required" {
				names[t.Name] = true
			}
		}
	}
	ss.tools.set(names, changes)
	return names[tool]
}

// follow makes a call as a task and waits for its end. What is asked or told on
// the way goes to from.
func (ss *session) follow(ctx context.Context, up *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	id := up.ID()
	up, err := up.Edit().Set("task", []byte(`{}`)).Message()
	if err != nil {
		return nil, err
	}
	resp, err := ss.create(ctx, up, from)
	if err != nil || resp.IsError() {
		return resp, err
	}
	var made struct {
		Task struct {
			TaskID       string
			PollInterval float64
		}
	}
	if !decodes(resp, &made) || made.Task.TaskID == "" {
		return resp, nil // it was carried out at once
	}
	task := map[string]string{"taskId": made.Task.TaskID}
	poll := taskPoll
	if ms := made.Task.PollInterval; ms > 0 {
		poll = min(max(time.Duration(ms*float64(time.Millisecond)), minTaskPoll), maxTaskPoll)
	}
	resp, err = ss.await(ctx, task, poll, from)
	if ctx.Err() != nil {
		ss.abandon(task)
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !resp.IsError() && resp.Meta(protocol.MetaRelatedTask) != nil {
		if resp, err = resp.Edit().DropMeta(protocol.MetaRelatedTask).Message(); err != nil {
			return nil, err
		}
	}
	return resp.WithID(id), nil
}

// create sends a call that becomes a task. It cannot be cancelled before one knows
// the task, so when ctx ends the server is given a little more time.
func (ss *session) create(ctx context.Context, up *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	longer, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	// What it starts ends with longer, at the latest.
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(partTimeout):
			stop(context.Cause(ctx))
		case <-longer.Done():
		}
	})()
	return ss.conn.Call(longer, up, from)
}

// await waits for the result of a task: tasks/result answers when there is one. A
// server that answers it earlier with an error is asked again when the task has
// ended.
func (ss *session) await(ctx context.Context, task map[string]string, poll time.Duration, from dragoman.Peer) (*dragoman.Message, error) {
	for {
		req, err := dragoman.NewRequest(ss.server.newID(), protocol.MethodTaskResult, task)
		if err != nil {
			return nil, err
		}
		resp, err := ss.conn.Call(ctx, req, from)
		if err != nil || !resp.IsError() {
			return resp, err
		}
		got, err := ss.ask(ctx, protocol.MethodGetTask, task)
		if err != nil {
			return nil, err
		}
		var status struct{ Status string }
		if got.IsError() || !decodes(got, &status) || status.Status != "working" && status.Status != "input_required" {
			return resp, nil
		}
		if err := retry.Sleep(ctx, poll); err != nil {
			return nil, err
		}
	}
}

// abandon cancels a task whose client has gone.
func (ss *session) abandon(task map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), partTimeout)
	defer cancel()
	if _, err := ss.ask(ctx, protocol.MethodCancelTask, task); err != nil {
		ss.server.log.Debug("a task could not be cancelled", "error", err)
	}
}
