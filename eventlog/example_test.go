package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dragoman-mcp/dragoman/eventlog"
)

func ExampleMemory() {
	ctx := context.Background()
	log := eventlog.NewMemory(&eventlog.MemoryOptions{MaxEvents: 2})
	for _, event := range []string{"one", "two", "three"} {
		position, _ := log.Append(ctx, "stream", eventlog.End, []byte(event))
		fmt.Println(position, event)
	}
	missed, err := log.After(ctx, "stream", 1)
	fmt.Printf("%s %v\n", missed, err)
	_, err = log.After(ctx, "stream", 0)
	fmt.Println(errors.Is(err, eventlog.ErrLost))
	// Output:
	// 1 one
	// 2 two
	// 3 three
	// [two three] <nil>
	// true
}

// Events on disk: whoever opens the directory next has them.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "eventlog")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	for _, event := range []string{"one", "two"} {
		log, err := eventlog.Open(dir, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = log.Append(ctx, "stream", eventlog.End, []byte(event))
		all, err := log.After(ctx, "stream", 0)
		fmt.Printf("%s %v\n", all, err)
		_ = log.Close()
	}
	// Output:
	// [one] <nil>
	// [one two] <nil>
}
