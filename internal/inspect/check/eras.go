package check

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func initResult(_ context.Context, r *run) outcome {
	var hello struct {
		ProtocolVersion *string
		Capabilities    map[string]json.RawMessage
		ServerInfo      *struct{ Name, Version *string }
	}
	x := r.hello
	if err := json.Unmarshal(x.Result(), &hello); err != nil {
		return fail(x, "it cannot be read: %v", err)
	}
	var missing []string
	for name, ok := range map[string]bool{
		"protocolVersion": hello.ProtocolVersion != nil, "capabilities": hello.Capabilities != nil,
		"serverInfo with name and version": hello.ServerInfo != nil && hello.ServerInfo.Name != nil && hello.ServerInfo.Version != nil,
	} {
		if !ok {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	switch {
	case len(missing) > 0:
		return fail(x, "there is no %s", strings.Join(missing, " and no "))
	case !isRevision(*hello.ProtocolVersion):
		return fail(x, "its protocolVersion is %q, which is no revision", *hello.ProtocolVersion)
	}
	return pass()
}

// isRevision reports whether a name may be that of a revision, also of one that we do not know.
func isRevision(name string) bool {
	_, err := time.Parse(time.DateOnly, name)
	return err == nil || strings.HasPrefix(name, "DRAFT-")
}

func initVersion(ctx context.Context, r *run) outcome {
	invented := func(x *rawclient.Exchange) bool {
		return x.Result() != nil && (x.Named() == rawclient.NoRevision || !isRevision(x.Named()))
	}
	_, x, err := r.handshake(ctx, rawclient.NoRevision, nil, func(x *rawclient.Exchange) bool { return x.Answer != nil && !invented(x) })
	switch {
	case err != nil:
		return fail(nil, "another conversation cannot be begun: %v", err)
	case x.Answer == nil:
		return fail(x, "it is not answered: %s", x.Summary())
	case invented(x):
		return fail(x, "it says that it speaks %q, which does not exist", x.Named())
	}
	return pass()
}

func initKept(_ context.Context, r *run) outcome {
	switch {
	case r.takenBack != nil:
		return fail(r.takenBack, "a request in it gets %s", r.takenBack.Summary())
	case r.legacy == nil:
		return skip("the server speaks no legacy revision")
	}
	return pass()
}

func initOld(ctx context.Context, r *run) outcome {
	var missing, silent []string
	for _, name := range protocol.NamesOf(protocol.Legacy) {
		x := r.hello
		if name != protocol.LatestLegacy.String() {
			var err error
			if _, x, err = r.handshake(ctx, name, nil, func(x *rawclient.Exchange) bool { return x.Named() == name }); err != nil {
				return fail(nil, "another conversation cannot be begun: %v", err)
			}
		}
		switch {
		case x.Silent():
			silent = append(silent, name)
		case x.Named() != name:
			missing = append(missing, name)
		}
	}
	var bad []Finding
	if len(missing) > 0 {
		bad = append(bad, finding(nil, "it does not speak %s", names(missing)))
	}
	if len(silent) > 0 {
		bad = append(bad, finding(nil, "whether it speaks %s is not known: no answer in time", names(silent)))
	}
	return found(bad)
}

func initCapabilities(ctx context.Context, r *run) outcome {
	can := rawclient.CanAll()
	can["experimental"] = rawclient.Object{"dragoman": rawclient.Object{}}
	c, x, err := r.handshake(ctx, protocol.LatestLegacy.String(), can, func(x *rawclient.Exchange) bool { return x.Result() != nil })
	if err != nil {
		return fail(nil, "another conversation cannot be begun: %v", err)
	}
	if x.Result() == nil {
		return fail(x, "it gets %s", x.Summary())
	}
	r.premature = c.Ask(ctx, protocol.MethodPing, nil) // without notifications/initialized
	r.premature.Got = slices.Concat(c.Loose(), r.premature.Got)
	return pass()
}

func initEarly(_ context.Context, r *run) outcome {
	x := r.premature
	if x == nil {
		return skip("init-capabilities looks at the handshake")
	}
	for _, m := range x.Got {
		if m.Method != "" && m.Method != protocol.MethodPing && m.Method != protocol.NoteMessage {
			return fail(x, "%s comes before it", rawclient.Mask([]byte(m.Method)))
		}
	}
	return pass()
}

func ping(ctx context.Context, r *run) outcome {
	x := r.ask(ctx, r.legacy, protocol.MethodPing, nil)
	if x.Result() == nil {
		return fail(x, "it gets %s", x.Summary())
	}
	result := members(x.Result())
	delete(result, "_meta")
	return verify(result != nil && len(result) == 0, x, "its result is not empty")
}

// members returns those of an object.
func members(text json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(text, &m) // what is no object has none
	return m
}

// cacheProblem says what is wrong with the hints of a result about how long it is good for.
func cacheProblem(result map[string]json.RawMessage) string {
	var ttl *int64
	var scope string
	switch {
	case json.Unmarshal(result["ttlMs"], &ttl) != nil || ttl == nil || *ttl < 0:
		return "ttlMs is no integer of 0 or more"
	case json.Unmarshal(result["cacheScope"], &scope) != nil || scope != "public" && scope != "private":
		return "cacheScope is neither public nor private"
	}
	return ""
}

func modernDiscover(_ context.Context, r *run) outcome {
	result := members(r.discovered.Result())
	problem := cacheProblem(result)
	if members(result["capabilities"]) == nil {
		problem = "capabilities is no object"
	}
	if problem != "" {
		return fail(r.discovered, "%s", problem)
	}
	return pass()
}

func modernResultType(ctx context.Context, r *run) outcome {
	for _, x := range r.modernLists(ctx) {
		var kind string
		switch _ = json.Unmarshal(members(x.Result())["resultType"], &kind); kind { // else it has none
		case protocol.ResultComplete, protocol.ResultInputRequired:
		case "":
			return fail(x, "a result has no resultType")
		default:
			return fail(x, "a result has the resultType %q, which nobody has agreed to", kind)
		}
	}
	return pass()
}

func modernCache(ctx context.Context, r *run) outcome {
	for _, x := range r.modernLists(ctx) {
		if problem := cacheProblem(members(x.Result())); problem != "" {
			return fail(x, "%s", problem)
		}
	}
	return pass()
}

func modernServerInfo(ctx context.Context, r *run) outcome {
	for _, x := range r.modernLists(ctx) {
		if members(members(x.Result())["_meta"])[protocol.MetaServerInfo] == nil {
			return fail(x, "a result does not say it")
		}
	}
	return pass()
}

// modernLists asks for all that a modern server has lists of, once.
func (r *run) modernLists(ctx context.Context) []*rawclient.Exchange {
	if r.listed != nil {
		return r.listed
	}
	r.listed = []*rawclient.Exchange{r.discovered}
	for _, l := range lists {
		if r.can(r.modern)[l.Capability] == nil {
			continue
		}
		if x := r.ask(ctx, r.modern, l.Method, nil); x.Result() != nil {
			r.listed = append(r.listed, x)
		}
	}
	return r.listed
}

// askWith asks for the tools, or for what the server is, with another envelope.
func (r *run) askWith(ctx context.Context, change func(rawclient.Object)) *rawclient.Exchange {
	meta := maps.Clone(r.modern.Meta())
	change(meta)
	return r.ask(ctx, r.modern, protocol.MethodDiscover, rawclient.Object{"_meta": meta})
}

func withoutCapabilities(meta rawclient.Object) { delete(meta, protocol.MetaClientCapabilities) }
func withUnknown(meta rawclient.Object)         { meta[protocol.MetaProtocolVersion] = noModern }

// noModern is a revision that does not exist.
const noModern = "2999-12-31"

// askUnknown asks in a revision that does not exist, once.
func (r *run) askUnknown(ctx context.Context) *rawclient.Exchange {
	if r.unknown == nil {
		r.unknown = r.askWith(ctx, withUnknown)
	}
	return r.unknown
}

func modernEnvelope(ctx context.Context, r *run) outcome {
	x := r.askWith(ctx, withoutCapabilities)
	return verify(x.Code() == protocol.CodeInvalidParams, x, "it gets %s", x.Summary())
}

func modernClientInfo(ctx context.Context, r *run) outcome {
	x := r.askWith(ctx, func(meta rawclient.Object) { delete(meta, protocol.MetaClientInfo) })
	return verify(x.Result() != nil, x, "without clientInfo it gets %s", x.Summary())
}

func modernVersion(ctx context.Context, r *run) outcome {
	x := r.askUnknown(ctx)
	if x.Code() != protocol.CodeUnsupported {
		return fail(x, "it gets %s", x.Summary())
	}
	var data struct{ Supported []string }
	_ = json.Unmarshal(x.Answer.Error.Data, &data) // then it names none
	return verify(len(data.Supported) > 0, x, "the error does not name the revisions that are spoken, in data.supported")
}

// tellsOfTools reports whether the server tells of changes of its tools in the modern era.
func (r *run) tellsOfTools() bool {
	var tools struct{ ListChanged bool }
	_ = json.Unmarshal(r.can(r.modern)["tools"], &tools) // then it does not
	return tools.ListChanged
}

func modernListen(ctx context.Context, r *run) outcome {
	x, err := r.listen(ctx)
	if err != nil {
		return fail(nil, "another conversation cannot be begun: %v", err)
	}
	if x.Code() == protocol.CodeMethodNotFound {
		return fail(x, "listChanged is announced, and subscriptions/listen is unknown")
	}
	if len(x.Got) == 0 {
		return fail(x, "it gets %s", x.Summary())
	}
	if x.Got[0].Method != protocol.NoteAcknowledged {
		return fail(x, "the first message is no acknowledgement")
	}
	var ack acknowledgement
	_ = json.Unmarshal(x.Got[0].Params, &ack) // then it names none
	return verify(string(ack.Meta[protocol.MetaSubscriptionID]) == string(members(x.Sent)["id"]), x, "the acknowledgement does not name the id of the request as its subscription")
}

func modernStatus(ctx context.Context, r *run) outcome {
	var bad []Finding
	for _, test := range []struct {
		x    *rawclient.Exchange
		want int
	}{
		{r.tryUnknown(ctx, r.modern, "dragoman/no-such-method", nil), http.StatusNotFound},
		{r.askUnknown(ctx), http.StatusBadRequest},
		{r.askWith(ctx, withoutCapabilities), http.StatusBadRequest},
	} {
		if test.x.Failed() && test.x.Status() != test.want {
			bad = append(bad, finding(test.x, "error %d has status %d, and not %d", test.x.Code(), test.x.Status(), test.want))
		}
	}
	return found(bad)
}

func modernHeaders(ctx context.Context, r *run) outcome {
	var bad []Finding
	for _, test := range []struct {
		says   string
		header rawclient.Object
	}{
		{"without Mcp-Method", rawclient.Object{protocol.HeaderMethod: ""}},
		{"with another Mcp-Method", rawclient.Object{protocol.HeaderMethod: protocol.MethodCallTool}},
		{"with another MCP-Protocol-Version", rawclient.Object{protocol.HeaderVersion: noModern}},
	} {
		x := r.with(ctx, test.header, protocol.MethodDiscover, nil)
		if x.Code() != protocol.CodeHeaderMismatch || x.Status() != http.StatusBadRequest {
			bad = append(bad, finding(x, "%s it gets %s", test.says, x.Summary()))
		}
	}
	return found(bad)
}

func modernSession(_ context.Context, r *run) outcome {
	for _, x := range r.exchanges {
		if x.Status() == http.StatusOK && isModern(x) && x.HTTP.Header.Get(protocol.HeaderSession) != "" {
			return fail(x, "an answer has an Mcp-Session-Id")
		}
	}
	return pass()
}
