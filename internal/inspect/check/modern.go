package check

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// isModern reports whether the request of an exchange is one of the modern era.
func isModern(x *rawclient.Exchange) bool {
	return strings.Contains(string(x.Sent), protocol.MetaProtocolVersion)
}

func modernVersionData(ctx context.Context, r *run) outcome {
	x := r.askUnknown(ctx)
	var data struct {
		Supported []string
		Requested string
	}
	if x.Code() != protocol.CodeUnsupported || json.Unmarshal(x.Answer.Error.Data, &data) != nil || len(data.Supported) == 0 {
		return skip("modern-version looks at it")
	}
	named, spoken := modernNames(data.Supported), modernNames(r.discovered.Supported())
	switch {
	case data.Requested != noModern:
		return fail(x, "data.requested is not the revision that was asked for")
	case !slices.Equal(named, spoken):
		return fail(x, "it names %s, and server/discover %s", names(named), names(spoken))
	}
	return pass()
}

// modernNames returns the revisions of a list that are modern, in order. Which legacy ones are spoken is a
// matter of the transport.
func modernNames(list []string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(name string) bool { return name < protocol.Latest.String() })
	slices.Sort(list)
	return list
}

func modernOnly(_ context.Context, r *run) outcome {
	said := []byte{}
	for _, m := range r.declined.Got {
		said = append(said, m.Text...)
	}
	for _, name := range r.discovered.Supported() {
		if bytes.Contains(said, []byte(name)) {
			return pass()
		}
	}
	return fail(r.declined, "initialize gets %s, which names none of them: old clients do not learn why", r.declined.Summary())
}

func modernMethods(ctx context.Context, r *run) outcome {
	var bad []Finding
	s := &rawclient.Session{HTTP: r.http, Version: r.modern.Revision.String()}
	for _, x := range []*rawclient.Exchange{s.Background(ctx, r.Timeout), s.Delete(ctx, r.Timeout)} {
		if x.Status() != http.StatusMethodNotAllowed {
			bad = append(bad, finding(x, "it gets %s", x.Summary()))
		}
	}
	return found(bad)
}

// with asks in the modern era, with other headers.
func (r *run) with(ctx context.Context, header rawclient.Object, method string, params rawclient.Object) *rawclient.Exchange {
	return r.ask(ctx, r.Client(&rawclient.Session{HTTP: r.http, Override: header}, r.modern.Revision), method, params)
}

func modernBare(ctx context.Context, r *run) outcome {
	header := rawclient.Object{protocol.HeaderVersion: r.modern.Revision.String(), protocol.HeaderMethod: protocol.MethodDiscover}
	c := r.Client(&rawclient.Session{HTTP: r.http, Override: header}, protocol.LatestLegacy) // which has no envelope
	x := c.Ask(ctx, protocol.MethodDiscover, nil)
	return verify(x.Status() == http.StatusBadRequest && (x.Code() == protocol.CodeInvalidParams || x.Code() == protocol.CodeHeaderMismatch), x, "it gets %s", x.Summary())
}

func modernEncoding(ctx context.Context, r *run) outcome {
	x := r.ask(ctx, r.modern, protocol.MethodCallTool, rawclient.Object{"name": "dragoman_no_such_t\u00f6\u00f6l", "arguments": rawclient.Object{}})
	return verify(x.Code() != protocol.CodeHeaderMismatch, x, "a name that is not ASCII gets %s: its Mcp-Name is in base64, as it has to be", x.Summary())
}

// resource returns the URI of a resource that the server lists in the modern era, or "".
func (r *run) resource(ctx context.Context) string {
	for _, x := range r.modernLists(ctx) {
		var list struct{ Resources []struct{ URI string } }
		if json.Unmarshal(x.Result(), &list) == nil && len(list.Resources) > 0 {
			return list.Resources[0].URI
		}
	}
	return ""
}

// noResources is why rules that read one do not apply.
const noResources = "the server lists no resources"

func modernName(ctx context.Context, r *run) outcome {
	uri := r.resource(ctx)
	if uri == "" {
		return skip(noResources)
	}
	var bad []Finding
	for _, test := range []struct{ says, name string }{
		{"without Mcp-Name", ""},
		{"with another Mcp-Name", "dragoman-other"},
		{"with an Mcp-Name whose base64 cannot be read", "=?base64?!?="},
	} {
		x := r.with(ctx, rawclient.Object{protocol.HeaderName: test.name}, protocol.MethodReadResource, rawclient.Object{"uri": uri})
		if x.Code() != protocol.CodeHeaderMismatch || x.Status() != http.StatusBadRequest {
			bad = append(bad, finding(x, "%s resources/read gets %s", test.says, x.Summary()))
		}
	}
	return found(bad)
}

func modernEventIDs(_ context.Context, r *run) outcome {
	for _, x := range r.exchanges {
		if isModern(x) && x.HTTP != nil {
			if id, _ := x.HTTP.Resumable(); id != "" {
				return fail(x, "an event has an id, and no stream of the modern era can be resumed")
			}
		}
	}
	return pass()
}

func modernSessionIgnored(ctx context.Context, r *run) outcome {
	x := r.with(ctx, rawclient.Object{protocol.HeaderSession: rawclient.NoSession, protocol.HeaderLastEventID: "dragoman-none"}, protocol.MethodDiscover, nil)
	return verify(x.Result() != nil, x, "with them it gets %s", x.Summary())
}

// second returns another conversation of the modern era.
func (r *run) second(ctx context.Context) (*rawclient.Client, error) {
	if r.another == nil {
		w, err := r.fresh(ctx)
		if err != nil {
			return nil, err
		}
		r.another = r.Client(w, r.modern.Revision)
	}
	return r.another, nil
}

func modernSteady(ctx context.Context, r *run) outcome {
	c, err := r.second(ctx)
	if err != nil {
		return fail(nil, "another conversation cannot be begun: %v", err)
	}
	here, there := r.list(ctx, r.modern, protocol.MethodListTools, "tools"), r.list(ctx, c, protocol.MethodListTools, "tools")
	if !here.OK() || !there.OK() {
		return skip("tools/list gets " + there.Last().Summary())
	}
	a, b := toolNames(toolsOf(here)), toolNames(toolsOf(there))
	slices.Sort(a) // list-steady looks at the order
	slices.Sort(b)
	return verify(slices.Equal(a, b), there.Last(), "in one conversation there are %s, in another %s", names(a), names(b))
}

// listen begins to listen for changes of tools, once, in the second conversation.
func (r *run) listen(ctx context.Context) (x *rawclient.Exchange, err error) {
	if r.listening == nil {
		r.listening, err = r.subscribe(ctx, rawclient.Object{"notifications": rawclient.Object{"toolsListChanged": true}})
	}
	return r.listening, err
}

// subscribe asks for a subscription, and returns with the first message.
func (r *run) subscribe(ctx context.Context, params rawclient.Object) (*rawclient.Exchange, error) {
	c, err := r.second(ctx)
	if err != nil {
		return nil, err
	}
	request := c.Request(protocol.MethodListen, params, nil)
	request.First = true
	wait, cancel := context.WithTimeoutCause(ctx, c.Timeout, rawclient.ErrSilent)
	defer cancel()
	return r.keep(c.Exchange(wait, request)), nil
}

// An acknowledgement is the first message of a subscription.
type acknowledgement struct {
	Notifications map[string]json.RawMessage
	Meta          map[string]json.RawMessage `json:"_meta"`
}

func modernListenAsked(ctx context.Context, r *run) outcome {
	x, err := r.listen(ctx)
	if err != nil || len(x.Got) == 0 || x.Got[0].Method != protocol.NoteAcknowledged {
		return skip("modern-listen looks at it")
	}
	var ack acknowledgement
	_ = json.Unmarshal(x.Got[0].Params, &ack) // then it names none
	for _, kind := range slices.Sorted(maps.Keys(ack.Notifications)) {
		switch nothing := string(ack.Notifications[kind]); {
		case kind == "toolsListChanged", nothing == "false", nothing == "null", nothing == "[]":
		default:
			return fail(x, "it names %s, which was not asked for", rawclient.Mask([]byte(kind)))
		}
	}
	return pass()
}

func modernListenParams(ctx context.Context, r *run) outcome {
	x, err := r.subscribe(ctx, nil)
	if err != nil {
		return fail(nil, "another conversation cannot be begun: %v", err)
	}
	return verify(x.Code() == protocol.CodeInvalidParams, x, "it gets %s", saysHeard(x))
}

// saysHeard says what the first message of a subscription is.
func saysHeard(x *rawclient.Exchange) string {
	if x.Answer == nil && len(x.Got) > 0 {
		return rawclient.Mask([]byte(x.Got[0].Method))
	}
	return x.Summary()
}

func modernCacheRead(ctx context.Context, r *run) outcome {
	asked := []*rawclient.Exchange{}
	if r.can(r.modern)["resources"] != nil {
		asked = append(asked, r.ask(ctx, r.modern, protocol.MethodListTemplates, nil))
	}
	if uri := r.resource(ctx); uri != "" {
		asked = append(asked, r.ask(ctx, r.modern, protocol.MethodReadResource, rawclient.Object{"uri": uri}))
	}
	if len(asked) == 0 {
		return skip(noResources)
	}
	for _, x := range asked {
		result := members(x.Result())
		if result == nil || string(result["resultType"]) == `"`+protocol.ResultInputRequired+`"` {
			continue
		}
		if problem := cacheProblem(result); problem != "" {
			return fail(x, "%s", problem)
		}
	}
	return pass()
}

func modernCachePages(ctx context.Context, r *run) outcome {
	paged := false
	for _, l := range rawclient.Lists {
		first := slices.IndexFunc(r.modernLists(ctx), func(x *rawclient.Exchange) bool {
			result := members(x.Result())
			return result[l.Member] != nil && result["nextCursor"] != nil
		})
		if first < 0 {
			continue
		}
		paged = true
		scopes := map[string]bool{}
		pages := r.list(ctx, r.modern, l.Method, l.Member)
		for _, x := range pages.Exchanges {
			if scope := members(x.Result())["cacheScope"]; scope != nil {
				scopes[string(scope)] = true
			}
		}
		if len(scopes) > 1 {
			return fail(pages.Last(), "pages of %s are public and private", l.Method)
		}
	}
	if !paged {
		return skip("lists have one page")
	}
	return pass()
}

func modernLogLevel(ctx context.Context, r *run) outcome {
	if r.can(r.modern)["logging"] == nil {
		return skip("the server does not log")
	}
	method := protocol.MethodDiscover
	if r.can(r.modern)["tools"] != nil {
		method = protocol.MethodListTools
	}
	meta := r.modern.Meta()
	meta[protocol.MetaLogLevel] = "dragoman"
	x := r.ask(ctx, r.modern, method, rawclient.Object{"_meta": meta})
	return verify(x.Code() == protocol.CodeInvalidParams, x, "it gets %s", x.Summary())
}
