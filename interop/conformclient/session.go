package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

type object = map[string]any

// maxRounds is how often a server may ask for input before it answers.
const maxRounds = 5

var (
	who  = object{"name": "dragoman-conformclient", "version": "1.0.0"}
	able = object{"elicitation": object{"form": object{}}}
)

// A session is a conversation with the suite's server. It makes one request at a
// time.
type session struct {
	conn   dragoman.Conn
	rev    protocol.Revision
	lastID int64
}

// open begins a conversation: with the handshake of the legacy era, or by asking
// the server which revisions of the modern era it speaks.
func open(ctx context.Context, url string, rev protocol.Revision) (*session, error) {
	client := &streamable.Client{URL: url}
	if !rev.HasSessions() {
		verdict, err := client.Probe(ctx)
		if err != nil {
			return nil, err
		}
		if verdict.Era != protocol.Modern {
			return nil, fmt.Errorf("the server speaks %v, want %s", verdict.Revisions, rev)
		}
		rev = verdict.Revisions[0]
	}
	conn, err := client.Dial(ctx, dragoman.Funcs{OnCall: answer})
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, rev: rev}
	if rev.HasSessions() {
		if err := s.initialize(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return s, nil
}

func (s *session) initialize(ctx context.Context) error {
	var hello struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	err := s.ask(ctx, protocol.MethodInitialize, object{"protocolVersion": s.rev.String(), "capabilities": able, "clientInfo": who}, &hello)
	if err != nil {
		return err
	}
	if hello.ProtocolVersion != s.rev.String() {
		return fmt.Errorf("asked for %s, the server speaks %s", s.rev, hello.ProtocolVersion)
	}
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err != nil {
		return err
	}
	return s.conn.Notify(ctx, note)
}

// ask makes a request, and makes it anew with answers as long as the server asks
// for input. The result is decoded into out unless that is nil.
func (s *session) ask(ctx context.Context, method string, params object, out any) error {
	for range maxRounds {
		resp, err := s.send(ctx, method, params)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var asked struct {
			ResultType    string `json:"resultType"`
			InputRequests map[string]struct {
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
			} `json:"inputRequests"`
			RequestState *string `json:"requestState"`
		}
		if err := resp.Decode(&asked); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if asked.ResultType != protocol.ResultInputRequired {
			if out == nil {
				return nil
			}
			return resp.Decode(out)
		}
		answers := object{}
		for key, q := range asked.InputRequests {
			if answers[key], err = fillIn(q.Method, q.Params); err != nil {
				return err
			}
		}
		params = maps.Clone(params)
		params["inputResponses"] = answers
		delete(params, "requestState")
		if asked.RequestState != nil {
			params["requestState"] = *asked.RequestState
		}
	}
	return fmt.Errorf("%s: the server asks again and again", method)
}

// send makes one request. A JSON-RPC error is returned as such.
func (s *session) send(ctx context.Context, method string, params object) (*dragoman.Message, error) {
	if !s.rev.HasSessions() {
		params = maps.Clone(params)
		params["_meta"] = object{
			protocol.MetaProtocolVersion: s.rev.String(), protocol.MetaClientCapabilities: able, protocol.MetaClientInfo: who,
		}
	}
	s.lastID++
	req, err := dragoman.NewRequest(dragoman.IntID(s.lastID), method, params)
	if err != nil {
		return nil, err
	}
	resp, err := s.conn.Call(ctx, req, dragoman.Funcs{OnCall: answer})
	if err == nil && resp.IsError() {
		err = resp.RPCError()
	}
	return resp, err
}

// answer answers a request of the server.
func answer(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() == protocol.MethodPing {
		return req.Reply(object{})
	}
	result, err := fillIn(req.Method(), req.Params())
	if err != nil {
		return nil, &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: err.Error()}
	}
	return req.Reply(result)
}

// fillIn accepts a form as it is: with its defaults, and true where it has none
// for a yes or no.
func fillIn(method string, params json.RawMessage) (object, error) {
	if method != protocol.MethodElicit {
		return nil, fmt.Errorf("the server asks %s, which this client has no answer to", method)
	}
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
