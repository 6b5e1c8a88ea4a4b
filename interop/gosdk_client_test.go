package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDK is a client of the official Go SDK.
type goSDK struct {
	*mcp.ClientSession
	rev protocol.Revision
}

func connectGoSDK(t *testing.T, to []string, rev protocol.Revision) *session {
	t.Helper()
	return openGoSDK(t, to, rev, true)
}

// openGoSDK connects a client of the Go SDK. If able, it answers all server requests.
func openGoSDK(t *testing.T, to []string, rev protocol.Revision, able bool) *session {
	t.Helper()
	var wire mcp.Transport
	switch {
	case !isURL(to):
		cmd := exec.Command(to[0], to[1:]...)
		cmd.Stderr = t.Output()
		return openGoSDKOver(t, &mcp.CommandTransport{Command: cmd, TerminateDuration: killAfter}, rev, able)
	case strings.HasSuffix(to[0], "/sse"):
		wire = &mcp.SSEClientTransport{Endpoint: to[0], HTTPClient: connections(t)}
	default:
		wire = &mcp.StreamableClientTransport{Endpoint: to[0], HTTPClient: connections(t)}
	}
	return openGoSDKOver(t, wire, rev, able)
}

// killAfter is the time after which a client kills a server that does not end. The test has failed by then.
const killAfter = 2 * patience

func openGoSDKOver(t *testing.T, wire mcp.Transport, rev protocol.Revision, able bool) *session {
	t.Helper()
	client, notes := newGoSDK(able)
	conn, err := client.Connect(t.Context(), wire, &mcp.ClientSessionOptions{ProtocolVersion: rev.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan error, 1)
		go func() { closed <- conn.Close() }() // ends with the server, which is killed after killAfter
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("the connection does not end in good order: %v", err)
			}
		case <-time.After(patience):
			t.Error("the server does not end when its input does")
			<-closed
		}
	})
	hello := conn.InitializeResult()
	rev = protocol.ParseRevision(hello.ProtocolVersion)
	s := &session{sdkClient: &goSDK{conn, rev}, rev: rev, notes: notes, hasty: true}
	if hello.ServerInfo != nil {
		s.server = hello.ServerInfo.Name
	}
	return s
}

// newGoSDK returns a client that is not connected yet, and what it will receive.
func newGoSDK(able bool) (*mcp.Client, *notifications) {
	notes := newNotifications()
	opts := &mcp.ClientOptions{
		ToolListChangedHandler: func(_ context.Context, r *mcp.ToolListChangedRequest) {
			notes.add(protocol.NoteToolsChanged, r.Params)
		},
		PromptListChangedHandler: func(_ context.Context, r *mcp.PromptListChangedRequest) {
			notes.add(protocol.NotePromptsChanged, r.Params)
		},
		ResourceListChangedHandler: func(_ context.Context, r *mcp.ResourceListChangedRequest) {
			notes.add(protocol.NoteResourcesChanged, r.Params)
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			notes.add(protocol.NoteResourceUpdated, r.Params)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			notes.add(protocol.NoteMessage, r.Params)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			notes.add(protocol.NoteProgress, r.Params)
		},
		Capabilities: &mcp.ClientCapabilities{},
	}
	if able {
		opts.Capabilities = &mcp.ClientCapabilities{
			RootsV2: &mcp.RootCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{
				Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
			},
		}
		opts.CreateMessageHandler = func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return answerAs[*mcp.CreateMessageResult](protocol.MethodCreateMessage, r.Params)
		}
		opts.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return answerAs[*mcp.ElicitResult](protocol.MethodElicit, r.Params)
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1.8.0"}, opts)
	if able {
		client.AddRoots(&mcp.Root{URI: rootURI, Name: "interop"})
	}
	return client, notes
}

// answerAs is answer in the types of an SDK.
func answerAs[T any](method string, params any) (out T, err error) {
	p, err := convert[object](params)
	if err != nil {
		return out, err
	}
	a, err := answer(method, p)
	if err != nil {
		return out, err
	}
	return convert[T](a)
}

func (s *goSDK) tools(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (s *goSDK) call(ctx context.Context, name string, args object, token string) (any, error) {
	params := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: name}
	if args != nil {
		params.Arguments = args // a nil map would become null, which is no object
	}
	if token != "" {
		params.SetProgressToken(token)
	}
	if !s.rev.HasSessions() {
		params.Meta[protocol.MetaLogLevel] = "debug"
	}
	return s.CallTool(ctx, params)
}

func (s *goSDK) do(ctx context.Context, method string, params object) (json.RawMessage, error) {
	var result any
	var err error
	switch method {
	case "ping":
		result, err = tell(ctx, params, s.Ping)
	case "setLoggingLevel":
		result, err = tell(ctx, params, s.SetLoggingLevel)
	case "listen": // it subscribes to lists without a call, if it has a handler
		result = object{}
		for _, uri := range params["resourceSubscriptions"].([]string) {
			err = errors.Join(err, s.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}))
		}
	case "subscribeResource":
		result, err = tell(ctx, params, s.Subscribe)
	case "unsubscribeResource":
		result, err = tell(ctx, params, s.Unsubscribe)
	case "listResources":
		result, err = ask(ctx, params, s.ListResources)
	case "listResourceTemplates":
		result, err = ask(ctx, params, s.ListResourceTemplates)
	case "listPrompts":
		result, err = ask(ctx, params, s.ListPrompts)
	case "readResource":
		result, err = ask(ctx, params, s.ReadResource)
	case "getPrompt":
		result, err = ask(ctx, params, s.GetPrompt)
	case "complete":
		result, err = ask(ctx, params, s.Complete)
	default:
		err = fmt.Errorf("there is no method %s", method)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func TestE05_GoSDKClientSeesAnErrorUnchanged(t *testing.T) {
	t.Parallel()
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		s := openGoSDK(t, builtinAt(t, "stdio"), rev, false)
		_, err := s.call(t.Context(), "raise", object{"code": 1234, "message": "as asked", "reason": "because"}, "")
		var rpc *jsonrpc.Error
		if !errors.As(err, &rpc) || rpc.Code != 1234 || rpc.Message != "as asked" || string(rpc.Data) != `{"reason":"because"}` {
			t.Errorf("raise: %#v", err)
		}
		_, err = s.call(t.Context(), "test_missing_capability", nil, "")
		if !errors.As(err, &rpc) || rpc.Code != mcp.CodeMissingRequiredClientCapabilities {
			t.Fatalf("a client without sampling gets %v", err)
		}
		need := decode[mcp.MissingRequiredClientCapabilityData](t, rpc.Data)
		if need.RequiredCapabilities == nil || need.RequiredCapabilities.Sampling == nil {
			t.Errorf("the error has data %s", rpc.Data)
		}
	})
}

// The SDK does not wait for the end of its subscription, so a few more updates may come.
func TestGoSDKClientHearsNoUpdatesAfterItsSubscriptionHasEnded(t *testing.T) {
	t.Parallel()
	s := connectGoSDK(t, builtinAt(t, "stdio"), protocol.Latest)
	s.want(t, "subscribeResource", object{"uri": watched})
	s.until(t, "update_resource", nil, watched, protocol.NoteResourceUpdated)
	s.want(t, "unsubscribeResource", object{"uri": watched})
	for end := time.Now().Add(patience); ; {
		before, _ := s.notes.count(protocol.NoteResourceUpdated, watched)
		s.tool(t, "update_resource", nil, watched)
		s.tool(t, "update_resource", nil, watched)
		if after, _ := s.notes.count(protocol.NoteResourceUpdated, watched); after == before {
			return
		}
		if time.Now().After(end) {
			t.Fatal("updates continue after the subscription ended")
		}
	}
}
