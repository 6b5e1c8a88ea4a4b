package builtin

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// beat is the pause between the messages of a tool that sends several.
const beat = 50 * time.Millisecond

// timedTools take a while, and report progress meanwhile.
func timedTools() []*tool {
	return []*tool{{
		name: "slow", title: "Slow tool", readOnly: true,
		description: "Takes the given time, in steps with progress.",
		input: `{"type":"object","properties":{
			"ms":{"type":"integer","minimum":0,"maximum":3600000,"description":"how long it takes"},
			"steps":{"type":"integer","minimum":1,"maximum":10000,"description":"how often it reports its progress; once if left out"}},
			"required":["ms"]}`,
		run: slow,
	}, {
		name: "wait", title: "Wait", readOnly: true,
		description: "Waits until it is cancelled.",
		run: func(ctx context.Context, _ *call) (*toolResult, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	}, {
		name: "test_tool_with_progress", title: "Progress", readOnly: true,
		description: "Tells its progress three times.",
		run:         withProgress,
	}, {
		name: "test_tool_with_logging", title: "Logging", readOnly: true,
		description: "Sends three log messages of level info.",
		run:         withLogging,
	}, {
		name: "test_logging_tool", title: "All log levels", readOnly: true,
		description: "Sends one log message of each level; those below the wanted level do not arrive.",
		run:         logAll,
	}, {
		name: "test_reconnection", title: "Reconnection", readOnly: true,
		description: "Has the stream of the call cut, where the transport can do that, and answers a little later.",
		run:         reconnect,
	}}
}

// pause waits, unless the call is cancelled before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func slow(ctx context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		MS    int `json:"ms"`
		Steps int `json:"steps"`
	}](c)
	if err != nil {
		return nil, err
	}
	steps := max(args.Steps, 1)
	step := time.Duration(args.MS) * time.Millisecond / time.Duration(steps)
	for i := range steps {
		if err := pause(ctx, step); err != nil {
			return nil, err
		}
		c.progress(ctx, float64(i+1), float64(steps), fmt.Sprintf("step %d of %d", i+1, steps))
	}
	return newTextResult(fmt.Sprintf("Took %d ms in %d steps.", args.MS, steps)), nil
}

func withProgress(ctx context.Context, c *call) (*toolResult, error) {
	for i, done := range []float64{0, 50, 100} {
		if i > 0 {
			if err := pause(ctx, beat); err != nil {
				return nil, err
			}
		}
		c.progress(ctx, done, 100, fmt.Sprintf("%v of 100", done))
	}
	return newTextResult("Progress was reported three times."), nil
}

func withLogging(ctx context.Context, c *call) (*toolResult, error) {
	for i, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 {
			if err := pause(ctx, beat); err != nil {
				return nil, err
			}
		}
		c.log(ctx, "info", line)
	}
	return newTextResult("Three messages were logged."), nil
}

func reconnect(ctx context.Context, c *call) (*toolResult, error) {
	if cutter, ok := dragoman.PeerAs[dragoman.StreamCutter](c.from); ok {
		cutter.CutStream(10 * time.Millisecond)
	}
	if err := pause(ctx, 2*beat); err != nil {
		return nil, err
	}
	return newTextResult("If this arrived after a cut, the client came back for it."), nil
}

func logAll(ctx context.Context, c *call) (*toolResult, error) {
	for _, level := range protocol.LogLevels {
		c.log(ctx, level, "a message of level "+level)
	}
	return newTextResult("One message of each level was logged."), nil
}

// changingTools change the server itself, as its operator might do: lists are
// not to change by what clients do, but a test must be able to make them.
func changingTools() []*tool {
	return []*tool{
		changingTool("test_trigger_tool_change", "tool", protocol.MethodListTools, protocol.NoteToolsChanged),
		changingTool("test_trigger_prompt_change", "prompt", protocol.MethodListPrompts, protocol.NotePromptsChanged),
		changingTool("test_trigger_resource_change", "resource", protocol.MethodListResources, protocol.NoteResourcesChanged),
		{
			name: "update_resource", title: "Update a resource",
			description: "Gives a resource a new content, and notifies its subscribers.",
			input: `{"type":"object","properties":{
				"uri":{"type":"string","description":"the resource; ` + watched + ` if left out"}}}`,
			run: updateResource,
		},
		contentTool(addedTool, "Added tool", "Is there only after test_trigger_tool_change.", func(*call) []block {
			return []block{text("This tool was added while the server ran.")}
		}),
	}
}

func changingTool(name, kind, list, note string) *tool {
	return &tool{
		name: name, title: "Change the list of " + kind + "s",
		description: "Adds a " + kind + " or takes it away again, and notifies all clients.",
		run: func(_ context.Context, c *call) (*toolResult, error) {
			c.server.change(list, note)
			return newTextResult("The list of " + kind + "s has changed."), nil
		},
	}
}

func updateResource(_ context.Context, c *call) (*toolResult, error) {
	args, err := arguments[struct {
		URI string `json:"uri"`
	}](c)
	if err != nil {
		return nil, err
	}
	uri := args.URI
	if uri == "" {
		uri = watched
	}
	if !c.server.knows(uri) {
		return nil, fmt.Errorf("there is no resource %s; resources/list names those there are", uri)
	}
	c.server.update(uri)
	return newTextResult("Updated " + uri + "."), nil
}
