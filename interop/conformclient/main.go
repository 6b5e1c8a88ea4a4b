// Command conformclient is the client that the official conformance suite tests:
//
//	conformance client --command conformclient --requirements REVISION
//
// It connects to the server at the URL that is its last argument with package
// client and does what the scenario expects that the environment names. If
// DRAGOMAN_CONFORMANCE_THROUGH is a command, as a JSON array, that is started
// with the URL behind it, and is the server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// What the suite says in the environment.
const (
	scenarioVariable = "MCP_CONFORMANCE_SCENARIO"
	revisionVariable = "MCP_CONFORMANCE_PROTOCOL_VERSION"
	contextVariable  = "MCP_CONFORMANCE_CONTEXT" // a JSON object; see callAsTold
)

// throughVariable names a command that stands between us and the server.
const throughVariable = "DRAGOMAN_CONFORMANCE_THROUGH"

type object = map[string]any

// patience is how long a scenario may take. The suite waits twice as long, and
// runs all of them at once.
const patience = 15 * time.Second

// scenarios has what is done once the conversation is open.
var scenarios = map[string]func(context.Context, *client.Client) error{
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
	stdio.Guard()
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
	name, at := os.Getenv(scenarioVariable), os.Args[len(os.Args)-1]
	scenario, ok := scenarios[name]
	wantsToken := strings.HasPrefix(name, authPrefix)
	if wantsToken {
		scenario, ok = callTool("test-tool", object{}), true
	}
	if !ok {
		return fmt.Errorf("%s: the scenario %q is not known", scenarioVariable, name)
	}
	rev := protocol.ParseRevision(os.Getenv(revisionVariable))
	if rev == protocol.Unknown {
		return fmt.Errorf("%s: the revision %q is not known", revisionVariable, os.Getenv(revisionVariable))
	}
	server, err := serverAt(at)
	leave := func() error { return nil }
	if wantsToken {
		server, leave, err = protected(name, at)
	}
	if err != nil {
		return err
	}
	opts := &client.Options{Name: "dragoman-conformclient", Version: "1.0.0", Elicitation: fillIn}
	if rev.HasSessions() {
		opts.Revision = rev // of the modern era there is but one, and it is found out
	} else if os.Getenv(throughVariable) != "" {
		// Or it would be tried for two seconds, and the suite starts forty of us at once.
		era := protocol.Modern
		opts.Era = &era
	}
	c, err := client.Connect(ctx, server, opts)
	if err != nil {
		return errors.Join(err, leave())
	}
	err = scenario(ctx, c)
	return errors.Join(err, c.Close(), leave())
}

// serverAt is the server at a URL, or what stands before it, which is given the flags.
func serverAt(url string, flags ...string) (*client.Server, error) {
	through := os.Getenv(throughVariable)
	if through == "" {
		return &client.Server{URL: url}, nil
	}
	var command []string
	if err := json.Unmarshal([]byte(through), &command); err != nil {
		return nil, fmt.Errorf("%s: %w", throughVariable, err)
	}
	return &client.Server{Command: slices.Concat(command, flags, []string{url}), OnStderr: func(line string) { fmt.Fprintln(os.Stderr, line) }}, nil
}

func call(ctx context.Context, c *client.Client, name string, args any) error {
	_, err := c.CallTool(ctx, name, args, nil)
	return err
}

func listTools(ctx context.Context, c *client.Client) error {
	_, err := c.Tools(ctx)
	return err
}

func callTool(name string, args object) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		if _, err := c.Tools(ctx); err != nil {
			return err
		}
		return call(ctx, c, name, args)
	}
}

func callInRounds(ctx context.Context, c *client.Client) error {
	for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
		if err := call(ctx, c, name, nil); err != nil {
			return err
		}
	}
	return nil
}

// callAsTold makes the tool calls that the suite names. Some of them fail by
// intent: what counts is what went out.
func callAsTold(ctx context.Context, c *client.Client) error {
	var told struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(os.Getenv(contextVariable)), &told); err != nil {
		return fmt.Errorf("%s: %w", contextVariable, err)
	}
	if _, err := c.Tools(ctx); err != nil {
		return err
	}
	for _, told := range told.ToolCalls {
		if err := call(ctx, c, told.Name, told.Arguments); err != nil && !answered(err) {
			return err
		}
	}
	return nil
}

// answered reports whether an error is the server's answer.
func answered(err error) bool {
	_, ok := errors.AsType[*dragoman.Error](err)
	return ok
}

// callEveryTool calls all tools that are left in the list.
func callEveryTool(ctx context.Context, c *client.Client) error {
	list, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := call(ctx, c, t.Name, object{"region": "us-west1"}); err != nil && !answered(err) {
			return err
		}
	}
	return nil
}

// useEverything uses one of each kind.
func useEverything(ctx context.Context, c *client.Client) error {
	list, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := call(ctx, c, t.Name, object{}); err != nil && !answered(err) {
			return err
		}
	}
	resources, err := c.Resources(ctx)
	if err != nil {
		return err
	}
	for _, r := range resources {
		if _, err := c.ReadResource(ctx, r.URI); err != nil {
			return err
		}
	}
	prompts, err := c.Prompts(ctx)
	if err != nil {
		return err
	}
	for _, p := range prompts {
		if _, err := c.GetPrompt(ctx, p.Name, nil); err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends a schema back as it came.
func echoSchema(ctx context.Context, c *client.Client) error {
	list, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	for _, t := range list {
		if t.Name == "json_schema_2020_12_tool" {
			return call(ctx, c, "json_schema_echo", object{"schema": t.InputSchema})
		}
	}
	return errors.New("the tool with the schema is not listed")
}

// fillIn accepts a form as it is: with its defaults, and true where it has none
// for a yes or no.
func fillIn(_ context.Context, params json.RawMessage) (any, error) {
	var form struct {
		RequestedSchema struct {
			Properties map[string]object `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &form); err != nil {
		return nil, err
	}
	content := object{}
	for name, p := range form.RequestedSchema.Properties {
		if v, ok := p["default"]; ok {
			content[name] = v
		} else if p["type"] == "boolean" {
			content[name] = true
		}
	}
	return object{"action": "accept", "content": content}, nil
}
