//go:build unix

package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A job is what a user has in flight on one connection.
type job struct {
	*conversation
	journal fault.Journal
	word    string // in everything that it says, is told and is asked
	key     string
	held    int    // id of a call that ends when it is let
	asking  int    // id of a call that waits for an answer; 0 if it cannot ask
	asked   string // the question that it waits for
	list    int    // id of a list that has a second page; 0 if there is none
	follows bool   // it is told of a resource
}

// start does everything that leaves an id, and leaves it in progress.
func (p *party) start(d *endpoint, m *meeting, word string, follow bool) *job {
	p.Helper()
	j := &job{conversation: p.enter(d, m.server, ""), journal: m.journal, word: word, key: p.Name() + " " + d.String() + " " + word}
	j.mustSay("echo", object{"text": word}, word)
	j.mustSay("notify", object{"n": 2, "text": word}, "2")
	if !d.tools {
		j.ask(protocol.MethodListTools, nil)
		j.ask(protocol.MethodListPrompts, nil)
		if text := j.ask(protocol.MethodListResources, nil); strings.Contains(text, `"nextCursor"`) {
			j.list = j.next
		}
	}
	if !d.mute {
		j.subscribe(follow)
		j.askTwice(m)
	}
	j.held = j.begin(protocol.MethodCallTool, j.calling("hold", object{"key": j.key, "text": word}))
	gatewaytest.Eventually(p.T, func() error {
		if len(j.journal.Of(fault.Ran, j.key)) == 0 {
			return fmt.Errorf("%s: the call does not begin: %q", d, j.since(0))
		}
		return nil
	})
	return j
}

func (j *job) mustSay(tool string, arguments object, want string) {
	j.Helper()
	if got := j.tool(tool, arguments); !strings.Contains(got, `"text":"`+want+`"`) {
		j.Errorf("%s: %s says %s", j.endpoint, tool, got)
	}
}

// watched is a resource of the built-in server that changes.
const watched = "test://watched-resource"

// subscribe has the job told of a resource that changes, or of one that does not.
func (j *job) subscribe(follow bool) {
	j.Helper()
	j.follows = follow
	uri := "test://numbered/1"
	if follow {
		uri = watched
	}
	if j.endpoint.era == protocol.Modern {
		j.begin(protocol.MethodListen, object{"notifications": object{"toolsListChanged": true, "resourceSubscriptions": []string{uri}}})
		j.await("an acknowledgement", 0, func(text string) bool { return strings.Contains(text, protocol.NoteAcknowledged) })
		return
	}
	j.ask(protocol.MethodSubscribe, object{"uri": uri})
}

// askTwice calls a tool that asks twice, and answers the first time.
func (j *job) askTwice(m *meeting) {
	j.Helper()
	mine := object{"action": "accept", "content": object{"name": j.word}}
	var first string
	if j.asking = j.begin(protocol.MethodCallTool, j.calling(twice, nil)); j.endpoint.era == protocol.Modern {
		first = j.answer(j.asking, 0)
	} else {
		first = j.await("a question", 0, func(text string) bool {
			return strings.Contains(text, protocol.MethodElicit) || answers(dragoman.IntID(int64(j.asking)))(text)
		})
	}
	if !strings.Contains(first, "Step 1") {
		if j.asking = 0; !m.deaf() {
			j.Errorf("%s: no user is asked: %s", j.endpoint, first)
		}
		return
	}
	if j.endpoint.era == protocol.Modern {
		j.asking = j.proceed(first, mine)
		j.asked = j.answer(j.asking, 0)
	} else {
		j.reply(first, mine)
		j.asked = j.await("a second question", 0, func(text string) bool { return strings.Contains(text, "Step 2") })
	}
	if !strings.Contains(j.asked, "Step 2") {
		j.Fatalf("%s: the second question is %s", j.endpoint, j.asked)
	}
}

const twice = "test_input_required_result_multi_round"

// reply answers a question of the legacy era.
func (j *job) reply(question string, answer object) {
	j.Helper()
	m, err := dragoman.Parse([]byte(question))
	if err != nil {
		j.Fatal(err)
	}
	resp, err := m.Reply(answer)
	if err != nil {
		j.Fatal(err)
	}
	j.send(string(resp.Bytes()))
}

// proceed answers a question of the modern era.
func (j *job) proceed(question string, answer object) (id int) {
	j.Helper()
	m, err := dragoman.Parse([]byte(question))
	if err != nil {
		j.Fatal(err)
	}
	params, err := gatewaytest.NextRound(j.calling(twice, nil), m, func(string, json.RawMessage) (object, error) { return answer, nil })
	if err != nil {
		j.Fatal(err)
	}
	return j.begin(protocol.MethodCallTool, params)
}

// member returns a member of the result of a message.
func member(text, name string) (value any) {
	var m struct{ Result map[string]any }
	_ = json.Unmarshal([]byte(text), &m) // what cannot be read has none
	return m.Result[name]
}

// finish ends what is in flight, as if there were no other users.
func (j *job) finish() {
	j.Helper()
	j.journal.Write(fault.Released, j.key)
	if got := j.answer(j.held, 0); !strings.Contains(got, `"text":"`+j.word+`"`) {
		j.Errorf("%s: the call that was held is answered with %s", j.endpoint, got)
	}
	if gone := j.journal.Of(fault.Cancelled, j.key); len(gone) > 0 {
		j.Errorf("%s: the call that was held was cancelled", j.endpoint)
	}
	if j.asking != 0 {
		answer := object{"action": "accept", "content": object{"color": j.word}}
		if j.endpoint.era == protocol.Modern {
			j.asking = j.proceed(j.asked, answer)
		} else {
			j.reply(j.asked, answer)
		}
		if got := j.answer(j.asking, 0); !strings.Contains(got, j.word+" likes "+j.word) {
			j.Errorf("%s: the call that asked is answered with %s", j.endpoint, got)
		}
	}
	if j.list != 0 {
		if got := j.ask(protocol.MethodListResources, object{"cursor": member(j.answer(j.list, 0), "nextCursor")}); !strings.Contains(got, `"resources"`) {
			j.Errorf("%s: the second page is %.300s", j.endpoint, got)
		}
	}
	j.mustSay("echo", object{"text": j.word}, j.word)
	if j.follows {
		n := len(j.since(0))
		j.tool("update_resource", nil)
		j.await("the change of a resource", n, func(text string) bool { return strings.Contains(text, protocol.NoteResourceUpdated) })
	}
}

// goesBack reads a stream of a session once more, which has the job's word.
func (j *job) goesBack(word string) {
	j.Helper()
	ids := slices.DeleteFunc(j.eventIDs(), func(id string) bool { return strings.HasPrefix(id, "0_") }) // which is open
	if len(ids) == 0 {
		j.Fatalf("%s: there was no event", j.endpoint)
	}
	h := j.header.Clone()
	h.Set(protocol.HeaderLastEventID, ids[0])
	if got := j.raw(http.MethodGet, j.g.URL(j.server, j.endpoint.path), h, ""); !strings.Contains(got, word) {
		j.Errorf("%s: a stream continues with %s", j.endpoint, got)
	}
}

// A meeting is two callers at one gateway with one server.
type meeting struct {
	isolation, mode string
	overHTTP        bool // how the server is reached
	server          string
	journal         fault.Journal
}

// deaf reports whether the server can ask nobody.
func (m *meeting) deaf() bool {
	return m.mode == fault.Legacy && m.isolation == "shared"
}

// upstream starts the server, in the process of the test, where a conversation is as cheap as it is
// with a process of its own dear. It is reached by lines, as a command is, or over HTTP.
func (m *meeting) upstream(t *testing.T) (address string) {
	t.Helper()
	numbered := 150 // more than one page of the server's
	if m.server == "" {
		numbered = 1100 // and of ours
	}
	s := fault.New(&fault.Options{Revisions: fault.Revisions(m.mode), Journal: m.journal, Numbered: numbered})
	t.Cleanup(func() { _ = s.Close() })
	if m.overHTTP {
		h := s.Handler()
		web := httptest.NewServer(h)
		t.Cleanup(func() {
			_ = h.Shutdown(t.Context()) // which has ended
			web.Close()
		})
		return web.URL + "/mcp"
	}
	l, err := stdio.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := &stdio.Server{Acceptor: s}
	go func() { _ = lines.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = lines.Close() })
	return "tcp:" + l.Addr().String()
}

// TestS23_S27_NothingOfOneCallerReachesAnother has one caller use every endpoint, and another one try every
// id that the first was sent, wherever an id is taken: it is sent nothing that is not its own,
// its answers are those to ids that nobody has, and the first one does not notice.
func TestS23_S27_NothingOfOneCallerReachesAnother(t *testing.T) {
	t.Parallel() // its gateways are its own
	issuer := authtest.New(t, nil)
	const ours = "https://gw.example.com"
	user := func(name string) string {
		return issuer.Mint(object{"aud": ours, "sub": name})
	}
	tokens := []string{"the-token-of-the-first-caller", "the-token-of-the-second-caller"}
	signed := []string{user("first"), user("second")}
	var meetings []*meeting
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		for _, isolation := range []string{"session", "client", "shared", "request"} {
			meetings = append(meetings, &meeting{isolation: isolation, mode: mode, server: server})
		}
		meetings = append(meetings, &meeting{isolation: "session", mode: mode, server: server, overHTTP: true}, &meeting{isolation: "session", mode: mode, overHTTP: true})
	}
	for i, m := range meetings {
		if every := gatewaytest.Size(1, 3); i%every != every-1 {
			continue // those with the most to mix up are enough
		}
		name := fmt.Sprintf("%s server, isolation %s", m.mode, m.isolation)
		if m.overHTTP {
			name += " over HTTP"
		}
		if m.server == "" {
			name += ", as one of all"
		}
		proofs := tokens
		if i%2 == 1 {
			proofs, name = signed, name+", signed tokens"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel() // with a gateway of its own
			m.journal = newJournal(t)
			dir, err := os.MkdirTemp("", "k") // the path of a socket must be short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			lines := filepath.Join(dir, "lines")
			g := gatewaytest.Serve(t, &gatewaytest.Options{
				Config: object{
					"auth":    object{"url": ours, "tokens": tokens, "jwt": issuer.Issuer, "users": []string{strconv.Itoa(os.Getuid())}},
					"servers": object{server: object{"url": m.upstream(t), "isolation": m.isolation, "tools": object{"prefix": ""}}},
				},
				Flags: []string{"--listen", "unix:" + lines},
			})
			g.Leave() // its probes have no token
			m.run(t, g, proofs, lines)
			if err := g.Unwell(); err != nil {
				t.Error(err)
			}
		})
	}
}

// run has both do what they do.
func (m *meeting) run(t *testing.T, g *gatewaytest.Gateway, proofs []string, lines string) {
	ctx := gatewaytest.Hurry(t, 2*gatewaytest.Patience)
	const mine, other = "word-of-the-first", "word-of-the-second"
	web := gatewaytest.Lasting(t)
	web.Timeout = 0 // streams are open until the end
	victim := &party{T: t, ctx: ctx, g: g, web: web, proof: proofs[0]}
	bystander := &party{T: t, ctx: ctx, g: g, web: web, proof: proofs[1]}
	thief := &party{T: t, ctx: ctx, g: g, web: web, proof: proofs[1], lines: lines, whole: true}
	var jobs, others []*job
	for _, d := range endpoints {
		others = append(others, bystander.start(d, m, other, false))
		jobs = append(jobs, victim.start(d, m, mine, true))
	}
	ids, secret := loot(victim, bystander)
	if len(secret) < 4 {
		t.Errorf("the first caller was sent few ids: %v", secret)
	}
	thief.steal(m, jobs, ids, secret)
	jobs[0].goesBack(mine)
	for _, j := range jobs {
		j.finish()
	}
	for _, j := range others {
		j.journal.Write(fault.Released, j.key)
	}
	sent := map[string]string{"the thief": thief.all(), "the bystander": bystander.all()}
	for who, all := range sent {
		if i := strings.Index(all, mine); i >= 0 {
			t.Errorf("%s was sent something of the first caller: %.300s", who, all[max(0, i-200):])
		}
		if strings.Contains(all, protocol.NoteResourceUpdated) {
			t.Errorf("%s was told of a resource that it has not subscribed to", who)
		}
	}
	for id := range secret {
		if strings.Contains(sent["the bystander"], id) {
			t.Errorf("the bystander was sent %q, which is the first caller's", id)
		}
	}
	if strings.Contains(victim.all(), other) {
		t.Error("the first caller was sent something of the second")
	}
	t.Logf("%d ids, %d of them secret", len(ids), len(secret))
}

// idNames are the names under which ids stand.
var idNames = regexp.MustCompile(`(?i)(id|token|cursor|state)$`)

// loot returns what somebody was sent that may be an id: what stands where ids do, and words that a
// second one, who did the same, was not sent. The latter are secret. Of each place three are enough, or two.
func loot(victim, bystander *party) (ids []any, secret map[string]bool) {
	common := make(map[any]bool)
	for _, s := range bystander.words() {
		common[s.value] = true
	}
	secret = make(map[string]bool)
	places := make(map[string][]any)
	for _, s := range victim.words() {
		text, isText := s.value.(string)
		word := isText && len(text) >= 8 && !common[text] && !strings.ContainsAny(text, " \t\r\n") && !strings.Contains(text, "word-of-")
		if !idNames.MatchString(s.where) && !word || isText && text == "" || slices.Contains(places[s.where], s.value) {
			continue
		}
		places[s.where] = append(places[s.where], s.value)
	}
	for _, where := range slices.Sorted(maps.Keys(places)) {
		values := places[where]
		for _, value := range values[max(0, len(values)-gatewaytest.Size(3, 2)):] {
			if slices.Contains(ids, value) {
				continue
			}
			ids = append(ids, value)
			if text, ok := value.(string); ok && !common[value] {
				secret[text] = true
			}
		}
	}
	return ids, secret
}

// twin returns an id of the same shape that nobody has.
func twin(id any) any {
	if n, ok := id.(json.Number); ok {
		i, err := n.Int64()
		if err != nil {
			return n
		}
		return json.Number(strconv.FormatInt(i+1_000_003, 10))
	}
	// What an id begins with may be of all of its kind, and numbers are of places.
	text := id.(string)
	return text[:len(text)/2] + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return 'a' + (r-'a'+7)%26
		case r >= 'A' && r <= 'Z':
			return 'A' + (r-'A'+7)%26
		}
		return r
	}, text[len(text)/2:])
}

// A place is where an id is taken.
type place struct {
	name string
	acts bool // an id does something there, although the answer is the same
	try  func(id any) (answer string)
}

// steal tries ids in every place.
func (p *party) steal(m *meeting, jobs []*job, ids []any, secret map[string]bool) {
	p.Helper()
	places := p.overHTTP(m, jobs)
	for _, d := range slices.Concat(endpoints, byLines) {
		switch {
		case d.open == nil, slices.Contains(byLines, d) && m.server != "": // lines lead to all servers
			continue
		}
		places = append(places, p.enter(d, m.server, "").places()...)
	}
	for _, place := range places {
		strangers := make(map[string]string) // answers to ids that nobody has, by their shape
		for _, id := range ids {
			// The thief may have the same, and so learns nothing from an answer.
			common := !secret[fmt.Sprint(id)]
			if n, ok := id.(json.Number); ok {
				i, err := n.Int64()
				common = err != nil || i < 1000 // it numbers its own requests so
			}
			if common && !place.acts {
				continue
			}
			got := plain(place.try(id), id)
			if common {
				continue
			}
			shape := fmt.Sprintf("%T %d", id, len(fmt.Sprint(id)))
			want, ok := strangers[shape]
			if !ok {
				stranger := twin(id)
				want = plain(place.try(stranger), stranger)
				strangers[shape] = want
			}
			if got != want {
				p.Errorf("%s with %q, which is another's: %.600s\nand with one that is nobody's: %.600s", place.name, id, got, want)
				break
			}
		}
	}
}

// What differs from one answer to the next.
var fresh = regexp.MustCompile(`sessionId=[\w-]+|"token-\d+"|"id":\d+|"ttlMs":\d+`)

// plain returns an answer without what differs anyway.
func plain(answer string, id any) string {
	text := fmt.Sprint(id)
	if len(text) >= 4 {
		cut := text[:min(len(text), 200)] // as errors do
		answer = strings.NewReplacer(text, "ID", url.QueryEscape(text), "ID", cut, "ID").Replace(answer)
	}
	return fresh.ReplaceAllString(answer, "FRESH")
}

// here stands where the id goes.
const here = "HERE"

// overHTTP returns the places in requests over HTTP.
func (p *party) overHTTP(m *meeting, jobs []*job) (places []place) {
	own := p.enter(endpoints[0], m.server, "")
	p.mu.Lock()
	mine := own.header.Get(protocol.HeaderSession)
	p.mu.Unlock()
	// Where two are taken, the other one is right.
	lastEvent := "1_1"
	if events := jobs[0].eventIDs(); len(events) > 0 {
		lastEvent = events[len(events)-1]
	}
	held, asked := jobs[0].held, "1"
	if jobs[0].asked != "" {
		asked = string(dragoman.Member([]byte(jobs[0].asked), "id"))
	}
	bodies := map[string]string{
		"a ping":       `{"jsonrpc":"2.0","id":77,"method":"ping"}`,
		"a call":       callText(77, "echo", object{"text": "stolen"}),
		"a cancel":     fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, held),
		"an answer":    `{"jsonrpc":"2.0","id":` + asked + `,"result":{"action":"accept","content":{"color":"stolen"}}}`,
		"a refusal":    `{"jsonrpc":"2.0","id":` + asked + `,"error":{"code":-1,"message":"stolen"}}`,
		"a handshake":  helloText(),
		"a subscriber": `{"jsonrpc":"2.0","id":77,"method":"resources/unsubscribe","params":{"uri":"` + watched + `"}}`,
	}
	acting := map[string]bool{bodies["a cancel"]: true, bodies["an answer"]: true, bodies["a refusal"]: true, bodies["a handshake"]: true}
	add := func(name, method, path string, header map[string]string, body string) {
		acts := method == http.MethodDelete || acting[body]
		places = append(places, place{method + " " + path + ", " + name, acts, func(id any) string {
			text := fmt.Sprint(id)
			h := http.Header{}
			for name, value := range header {
				h.Set(name, strings.ReplaceAll(value, here, text))
			}
			return p.raw(method, strings.ReplaceAll(p.g.Base+path, here, url.QueryEscape(text)), h, body)
		}})
	}
	at := strings.TrimPrefix(p.g.URL(m.server, ""), p.g.Base)
	paths := []string{at}
	if m.server != "" {
		paths = append(paths, "/") // all servers at once
	}
	session := map[string]string{protocol.HeaderSession: here, protocol.HeaderVersion: protocol.LatestLegacy.String()}
	for _, at := range paths {
		for _, name := range slices.Sorted(maps.Keys(bodies)) {
			add(name+" in a session", http.MethodPost, at+"mcp", session, bodies[name])
			add(name+" by its stream", http.MethodPost, at+"messages?sessionId=HERE", nil, bodies[name])
		}
		add("a stream", http.MethodGet, at+"mcp", session, "")
		add("a stream that continues", http.MethodGet, at+"mcp", with2(session, protocol.HeaderLastEventID, lastEvent), "")
		add("an end", http.MethodDelete, at+"mcp", session, "")
		add("an end of a stream", http.MethodDelete, at+"sse?sessionId=HERE", nil, "")
	}
	add("an event", http.MethodGet, at+"mcp", map[string]string{protocol.HeaderSession: mine, protocol.HeaderLastEventID: here}, "")
	add("a stream", http.MethodGet, at+"sse?sessionId=HERE", session, "")
	add("an event of a stream", http.MethodGet, at+"sse", map[string]string{protocol.HeaderLastEventID: here}, "")
	add("a socket", http.MethodGet, at+"ws?sessionId=HERE", session, "")
	add("a tool", http.MethodPost, at+"call/echo?sessionId=HERE", with2(session, protocol.HeaderLastEventID, here), `{"text":"x"}`)
	add("tools", http.MethodGet, at+"call?cursor=HERE", session, "")
	add("the status", http.MethodGet, "/status?session=HERE&sessionId=HERE", session, "")
	return places
}

func with2(all map[string]string, name, value string) map[string]string {
	all = maps.Clone(all)
	all[name] = value
	return all
}

// raw sends a request and returns its answer, of a stream the first event.
func (p *party) raw(method, url string, header http.Header, body string) string {
	p.Helper()
	var b strings.Builder
	err := p.fetch(p.request(p.ctx, method, url, header, body), func(resp *http.Response) {
		fmt.Fprintln(&b, resp.Status)
		for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
			switch name {
			case "Date", "X-Request-Id", "Content-Length":
			case http.CanonicalHeaderKey(protocol.HeaderSession):
				fmt.Fprintln(&b, name)
			default:
				fmt.Fprintln(&b, name, resp.Header[name])
			}
		}
	}, func(e event) bool {
		fmt.Fprintln(&b, e.name, e.data)
		return e.name == "result"
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// places returns those in messages of a conversation.
func (v *conversation) places() (places []place) {
	add := func(name string, acts bool, texts func(id any) []string, until func(id any) func(text string) bool) {
		places = append(places, place{name + " by " + v.endpoint.String(), acts, func(id any) string {
			n := len(v.since(0))
			for _, text := range texts(id) {
				v.send(text)
			}
			if until != nil {
				is := until(id)
				v.await("an answer to "+name, n, func(text string) bool { return is(text) || !strings.HasPrefix(text, "{") })
				return v.told(n, "")
			}
			// What there is to be said comes before the answer to this.
			echo := v.tool("echo", object{"text": "x"})
			return v.told(n, echo)
		}})
	}
	one := func(text string) []string { return []string{text} }
	acting := map[string]bool{protocol.MethodCancelTask: true, protocol.MethodUpdateTask: true, protocol.MethodUnsubscribe: true}
	request := func(name, method string, params func(id any) object) {
		add(name, acting[method], func(id any) []string {
			text, _ := v.message(method, params(id))
			return one(text)
		}, func(any) func(string) bool { return answers(dragoman.IntID(int64(v.next))) })
	}
	named := func(id any) dragoman.ID {
		text, _ := json.Marshal(id)
		m, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":` + string(text) + `,"method":"x"}`))
		if err != nil {
			v.Fatal(err)
		}
		return m.ID()
	}
	// A request with another's id is like any other.
	add("a request", true, func(id any) []string {
		return one(v.numbered(id, protocol.MethodCallTool, v.calling("echo", object{"text": "y"})))
	}, func(id any) func(string) bool { return answers(named(id)) })
	if v.endpoint.tools {
		return places
	}
	says := func(format string) func(id any) []string {
		return func(id any) []string {
			text, _ := json.Marshal(id)
			return one(strings.ReplaceAll(format, here, string(text)))
		}
	}
	add("a cancel", true, says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":HERE}}`), nil)
	add("progress", true, says(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":HERE,"progress":1}}`), nil)
	add("an answer", true, says(`{"jsonrpc":"2.0","id":HERE,"result":{"action":"accept","content":{"color":"stolen"}}}`), nil)
	add("a refusal", true, says(`{"jsonrpc":"2.0","id":HERE,"error":{"code":-1,"message":"stolen"}}`), nil)
	for _, method := range []string{protocol.MethodListTools, protocol.MethodListResources, protocol.MethodListPrompts, protocol.MethodListTemplates, protocol.MethodListTasks} {
		request("the cursor of "+method, method, func(id any) object { return object{"cursor": fmt.Sprint(id)} })
	}
	for _, method := range []string{protocol.MethodGetTask, protocol.MethodTaskResult, protocol.MethodCancelTask, protocol.MethodUpdateTask} {
		request("the task of "+method, method, func(id any) object { return object{"taskId": fmt.Sprint(id), "inputResponses": object{}} })
	}
	request("a resource", protocol.MethodUnsubscribe, func(id any) object { return object{"uri": fmt.Sprint(id)} })
	if v.endpoint.era == protocol.Legacy {
		return places
	}
	request("the state of a call", protocol.MethodCallTool, func(id any) object {
		answer := object{"action": "accept", "content": object{"color": "stolen", "name": "stolen"}}
		return with(v.calling(twice, nil), object{"requestState": fmt.Sprint(id), "inputResponses": object{"step1": answer, "step2": answer, "1": answer, "2": answer}})
	})
	listen := object{"notifications": object{"toolsListChanged": true}}
	add("a subscription", true, func(id any) []string { return one(v.numbered(id, protocol.MethodListen, listen)) }, func(id any) func(string) bool {
		return func(text string) bool {
			return strings.Contains(text, protocol.NoteAcknowledged) || answers(named(id))(text)
		}
	})
	request("the mark of a subscription", protocol.MethodCallTool, func(id any) object {
		return with(v.calling("echo", object{"text": "x"}), object{"_meta": object{protocol.MetaSubscriptionID: id}})
	})
	return places
}

// told returns what has come since there were so many messages, but for one, in no order.
func (v *conversation) told(n int, but string) string {
	all := slices.DeleteFunc(v.since(n), func(text string) bool { return text == but })
	for i, text := range all {
		if m, err := dragoman.Parse([]byte(text)); err == nil && m.Kind() == dragoman.Response {
			all[i] = string(m.WithID(dragoman.IntID(0)).Bytes())
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
