package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// A version is what a tree is called: that of its tag, or that of the release it comes
// before, with the number of its commits and its commit.
type version struct {
	number  string // 1.2.3
	pre     string // rc.1, or ""
	commits string // behind the tag, or since the beginning; "" at a tag
	commit  string // is set with commits
	dirty   bool   // it is not known what is in it: there is what is not committed, or no history
}

var (
	tagForm      = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-((?:alpha|beta|rc)\.\d+))?$`)
	describeForm = regexp.MustCompile(`^(v.*)-(\d+)-g([0-9a-f]+)$`)
)

// versionOf reads what git describe --tags --always --long says of a clean tree. commits counts those
// since the beginning, for a tree without a tag, which comes before next.
func versionOf(described, commits, next string) (v version, err error) {
	parts := describeForm.FindStringSubmatch(described)
	if parts == nil { // there is no tag
		number, _, _ := strings.Cut(next, "-")
		return version{number: number, commits: commits, commit: described}, nil
	}
	tag := tagForm.FindStringSubmatch(parts[1])
	if tag == nil {
		return v, fmt.Errorf("the tag %s is no version: write it as v1.2.3 or v1.2.3-rc.1", parts[1])
	}
	v = version{number: tag[1], pre: tag[2]}
	if parts[2] == "0" {
		return v, nil
	}
	if v.pre == "" { // it comes after 1.2.3, so it is before 1.2.4
		last := strings.LastIndexByte(v.number, '.') + 1
		patch, err := strconv.Atoi(v.number[last:])
		if err != nil {
			return v, err
		}
		v.number = v.number[:last] + strconv.Itoa(patch+1)
	}
	v.commits, v.commit = parts[2], parts[3]
	return v, nil
}

// String returns the version by the rules of semver.org, which are those of npm and Go.
// There is no + in it, because npm and file names do without what is behind one.
func (v version) String() string {
	var pre []string
	if v.pre != "" {
		pre = append(pre, v.pre)
	}
	if v.commits != "" {
		pre = append(pre, "dev", v.commits, "g"+v.commit)
	}
	if v.dirty {
		pre = append(pre, "dirty")
	}
	if len(pre) == 0 {
		return v.number
	}
	return v.number + "-" + strings.Join(pre, ".")
}

// python returns the version by the rules of PEP 440.
func (v version) python() string {
	text := v.number
	if kind, n, ok := strings.Cut(v.pre, "."); ok {
		text += map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[kind] + n
	}
	var local []string
	if v.commits != "" {
		if v.pre != "" {
			text += ".post" + v.commits // a .dev would come before the candidate
		} else {
			text += ".dev" + v.commits
		}
		local = append(local, "g"+v.commit)
	}
	if v.dirty {
		local = append(local, "dirty")
	}
	if len(local) > 0 {
		text += "+" + strings.Join(local, ".")
	}
	return text
}

// oldest is the first time that a zip file can say.
var oldest = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// describeTree returns the version of the tree here, and the time that everything in its
// release has: that of the commit, unless SOURCE_DATE_EPOCH says another.
func describeTree(ctx context.Context) (v version, made time.Time, err error) {
	var commits, seconds, changes string
	described, err := git(ctx, "describe", "--tags", "--always", "--long", "--abbrev=12", "--match", "v[0-9]*")
	if err != nil { // sources without their history
		v.number, _, v.dirty = strings.Cut(dragoman.Version, "-")
		seconds = "0"
	} else {
		for _, ask := range []struct {
			answer *string
			args   []string
		}{
			{&commits, []string{"rev-list", "--count", "HEAD"}},
			{&seconds, []string{"log", "-1", "--format=%ct"}},
			{&changes, []string{"status", "--porcelain"}},
		} {
			if *ask.answer, err = git(ctx, ask.args...); err != nil {
				return v, made, err
			}
		}
		if v, err = versionOf(described, commits, dragoman.Version); err != nil {
			return v, made, err
		}
		v.dirty = changes != ""
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return v, made, fmt.Errorf("SOURCE_DATE_EPOCH is %q, which is no number of seconds", seconds)
	}
	made = time.Unix(n, 0).UTC()
	if made.Before(oldest) {
		made = oldest
	}
	return v, made, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output() //nolint:gosec // our own
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
