package client_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestClientSpeaksTheServersEraWhateverIsRemembered(t *testing.T) {
	for _, is := range []protocol.Era{protocol.Legacy, protocol.Modern} {
		for _, was := range []protocol.Era{protocol.Legacy, protocol.Modern} {
			t.Run(is.String()+", was "+was.String(), func(t *testing.T) {
				c, err := client.Connect(t.Context(), child(t, is.String()), &client.Options{Hint: &was})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if c.Era() != is || c.Revision().Era() != is || c.ServerInfo().Name == "" {
					t.Errorf("it is taken for %v, revision %v, name %q", c.Era(), c.Revision(), c.ServerInfo().Name)
				}
				if _, err := c.CallTool(t.Context(), "echo", map[string]string{"text": "x"}, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
