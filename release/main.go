// Command release makes what users install, and lists what it is made of:
//
//	go run ./release all -out dist            makes everything for every platform
//	go run ./release sbom bin/dragoman        prints the parts of a program, as CycloneDX
//	go run ./release same                     builds the program in two directories and compares
//	go run ./release types linux/arm64 ...    checks that all would compile on other platforms
//	go run ./release prepare v1.2.3           writes the version into gosdk/go.mod, before it is tagged
//
// It is run in the root of the module. It needs Go, and for deb and rpm packages and the
// certificates of the image what tools/packages pins.
//
// The same sources make the same bytes: every archive is a list of entries (name, mode, bytes)
// that one function writes in order, all with the time of the commit. npm gets a script,
// "dragoman", that depends on @dragoman-mcp/OS-ARCH with the program; PyPI a wheel per
// platform; containers an OCI layout with one layer and an index over the platforms. The tests
// publish stand-ins for the program and read every format back; "make interop" installs the
// real ones.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "all":
		return runAll(ctx, args[1:])
	case len(args) == 2 && args[0] == "sbom":
		text, err := billOf(ctx, args[1])
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(text)
		return err
	case len(args) == 2 && args[0] == "prepare":
		return prepare(ctx, sdkModule, args[1])
	case len(args) == 1 && args[0] == "same":
		sum, err := buildTwice(ctx, ".")
		if err == nil {
			fmt.Printf("two builds in different directories are the same: sha256 %s\n", sum)
		}
		return err
	case len(args) > 1 && args[0] == "types":
		return runTypes(ctx, args[1:])
	}
	return errors.New("say all, sbom FILE, same, types PLATFORM..., or prepare VERSION")
}

// runTypes checks as many platforms at a time as there are processors.
func runTypes(ctx context.Context, names []string) error {
	of, err := platformsNamed(names)
	if err != nil {
		return err
	}
	errs := make([]error, len(of))
	atOnce := make(chan struct{}, runtime.GOMAXPROCS(0))
	var checks sync.WaitGroup
	for i, p := range of {
		checks.Go(func() {
			atOnce <- struct{}{}
			errs[i] = checkTypes(ctx, ".", p)
			<-atOnce
		})
	}
	checks.Wait()
	return errors.Join(errs...)
}

func runAll(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("all", flag.ContinueOnError)
	out := f.String("out", "dist", "`directory` for what is made; what is in it is removed")
	names := f.String("platforms", runtime.GOOS+"/"+runtime.GOARCH, "`list` of OS/ARCH, with spaces between them")
	if err := f.Parse(args); err != nil {
		return err
	}
	v, made, err := describeTree(ctx)
	if err != nil {
		return err
	}
	if err := checkModule(ctx, v, sdkModule, tagsHere(ctx)); err != nil {
		return err
	}
	r := &release{version: v, time: made, out: *out}
	if r.platforms, err = platformsNamed(strings.Fields(*names)); err != nil {
		return err
	}
	files, err := r.all(ctx)
	for _, file := range files {
		fmt.Println(file)
	}
	return err
}
