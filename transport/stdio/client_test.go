package stdio

import (
	"bufio"
	"path/filepath"
	"slices"
	"testing"
)

func TestAProcessIsReadAndWrittenAsItIs(t *testing.T) {
	t.Setenv("SECRET_OF_OURS", "1")
	c := ourselves(t, "echo")
	at := c.Path
	t.Setenv("PATH", filepath.Dir(at))
	c.Path = filepath.Base(at)
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte("no message\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p).ReadString('\n')
	if err != nil || line != "no message\n" {
		t.Errorf("read %q, %v", line, err)
	}
	if p.File() != at {
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
