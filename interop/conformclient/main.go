// Command conformclient is the client that the official conformance suite tests:
//
//	conformance client --command conformclient --requirements REVISION
//
// It reaches the server at the URL that is its last argument over Streamable HTTP
// and does what the scenario expects that the environment names.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What the suite says in the environment.
const (
	scenarioVariable = "MCP_CONFORMANCE_SCENARIO"
	revisionVariable = "MCP_CONFORMANCE_PROTOCOL_VERSION"
	contextVariable  = "MCP_CONFORMANCE_CONTEXT" // a JSON object; see calls
)

// patience is how long a scenario may take. The suite waits twice as long, and
// runs all of them at once.
const patience = 15 * time.Second

// scenarios has what is done once the conversation is open.
var scenarios = map[string]func(context.Context, *session) error{
	"initialize":                          listTools,
	"json-schema-ref-no-deref":            listTools,
	"request-metadata":                    listTools,
	"tools_call":                          callTool("add_numbers", object{"a": 5, "b": 3}),
	"elicitation-sep1034-client-defaults": callTool("test_client_elicitation_defaults", object{}),
	"sse-retry":                           callTool("test_reconnection", object{}),
	"sep-2322-client-request-state":       callInRounds,
	"http-standard-headers":               useEverything,
	"http-custom-headers":                 callAsTold,
	"http-invalid-tool-headers":           callEveryTool,
	"json-schema-2020-12-preservation":    echoSchema,
}

func main() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformclient:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) < 2 {
		return errors.New("usage: conformclient URL")
	}
	scenario, ok := scenarios[os.Getenv(scenarioVariable)]
	if !ok {
		return fmt.Errorf("%s: the scenario %q is not known", scenarioVariable, os.Getenv(scenarioVariable))
	}
	rev := protocol.ParseRevision(os.Getenv(revisionVariable))
	if rev == protocol.Unknown {
		return fmt.Errorf("%s: the revision %q is not known", revisionVariable, os.Getenv(revisionVariable))
	}
	s, err := open(ctx, os.Args[len(os.Args)-1], rev)
	if err != nil {
		return err
	}
	defer func() { _ = s.conn.Close() }()
	return scenario(ctx, s)
}

// A tool is what matters of an entry of tools/list.
type tool struct {
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

func (s *session) tools(ctx context.Context) ([]tool, error) {
	var list struct {
		Tools []tool `json:"tools"`
	}
	err := s.ask(ctx, protocol.MethodListTools, object{}, &list)
	return list.Tools, err
}

func (s *session) call(ctx context.Context, name string, args any) error {
	return s.ask(ctx, protocol.MethodCallTool, object{"name": name, "arguments": args}, nil)
}

func listTools(ctx context.Context, s *session) error {
	_, err := s.tools(ctx)
	return err
}

func callTool(name string, args object) func(context.Context, *session) error {
	return func(ctx context.Context, s *session) error {
		if _, err := s.tools(ctx); err != nil {
			return err
		}
		return s.call(ctx, name, args)
	}
}

func callInRounds(ctx context.Context, s *session) error {
	for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
		if err := s.call(ctx, name, object{}); err != nil {
			return err
		}
	}
	return nil
}

// callAsTold makes the tool calls that the suite names. Some of them fail by
// intent: what counts is what went out.
func callAsTold(ctx context.Context, s *session) error {
	var told struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(os.Getenv(contextVariable)), &told); err != nil {
		return fmt.Errorf("%s: %w", contextVariable, err)
	}
	if _, err := s.tools(ctx); err != nil {
		return err
	}
	for _, c := range told.ToolCalls {
		if err := s.call(ctx, c.Name, c.Arguments); err != nil && !answered(err) {
			return err
		}
	}
	return nil
}

// answered tells whether an error is the server's answer.
func answered(err error) bool {
	_, ok := errors.AsType[*dragoman.Error](err)
	return ok
}

// callEveryTool calls all tools that are left in the list.
func callEveryTool(ctx context.Context, s *session) error {
	list, err := s.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := s.call(ctx, t.Name, object{"region": "us-west1"}); err != nil && !answered(err) {
			return err
		}
	}
	return nil
}

// useEverything uses one of each kind.
func useEverything(ctx context.Context, s *session) error {
	list, err := s.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := s.call(ctx, t.Name, object{}); err != nil && !answered(err) {
			return err
		}
	}
	var resources struct {
		Resources []struct {
			URI string `json:"uri"`
		} `json:"resources"`
	}
	if err := s.ask(ctx, protocol.MethodListResources, object{}, &resources); err != nil {
		return err
	}
	for _, r := range resources.Resources {
		if err := s.ask(ctx, protocol.MethodReadResource, object{"uri": r.URI}, nil); err != nil {
			return err
		}
	}
	var prompts struct {
		Prompts []struct {
			Name string `json:"name"`
		} `json:"prompts"`
	}
	if err := s.ask(ctx, protocol.MethodListPrompts, object{}, &prompts); err != nil {
		return err
	}
	for _, p := range prompts.Prompts {
		if err := s.ask(ctx, protocol.MethodGetPrompt, object{"name": p.Name}, nil); err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends a schema back as it came.
func echoSchema(ctx context.Context, s *session) error {
	list, err := s.tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Name == "json_schema_2020_12_tool" {
			return s.call(ctx, "json_schema_echo", object{"schema": t.InputSchema})
		}
	}
	return errors.New("the tool with the schema is not listed")
}
