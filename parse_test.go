package dragoman_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// What is odd and right must pass.
func TestS02_S06_OddMessagesPass(t *testing.T) {
	cases := map[string]string{
		"128 levels":                             nested(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":`, 126, `}}`),
		"128 levels in a result":                 nested(`{"jsonrpc":"2.0","id":1,"result":`, 127, `}`),
		"duplicates deep in the arguments":       `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a":{"b":1,"b":2},"name":1,"Name":2}}}`,
		"duplicates in a result":                 `{"jsonrpc":"2.0","id":1,"result":{"x":1,"x":2}}`,
		"case variants in a result":              `{"jsonrpc":"2.0","id":1,"result":{"name":1,"Name":2}}`,
		"case variants of what is not reserved":  `{"jsonrpc":"2.0","id":1,"method":"m","params":{"level":1,"Level":2}}`,
		"envelope's names in params":             `{"jsonrpc":"2.0","id":1,"method":"m","params":{"Method":1,"ID":2,"jsonrpc":3}}`,
		"params' names in the envelope":          `{"jsonrpc":"2.0","id":1,"method":"m","Name":1,"_META":2}`,
		"Kelvin sign in what is not reserved":    `{"jsonrpc":"2.0","id":1,"method":"m","params":{"toKen":1}}`,
		"dotless i":                              `{"jsonrpc":"2.0","ıd":1,"method":"m","params":{"urı":1}}`,
		"names that only begin with reserved":    `{"jsonrpc":"2.0","id":1,"method":"m","methods":1,"params":{"names":1,"nam":2}}`,
		"escaped names":                          `{"json\u0072pc":"2.0","\u0069d":1,"metho\u0064":"m","p\u0061rams":{"n\u0061me":"x"}}`,
		"escaped version":                        `{"jsonrpc":"2\u002e0","id":1,"method":"m"}`,
		"half a pair in the arguments":           `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"name":"\ud800"}}}`,
		"half a pair in a result's name":         `{"jsonrpc":"2.0","id":1,"result":{"name":"\ud800"}}`,
		"half a pair in a member name":           `{"jsonrpc":"2.0","id":1,"method":"m","params":{"\ud800":1}}`,
		"surrogate pair in a name":               `{"jsonrpc":"2.0","id":"\ud83d\ude00","method":"\ud83d\ude00","params":{"name":"\uD83D\uDE00"}}`,
		"NUL in the arguments":                   `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a\u0000":"\u0000"}}}`,
		"name that is no string":                 `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":7,"uri":null}}`,
		"error response without an id":           `{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`,
		"error response with id null":            `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
		"empty error":                            `{"jsonrpc":"2.0","id":1,"error":{}}`,
		"result null":                            `{"jsonrpc":"2.0","id":1,"result":null}`,
		"result number":                          `{"jsonrpc":"2.0","id":1,"result":7}`,
		"_meta null":                             `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":null}}`,
		"_meta null in a result":                 `{"jsonrpc":"2.0","id":1,"result":{"_meta":null}}`,
		"members in any order":                   `{"params":{"_meta":{},"name":"x"},"method":"m","id":1,"jsonrpc":"2.0"}`,
		"white space everywhere":                 "\r\n\t { \"jsonrpc\" : \"2.0\" ,\n\"id\"\t: 1 , \"method\" : \"m\" , \"params\" : { \"_meta\" : { } } } \n",
		"unknown members":                        `{"jsonrpc":"2.0","id":1,"method":"m","x":[1,{"y":null}],"":0}`,
		"20 names in params":                     `{"jsonrpc":"2.0","id":1,"method":"m","params":{` + numbered(20) + `}}`,
		"20 names in _meta":                      `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{` + numbered(20) + `}}}`,
		"20 unknown names in the envelope":       `{"jsonrpc":"2.0","id":1,"method":"m",` + numbered(20) + `}`,
		"long strings that end at the last byte": `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 4096) + `"}`,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			want := refParse([]byte(text))
			got, err := dragoman.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			want.compare(t, []byte(text), got, err)
		})
	}
}

// numbered returns n members.
func numbered(n int) string {
	var s strings.Builder
	for i := range n {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, `"k%d":%d`, i, i)
	}
	return s.String()
}

func TestS04_ManyMembers(t *testing.T) {
	many := numbered(20000)
	for _, frame := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{%s}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{%s}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m",%s}`,
	} {
		if _, err := dragoman.Parse(fmt.Appendf(nil, frame, many)); err != nil {
			t.Errorf(frame+": %v", "...", err)
		}
		if _, err := dragoman.Parse(fmt.Appendf(nil, frame, many+`,"k\u0031":0`)); err == nil {
			t.Errorf(frame+": a name may stand twice among many", "...")
		}
		for n := 1; n < 40; n++ { // the last few are where a map takes over
			for again := range n {
				text := fmt.Sprintf(`%s,"k%d":0`, numbered(n), again)
				if _, err := dragoman.Parse(fmt.Appendf(nil, frame, text)); err == nil {
					t.Errorf(frame+" may be accepted", text)
				}
			}
		}
	}
	result := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{%s}}`, many)
	m, err := dragoman.Parse(result)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Get("k19999")); got != "19999" {
		t.Errorf("the last member is %s", got)
	}
}

func TestS04_LargeArray(t *testing.T) {
	data := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a":[1` + strings.Repeat(",1", 2<<20) + `]}}}`)
	if _, err := dragoman.Parse(data); err != nil {
		t.Error(err)
	}
}

func TestSizeLimit(t *testing.T) {
	data := []byte(`{"jsonrpc":"2.0","method":"m"}`)
	for _, c := range []struct {
		limit int
		ok    bool
	}{{len(data), true}, {len(data) - 1, false}, {1, false}, {0, true}, {-1, true}} {
		m, err := dragoman.Limits{MaxMessage: c.limit}.Parse(data)
		if c.ok && err != nil {
			t.Errorf("limit %d: %v", c.limit, err)
		}
		if !c.ok && (m != nil || !errors.Is(err, dragoman.ErrTooLarge)) {
			t.Errorf("limit %d: %v, %v; want ErrTooLarge", c.limit, m, err)
		}
	}
	for limit, want := range map[int]int{0: dragoman.DefaultMaxMessage, 5: 5, -1: 1<<31 - 1} {
		if got := (dragoman.Limits{MaxMessage: limit}).Message(); got != want {
			t.Errorf("limit %d is %d in force, want %d", limit, got, want)
		}
	}
	big := make([]byte, dragoman.DefaultMaxMessage+1)
	if _, err := dragoman.Parse(big); !errors.Is(err, dragoman.ErrTooLarge) {
		t.Errorf("17 MB: %v", err)
	}
}

// What a bridge does not understand it must not touch.
func TestBytesStayAsTheyWere(t *testing.T) {
	text := `{"x-unknown": {"b":1,"a":2},  "params":{"arguments":{"big":123456789012345678901234567890,"f":1.0,"e":1E+2,"z":-0,"s":"\u00e9é\/","a":1,"A":2},"zeta":[ ],"alpha":{}},"method":"m","id":9007199254740993,"jsonrpc":"2.0"}`
	m, err := dragoman.Parse([]byte("\n" + text + " \n"))
	if err != nil {
		t.Fatal(err)
	}
	if m.String() != text {
		t.Errorf("got  %s\nwant %s", m, text)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	for _, text := range messages {
		if strings.Contains(text, `n\u0061me`) {
			continue // names with escapes are decoded
		}
		data := []byte(text)
		kinds := 0
		if n := testing.AllocsPerRun(100, func() {
			m, err := dragoman.Parse(data)
			if err == nil {
				kinds += int(m.Kind())
			}
		}); n != 0 {
			t.Errorf("%s: Parse allocates %v times", text, n)
		}
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	m, err := dragoman.Parse([]byte(messages[0]))
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	id := dragoman.IntID(99)
	n := testing.AllocsPerRun(100, func() {
		if m.Name() != "echo" || m.Method() != "tools/call" || len(m.Get("arguments")) == 0 || m.Get("absent") != nil ||
			len(m.Meta("progressToken")) == 0 || m.Meta("absent") != nil || m.ID().Key() != m.ID() {
			t.Error("not as it was")
		}
		buf = m.AppendWithID(buf[:0], id)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { m = m.WithID(id) }); n > 1 {
		t.Errorf("WithID allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := m.Edit().SetMeta("progressToken", []byte("1")).Message(); err != nil {
			t.Error(err)
		}
	}); n > 8 {
		t.Errorf("an edit allocates %v times", n)
	}
}

func TestMembersWithANotedPlace(t *testing.T) {
	for _, name := range refNoted {
		value := `{"x":1}`
		for _, frame := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":0,%s,"z":0}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"a":0,%s,"z":0}}`,
		} {
			once := fmt.Sprintf("%q : %s", name, value)
			m := peertest.Parse(t, fmt.Sprintf(frame, once))
			if got := string(m.Get(name)); got != value {
				t.Errorf("%s: %s is %s", m, name, got)
			}
			if _, err := dragoman.Parse(fmt.Appendf(nil, frame, once+","+once)); err == nil {
				t.Errorf(frame+" passes", once+","+once)
			}
			edited, err := m.Edit().Drop(name, "a").Message()
			if err != nil || edited.Get(name) != nil || edited.Get("z") == nil {
				t.Errorf("without %s: %v, %v", name, edited, err)
			}
		}
	}
}
