package check

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

func stdioBlank(ctx context.Context, r *run) outcome {
	if r.risked != nil && r.blank(ctx, r.risked) == nil {
		return pass()
	} // else it may be due to what was tried before
	c, err := r.begin(ctx)
	if err != nil {
		return fail(nil, "another process cannot be used: %v", err)
	}
	if x := r.blank(ctx, c); x != nil {
		return fail(r.keep(x), "after an empty line, a request with white space behind it gets %s", describeID(x))
	}
	return pass()
}

// blank sends empty lines and a request with white space behind it. It returns the exchange if the
// request is not answered as it should be.
func (r *run) blank(ctx context.Context, c *rawclient.Client) *rawclient.Exchange {
	wait, cancel := context.WithTimeoutCause(ctx, r.Timeout, rawclient.ErrSilent)
	defer cancel()
	c.Notify(wait, nil)
	c.Notify(wait, []byte("   "))
	request := c.Request(harmless(c), nil, nil)
	request.Text = append(request.Text, " \t\r"...)
	if x := c.Exchange(wait, request); x.Answer == nil || x.Misnamed {
		return x
	}
	return nil
}

// stdioFirst looks at what came before the first answer.
func stdioFirst(_ context.Context, r *run) outcome {
	for _, m := range r.hello.Got {
		if m.IsRequest() && m.Method != protocol.MethodPing {
			return fail(r.hello, "it asks %s before the handshake is over", rawclient.Mask([]byte(m.Method)))
		}
	}
	return pass()
}

func stdioEOF(_ context.Context, r *run) outcome {
	if _, _, byItself := r.pool.Last().Stop(); !byItself {
		return fail(nil, "it does not end by itself when its standard input is closed, and has to be ended by force")
	}
	return pass()
}

// stdioStdout judges what all processes wrote, so they are ended before.
func stdioStdout(_ context.Context, r *run) outcome {
	r.pool.Close()
	for _, p := range r.pool.Processes {
		noise := slices.DeleteFunc(slices.Clone(p.Noise), isArray)
		if len(noise) > 0 {
			f := Finding{Text: "there is text on standard output that is no message"}
			for _, line := range noise[:min(len(noise), 5)] {
				f.Frames = append(f.Frames, "← "+rawclient.Mask([]byte(line)))
			}
			return found([]Finding{f})
		}
	}
	return pass()
}

// isArray reports whether a text is a JSON array, which may answer that of rpc-batch.
func isArray(text string) bool {
	var list []json.RawMessage
	return json.Unmarshal([]byte(text), &list) == nil
}

func stdioFraming(_ context.Context, r *run) outcome {
	if r.Spec.Framing != stdio.ContentLength && r.pool.Processes[0].Lines.Framing() == stdio.ContentLength {
		return fail(nil, "lines are answered by frames with a Content-Length header, which clients of MCP do not read")
	}
	return pass()
}

func stdioStderr(_ context.Context, r *run) outcome {
	for _, p := range r.pool.Processes {
		for line := range bytes.Lines(p.Stderr()) {
			if m := rawclient.ReadMessage(bytes.TrimSpace(line)); m != nil && m.Problem == "" {
				return found([]Finding{{Text: "there is a message on standard error", Frames: []string{"← " + rawclient.Mask(line)}}})
			}
		}
	}
	return pass()
}
