package fileutil_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAValueFollowsItsFilesAndIsKeptWhileTheyCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write(t, one, "a")
	write(t, two, "a")
	loads := 0
	var failures []string
	v, err := fileutil.NewReloaded(func() (string, error) {
		loads++
		a, _ := os.ReadFile(one)
		b, _ := os.ReadFile(two)
		if string(a) != string(b) {
			return "", errors.New("they do not fit")
		}
		return string(a), nil
	}, func(err error) { failures = append(failures, err.Error()) }, one, two)
	if err != nil {
		t.Fatal(err)
	}
	want := func(text string, failed int, n int) {
		t.Helper()
		for range 3 {
			if got := v.Get(); got != text || len(failures) != failed || loads != n {
				t.Errorf("%q, read %d times, failures %q; want %q, %d, %d", got, loads, failures, text, n, failed)
			}
		}
	}
	want("a", 0, 1)
	write(t, one, "bb")
	want("a", 1, 2)
	write(t, two, "bb")
	want("bb", 1, 3)
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	want("bb", 2, 3)
	if !strings.HasPrefix(failures[1], two+": ") {
		t.Errorf("the missing file is not named: %q", failures[1])
	}
	write(t, two, "ccc")
	want("bb", 3, 4)
	write(t, one, "ccc")
	want("ccc", 3, 5)
}

func TestNobodyWaitsForAFileThatAnotherReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "a")
	reading, proceed := make(chan struct{}), make(chan struct{})
	first := true
	v, err := fileutil.NewReloaded(func() (string, error) {
		if !first {
			close(reading)
			<-proceed
		}
		first = false
		text, err := os.ReadFile(path)
		return string(text), err
	}, nil, path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "bb")
	var other sync.WaitGroup
	other.Go(func() { // ends when it may continue
		if got := v.Get(); got != "bb" {
			t.Errorf("who reads gets %q", got)
		}
	})
	<-reading
	if got := v.Get(); got != "a" {
		t.Errorf("meanwhile it is %q", got)
	}
	close(proceed)
	other.Wait()
}

func TestFilesThatAreNotThereAtTheStartAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := fileutil.NewReloaded(func() (int, error) { return 0, nil }, nil, path)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := fileutil.NewReloaded(func() (int, error) { return 0, nil }, nil, t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}
