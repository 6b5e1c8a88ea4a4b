package stdio_test

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

func TestAProcessIsReadAndWrittenAsItIs(t *testing.T) {
	t.Setenv("SECRET_OF_OURS", "1")
	p, err := (&stdio.Command{Path: "cat"}).Start()
	if err != nil {
		t.Skipf("there is no cat: %v", err)
	}
	if _, err := p.Write([]byte("no message\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p).ReadString('\n')
	if err != nil || line != "no message\n" {
		t.Errorf("read %q, %v", line, err)
	}
	if !strings.HasSuffix(p.File(), "/cat") {
		t.Errorf("it was found at %s", p.File())
	}
	if withheld := p.Withheld(); !slices.Contains(withheld, "SECRET_OF_OURS") || slices.Contains(withheld, "PATH") {
		t.Errorf("withheld are %q", withheld)
	}
	if exit := p.Stop(); exit.Status != 0 || exit.Signal != "" {
		t.Errorf("it ended with %v", exit)
	}
	if n, err := p.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("after its end %d bytes are read, %v", n, err)
	}
}
