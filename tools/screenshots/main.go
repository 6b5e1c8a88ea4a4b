// Command screenshots runs the program in a terminal and draws what is on its screen:
//
//	cd tools/screenshots && go run . ../../bin/dragoman ../../docs/images
//
// The terminal is tmux, with a home directory of its own, so that nothing of this machine is in the
// pictures. Port 8808 must be free.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A scene is what is typed into one terminal, and how large that is.
type scene struct {
	name  string
	lines int
	steps []step
}

// A step is a line that is typed or a request that somebody else makes, and what the screen shows when it
// is done.
type step struct {
	typed string
	url   string
	body  string
	until string
}

const columns = 120

// again is the prompt behind what a command has printed.
const again = "\n$"

var scenes = []scene{
	{"run", 11, []step{
		{typed: "dragoman run", until: "for the configuration of a client"},
		{url: "http://127.0.0.1:8808/call/echo", body: `{"text":"hello"}`, until: "tools/call echo"},
		{url: "http://127.0.0.1:8808/call/slow", body: `{"ms":300,"steps":3}`, until: "tools/call slow"},
		{url: "http://127.0.0.1:8808/call/ecko", body: `{}`, until: "tools/call ecko"},
	}},
	{"call", 21, []step{
		{typed: "dragoman tools echo add levels reflect large raise slow -- dragoman everything", until: again},
		{typed: "dragoman call echo text=hello -- dragoman everything", until: again},
		{typed: "dragoman call ecko text=hello -- dragoman everything", until: again},
	}},
	{"check", 10, []step{
		{typed: "dragoman check -- dragoman everything", until: again},
	}},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "screenshots: name the program, and the directory for the pictures")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, out string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	for _, s := range scenes {
		screen, err := s.play(ctx, program)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		file := filepath.Join(out, s.name+".svg")
		if err := os.WriteFile(file, []byte(draw(screen, columns)), 0o644); err != nil { //nolint:gosec // it is for everybody
			return err
		}
		fmt.Println(file)
	}
	return nil
}

// play returns the screen at the end of a scene, with the escape sequences of its colours.
func (s *scene) play(ctx context.Context, program string) (screen string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	home, err := os.MkdirTemp("", "screenshots-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	t := &terminal{socket: filepath.Join(home, "tmux")}
	t.env = []string{"HOME=" + home, "PATH=" + filepath.Dir(program) + ":/usr/bin:/bin", "TERM=xterm-256color", "LANG=C.UTF-8"}
	if _, err := t.tmux(ctx, "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(s.lines), "PS1='$ ' exec bash --norc --noprofile"); err != nil {
		return "", err
	}
	defer func() {
		_, end := t.tmux(context.WithoutCancel(ctx), "kill-server")
		err = errors.Join(err, end)
	}()
	if err := t.await(ctx, "$"); err != nil {
		return "", err
	}
	for _, step := range s.steps {
		if err := t.take(ctx, step); err != nil {
			return "", err
		}
	}
	return t.tmux(ctx, "capture-pane", "-p", "-e", "-N")
}

// A terminal is a tmux of our own.
type terminal struct {
	socket string
	env    []string
}

func (t *terminal) tmux(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-S", t.socket, "-f", "/dev/null"}, args...)...) //nolint:gosec // our own
	cmd.Env, cmd.Dir = t.env, filepath.Dir(t.socket)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}

// take takes a step, and waits until the screen shows that it is done.
func (t *terminal) take(ctx context.Context, s step) error {
	until := s.until
	if s.typed != "" {
		for _, keys := range [][]string{{"-l", s.typed}, {"Enter"}} {
			if _, err := t.tmux(ctx, append([]string{"send-keys"}, keys...)...); err != nil {
				return err
			}
		}
		if until == again {
			return t.prompt(ctx, s.typed)
		}
	} else {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(s.body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
	}
	return t.await(ctx, until)
}

// prompt waits for the prompt behind what a command has printed.
func (t *terminal) prompt(ctx context.Context, typed string) error {
	return t.awaitThat(ctx, func(screen string) bool {
		_, after, ok := strings.Cut(screen, "$ "+typed)
		return ok && strings.HasSuffix(strings.TrimRight(after, " \n"), again)
	})
}

func (t *terminal) await(ctx context.Context, text string) error {
	return t.awaitThat(ctx, func(screen string) bool { return strings.Contains(screen, text) })
}

// awaitThat looks at the screen until it is as wanted.
func (t *terminal) awaitThat(ctx context.Context, wanted func(screen string) bool) error {
	for {
		screen, err := t.tmux(ctx, "capture-pane", "-p")
		if err != nil || wanted(screen) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the screen is\n%s", ctx.Err(), screen)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
