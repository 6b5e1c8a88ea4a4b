package down

import (
	"context"
	"encoding/json"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A logger is a request under way that wants log messages.
type logger interface {
	log(ctx context.Context, note *dragoman.Message)
}

// loud tells whether a log message is of a level or more severe. Of a level that
// does not exist nothing can be said, so it is not.
func loud(note *dragoman.Message, level int) bool {
	if level < 0 {
		return false
	}
	var name string
	return json.Unmarshal(note.Get("level"), &name) == nil && protocol.LogLevel(name) >= level
}

// join and leave note who wants log messages.
func (v *session) join(l logger) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.loggers[l] = struct{}{}
}

func (v *session) leave(l logger) {
	v.mu.Lock()
	delete(v.loggers, l)
	v.mu.Unlock()
	if in, ok := l.(*inside); ok {
		in.ear.hush() // it may be told by who is not inside the request
	}
}

// logger returns the only request that wants log messages, or nil.
func (v *session) logger() logger {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.loggers) == 1 {
		for l := range v.loggers {
			return l
		}
	}
	return nil
}

// raise makes the server send log messages of a level. The level is the whole
// session's, so it is never lowered, and each request takes what it wants.
func (v *session) raise(ctx context.Context, level int) {
	if level < 0 || v.serves.Logging == nil || int32(level) >= v.level.Load() {
		return
	}
	if v.levelling.enter(ctx) != nil {
		return // the request is over
	}
	defer v.levelling.leave()
	if int32(level) >= v.level.Load() {
		return
	}
	resp, err := v.ask(ctx, protocol.MethodSetLevel, map[string]string{"level": protocol.LogLevels[level]})
	if err != nil {
		return // the session is over, or the request
	}
	if resp.IsError() {
		v.server.log.Debug("the server refuses a log level", "level", protocol.LogLevels[level], "error", resp.RPCError())
	}
	v.level.Store(int32(level)) // one that was refused is not asked for again
}
