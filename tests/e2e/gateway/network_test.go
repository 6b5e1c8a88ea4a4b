//go:build linux

package gateway

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

// networkVariable says that the process has a network of its own.
const networkVariable = "DRAGOMAN_TEST_NETWORK"

// alone runs the test once more, in a process that has a network of its own, and
// reports whether this is that process. Where there can be none the test is skipped.
func alone(t *testing.T, limit time.Duration) bool {
	t.Helper()
	if os.Getenv(networkVariable) != "" {
		must(t, "ip", "link", "set", "lo", "mtu", "1500", "up")
		return true
	}
	for _, name := range []string{"unshare", "ip", "nft", "tc"} {
		if _, err := exec.LookPath(program(name)); err != nil {
			t.Skipf("%s is missing: install util-linux, iproute2 and nftables", name)
		}
	}
	unshare := program("unshare")
	if out, err := exec.CommandContext(t.Context(), unshare, "-Urn", program("nft"), "list", "ruleset").CombinedOutput(); err != nil {
		t.Skipf("there cannot be a network of its own here: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := gatewaytest.Binary(t) // which may be built first
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, unshare, "-Urn", self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+limit.String())
	cmd.Env = append(os.Environ(), networkVariable+"=1", "DRAGOMAN_BIN="+binary)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Logf("in a network of its own:\n%s", out)
	case err == nil && strings.Contains(string(out), "--- SKIP: "+t.Name()):
		t.Skip(string(out))
	default:
		t.Errorf("in a network of its own: %v\n%s", err, out)
	}
	return false
}

// program returns where a program is. Some are in places that not everybody looks.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", name)
}

// must runs a program, which must succeed, and returns what it says.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	return mustRead(t, "", name, args...)
}

// mustRead runs a program that reads a text.
func mustRead(t *testing.T, text, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(name), args...)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// A badLink is what happens to the packets of some ports: five of a hundred are lost
// in each direction, and of the rest a megabit passes in a second.
type badLink struct {
	t     *testing.T
	ports []string
}

// spoil makes the links to some addresses bad ones, each by itself.
func spoil(t *testing.T, addresses ...string) *badLink {
	t.Helper()
	l := &badLink{t: t}
	must(t, "tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb")
	var in, out, counters strings.Builder
	for _, address := range addresses {
		port := address[strings.LastIndexByte(address, ':')+1:]
		for i, way := range []string{"dport", "sport"} {
			class := fmt.Sprintf("1:%x", 2*len(l.ports)+i+1)
			must(t, "tc", "class", "add", "dev", "lo", "parent", "1:", "classid", class, "htb", "rate", "1mbit")
			fmt.Fprintf(&out, "tcp %s %s meta priority set %s\n", way, port, class)
			fmt.Fprintf(&in, "tcp %s %s numgen random mod 100 < 5 counter name %s%s drop\n", way, port, way, port)
			fmt.Fprintf(&counters, "counter %s%s { }\n", way, port)
		}
		l.ports = append(l.ports, port)
	}
	mustRead(t, fmt.Sprintf(`table inet bad {
		%s
		chain in { type filter hook input priority 0; %s }
		chain out { type filter hook output priority 0; %s }
	}`, &counters, &in, &out), "nft", "-f", "-")
	return l
}

var (
	packets   = regexp.MustCompile(`packets (\d+)`)
	overlimit = regexp.MustCompile(`overlimits (\d+)`)
)

// mend makes the links good ones, and fails the test unless they have been bad.
func (l *badLink) mend() {
	l.t.Helper()
	for _, port := range l.ports {
		for _, way := range []string{"dport", "sport"} {
			text := must(l.t, "nft", "list", "counter", "inet", "bad", way+port)
			lost := number(packets, text)
			if l.t.Logf("lost at %s %s: %d packets", way, port, lost); lost == 0 {
				l.t.Errorf("no packet was lost at %s %s, so nothing was shown", way, port)
			}
		}
	}
	text := must(l.t, "tc", "-s", "qdisc", "show", "dev", "lo")
	if held := number(overlimit, text); held == 0 {
		l.t.Errorf("nothing was held up, so nothing was shown: %s", text)
	}
	must(l.t, "nft", "flush", "ruleset")
	must(l.t, "tc", "qdisc", "del", "dev", "lo", "root")
}

// number returns the number that an expression finds, or 0.
func number(in *regexp.Regexp, text string) int {
	found := in.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1]) // digits alone
	return n
}
