package oauth_test

import (
	"fmt"
	"io"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
)

func ExampleNew() {
	server, stop := authtest.Start(nil)
	defer stop()
	source, err := oauth.New(&oauth.Config{
		Server: server.URL,
		Prompt: func(p oauth.Prompt) bool {
			fmt.Println("sign in, please")
			go func() { // in place of oauth.OpenBrowser(p.URL)
				if resp, err := http.Get(p.URL); err == nil {
					_ = resp.Body.Close()
				}
			}()
			return true
		},
		Wait: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	client := &http.Client{Transport: source.Transport(nil)}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s\n", text)
	// Output:
	// sign in, please
	// hello
}
