package httpclient_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
)

func TestS29_NobodyIsLedToAddressesThatOnlyWeCanReach(t *testing.T) {
	var came atomic.Int32
	trap := httptest.NewUnstartedServer(http.NotFoundHandler())
	trap.Config.ConnState = func(net.Conn, http.ConnState) { came.Add(1) }
	trap.Start()
	defer trap.Close()
	_, port, err := net.SplitHostPort(trap.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	transport := httpclient.Transport()
	defer transport.CloseIdleConnections()
	web := &http.Client{Transport: transport}
	t.Setenv("HTTP_PROXY", trap.URL)
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.1.2.3", "192.168.0.1", "[fd00:ec2::254]", "[64:ff9b::7f00:1]"} {
		resp, err := web.Get("http://" + host + ":" + port + "/")
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, httpclient.ErrAddress) {
			t.Errorf("%s: %v, want that the address is refused", host, err)
		}
	}
	if came.Load() != 0 {
		t.Errorf("%d connections came to this machine", came.Load())
	}
}

func TestClassesOfAddresses(t *testing.T) {
	for text, want := range map[string]httpclient.Class{
		"8.8.4.4": httpclient.Public, "2606:4700::1": httpclient.Public, "10.0.0.9": httpclient.Private, "fc00::1": httpclient.Private,
		"::ffff:127.0.0.1": httpclient.Loopback, "2002:7f00:1::": httpclient.Loopback, "169.254.169.254": httpclient.Reserved, "fe80::1": httpclient.Reserved,
	} {
		if got := httpclient.ClassOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	if got := httpclient.ClassOf(netip.Addr{}); got != httpclient.Reserved {
		t.Errorf("no address is %v", got)
	}
}
